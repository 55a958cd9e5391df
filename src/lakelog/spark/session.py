"""The Spark session of a run from the command line.

Without a master it is Spark in this process, or what spark-submit was told. Workers run the Python
that runs this, unless PYSPARK_PYTHON says otherwise: the `python3` that happens to be first on the
path may not have lakelog.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from lakelog.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark_session"]

_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}


@contextmanager
def spark_session(
    master: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator["SparkSession"]:
    """Give a session: the one that is there, or one that ends with the block.

    Raises:
        InvalidInputError: PySpark is not installed.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise InvalidInputError(
            "the pipeline runs on Spark: pip install 'lakelog[spark]', and Java 17"
        ) from error
    there = SparkSession.getActiveSession()
    if there is not None:
        yield there
        return
    # Spark takes these two from the environment alone.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # noqa: TID251
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)  # noqa: TID251
    builder = SparkSession.builder.appName("lakelog")
    if master is not None:
        builder = builder.remote(master) if master.startswith("sc:") else builder.master(master)
    with as_file(files("lakelog.spark") / "log4j2.properties") as logging:
        quiet = {"spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={logging}"}
        remote = master is not None and master.startswith("sc:")
        defaults = {} if remote else {**_QUIET, **quiet}
        session = builder.config(map={**defaults, **(settings or {})}).getOrCreate()
        try:
            yield session
        finally:
            session.stop()
