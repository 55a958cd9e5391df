"""The jars of Apache Kafka, of what runs around it, of Spark's reader of it, of an issuer of
tokens, and compiled Java, in a cache outside the checkout.

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
_AROUND_POM = _HERE / "pom-around.xml"
_OIDC_POM = _HERE / "pom-oidc.xml"
_ORACLE = _HERE / "java" / "ReadAll.java"


def cache() -> Path:
    """The folder for everything the tests keep between runs."""
    chosen = os.environ.get("LAKELOG_TEST_CACHE")  # noqa: TID251 (tests have no settings file)
    return Path(chosen) if chosen else Path.home() / ".cache" / "lakelog"


def kafka_jars() -> Path:
    """A folder with the jars named by pom.xml and all they need."""
    return entry("jars", _POM.read_bytes(), partial(_copy_dependencies, _POM))


def spark_kafka_jars() -> list[Path]:
    """The jars that give Spark its ``format("kafka")``, for ``spark.jars``."""
    make = partial(_copy_dependencies, _SPARK_POM)
    return sorted(entry("spark-jars", _SPARK_POM.read_bytes(), make).glob("*.jar"))


def oidc_classpath() -> str:
    """An issuer of tokens, for `java -cp`."""
    make = partial(_copy_dependencies, _OIDC_POM)
    return f"{entry('oidc-jars', _OIDC_POM.read_bytes(), make)}/*"


def around_classpath(source: Path | None = None) -> str:
    """Kafka Streams and Connect, and the classes of one source, for `java -cp`."""
    pom = _AROUND_POM.read_bytes()
    jars = entry("around-jars", pom, partial(_copy_dependencies, _AROUND_POM))
    if source is None:
        return f"{jars}/*"

    def compile_source(into: Path) -> None:
        run_tool([jdk_tool("javac"), "-cp", f"{jars}/*", "-d", str(into), str(source)])

    return f"{jars}/*:{entry('around', pom + source.read_bytes(), compile_source)}"


def classpath() -> str:
    """All of Kafka and the compiled oracle, for `java -cp`."""
    return compiled("oracle", _ORACLE)


def compiled(kind: str, source: Path) -> str:
    """All of Kafka and the classes of one source, for `java -cp`."""
    jars = kafka_jars()

    def compile_source(into: Path) -> None:
        run_tool([jdk_tool("javac"), "-cp", f"{jars}/*", "-d", str(into), str(source)])

    # The jars first: an archive of classes is of a class path that begins so.
    return f"{jars}/*:{entry(kind, _POM.read_bytes() + source.read_bytes(), compile_source)}"


def _copy_dependencies(pom: Path, into: Path) -> None:
    if shutil.which("mvn") is None:
        raise MissingPartError("`mvn` is missing: install Maven (Debian: apt-get install maven)")
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={into}"]
    run_tool(["mvn", "--batch-mode", "--quiet", "--strict-checksums", "--file", str(pom), *goal])


def entry(kind: str, ingredients: bytes, make: Callable[[Path], None]) -> Path:
    """A folder of the cache that `make` filled, now or in an earlier run."""
    found = cache() / f"{kind}-{hashlib.sha256(ingredients).hexdigest()[:16]}"
    if found.is_dir():
        return found
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache(), prefix="making-") as scratch:
        made = Path(scratch, kind)
        made.mkdir()
        make(made)
        try:
            made.rename(found)
        except OSError:
            # Another run has made the same entry in the meantime, and that one is as good.
            if not found.is_dir():
                raise
    return found


def run_tool(argv: list[str], cwd: Path | None = None) -> None:
    """Run a tool that builds or fetches something; one that fails is quoted."""
    done = subprocess.run(argv, capture_output=True, text=True, cwd=cwd)
    if done.returncode != 0:
        raise FailedPartError(f"{argv[0]} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    classpath()
    spark_kafka_jars()
    around_classpath()
    oidc_classpath()
    sys.stdout.write(f"{kafka_jars()}\n")
