"""The jars of Apache Kafka, of Spark's reader of it, and the compiled Java oracle, in a cache
outside the checkout.

`python -m tests.parts.jars` fills the cache ahead of time. Each entry is keyed by the hash of all
that goes into it and appears by one rename, so an entry that exists is complete, two runs may race
for it, and a later run starts neither Maven nor the compiler.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.parts.jvm import jdk_tool
from tests.parts.process import FailedPartError, MissingPartError

_HERE = Path(__file__).parent
_POM = _HERE / "pom.xml"
_SPARK_POM = _HERE / "pom-spark.xml"
_ORACLE = _HERE / "java" / "ReadAll.java"


def cache() -> Path:
    """The folder for everything the tests keep between runs."""
    chosen = os.environ.get("LAKELOG_TEST_CACHE")  # noqa: TID251 (tests have no settings file)
    return Path(chosen) if chosen else Path.home() / ".cache" / "lakelog"


def kafka_jars() -> Path:
    """A folder with the jars named by pom.xml and all they need."""
    return _entry("jars", _POM.read_bytes(), partial(_copy_dependencies, _POM))


def spark_kafka_jars() -> list[Path]:
    """The jars that give Spark its ``format("kafka")``, for ``spark.jars``."""
    make = partial(_copy_dependencies, _SPARK_POM)
    return sorted(_entry("spark-jars", _SPARK_POM.read_bytes(), make).glob("*.jar"))


def classpath() -> str:
    """All of Kafka and the compiled oracle, for `java -cp`."""
    jars = kafka_jars()

    def compile_oracle(into: Path) -> None:
        _run([jdk_tool("javac"), "-cp", f"{jars}/*", "-d", str(into), str(_ORACLE)])

    oracle = _entry("oracle", _POM.read_bytes() + _ORACLE.read_bytes(), compile_oracle)
    return f"{oracle}:{jars}/*"


def _copy_dependencies(pom: Path, into: Path) -> None:
    if shutil.which("mvn") is None:
        raise MissingPartError("`mvn` is missing: install Maven (Debian: apt-get install maven)")
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={into}"]
    _run(["mvn", "--batch-mode", "--quiet", "--strict-checksums", "--file", str(pom), *goal])


def _entry(kind: str, ingredients: bytes, make: Callable[[Path], None]) -> Path:
    entry = cache() / f"{kind}-{hashlib.sha256(ingredients).hexdigest()[:16]}"
    if entry.is_dir():
        return entry
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache(), prefix="making-") as scratch:
        made = Path(scratch, kind)
        made.mkdir()
        make(made)
        try:
            made.rename(entry)
        except OSError:
            # Another run has made the same entry in the meantime, and that one is as good.
            if not entry.is_dir():
                raise
    return entry


def _run(argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode != 0:
        raise FailedPartError(f"{argv[0]} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    classpath()
    spark_kafka_jars()
    sys.stdout.write(f"{kafka_jars()}\n")
