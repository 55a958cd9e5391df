"""A real Spark in this process: two threads, loopback only, no web interface, quiet."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.parts.jvm import java
from tests.parts.process import LOOPBACK, MissingPartError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGING = """\
rootLogger.level = error
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


@contextlib.contextmanager
def running_spark(
    settings: Mapping[str, str] | None = None, jvm: Sequence[str] = ()
) -> Iterator["SparkSession"]:
    """A Spark session whose warehouse is a temporary folder, gone afterwards.

    Spark keeps one JVM per process, so the settings of a second session in the same process
    cannot change those that only a JVM start can, such as `spark.driver.memory`.
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as missing:
        raise MissingPartError("install the Python package pyspark (make setup)") from missing
    java()
    # Spark reads these from the environment alone: the Python of its workers, and the address
    # it would otherwise look up by the name of the machine.
    os.environ["PYSPARK_PYTHON"] = sys.executable  # noqa: TID251
    os.environ["SPARK_LOCAL_IP"] = LOOPBACK  # noqa: TID251
    with tempfile.TemporaryDirectory(prefix="lakelog-spark-") as home:
        logging = Path(home, "log4j2.properties")
        logging.write_text(_LOGGING)
        quiet = f"-Dlog4j2.configurationFile={logging.as_uri()}"
        defaults = {
            "spark.master": "local[2]",
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.defaultJavaOptions": " ".join([*jvm, quiet]),
            "spark.local.dir": str(Path(home, "scratch")),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(Path(home, "warehouse")),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        builder = SparkSession.builder.appName("lakelog-tests")
        session = builder.config(map={**defaults, **(settings or {})}).getOrCreate()
        try:
            yield session
        finally:
            session.stop()
