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
        from pyspark.sql.datasource import DataSourceReader
        from pyspark.sql.types import StructType

    class DefaultSource(DataSource):
        """Segments of Kafka, KAFS, STRM and RustLog, with the columns of Spark's Kafka source."""

        @classmethod
        def name(cls) -> str:
            return "lakelog"

        def schema(self) -> str:
            from lakelog.spark import schema_of

            return schema_of(dict(self.options))

        def reader(self, schema: "StructType") -> "DataSourceReader":
            from lakelog.spark import reader_of

            return reader_of(schema, dict(self.options))
