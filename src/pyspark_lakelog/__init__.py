"""The door through which Spark finds ``format("lakelog")``.

Spark imports every top-level package called ``pyspark_*`` when it looks for a Python data source,
and one that fails takes all others down with it. So this one imports nothing but Spark's own base
class, and nothing that can be missing; the source itself is imported when it is used.
"""

from typing import TYPE_CHECKING

try:
    from pyspark.sql.datasource import DataSource
except ImportError:  # Spark before 4.0, or none at all: there is no door to open.
    pass
else:
    if TYPE_CHECKING:
        from pyspark.sql.datasource import (
            DataSourceArrowWriter,
            DataSourceReader,
            DataSourceStreamReader,
            DataSourceStreamWriter,
        )
        from pyspark.sql.types import StructType

    class DefaultSource(DataSource):
        """A log, live or in segments of any format, with the columns of Spark's Kafka source."""

        @classmethod
        def name(cls) -> str:
            return "lakelog"

        def schema(self) -> str:
            from lakelog.spark import schema_of, told_plainly

            with told_plainly():
                return schema_of(dict(self.options))

        def reader(self, schema: "StructType") -> "DataSourceReader":
            from lakelog.spark import reader_of, told_plainly

            with told_plainly():
                return reader_of(schema, dict(self.options))

        def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802
            from lakelog.spark import stream_reader_of, told_plainly

            with told_plainly():
                return stream_reader_of(schema, dict(self.options))

        def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceArrowWriter":
            from lakelog.spark import told_plainly, writer_of

            with told_plainly():
                return writer_of(schema, dict(self.options), overwrite=overwrite)

        def streamWriter(  # noqa: N802
            self,
            schema: "StructType",
            overwrite: bool,  # noqa: ARG002 (in mode complete, too, rows are appended)
        ) -> "DataSourceStreamWriter":
            from lakelog.spark import stream_writer_of, told_plainly

            with told_plainly():
                return stream_writer_of(schema, dict(self.options))
