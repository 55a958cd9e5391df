"""`lakelog doctor spark`: what usually breaks between pip install and the first row.

    here       Python, PySpark, Java, pyarrow; packages called pyspark_* that cannot be imported
    workers    the same Python and packages; kernels cached or compiled anew; the store in reach
    source     format("lakelog") is known to Spark

Each check says what it found and, where that is not good, what to do. Checks go on behind one that
fails, as far as there is any point.
"""

import pkgutil
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from lakelog.host import install_command
from lakelog.spark import probe as probes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Check", "check_here", "check_java", "check_workers"]

JAVA_MIN = 17
PYTHON_MIN = (3, 11)
_PYSPARK = re.compile(r"pyspark_\w+")
_COLD = (
    "the first task of each worker compiles them, many seconds; give all workers one writable "
    "NUMBA_CACHE_DIR, or run lakelog warm once where they run"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    good: bool
    found: str
    remedy: str = ""


# ---------------------------------------------------------------------------- here


def check_here(java_home: str | None) -> Iterator[Check]:
    """Look at this process and machine."""
    told = ".".join(map(str, sys.version_info[:3]))
    yield Check(
        name="python",
        good=sys.version_info >= PYTHON_MIN,
        found=f"{told}, {sys.executable}",
        remedy="use Python 3.11 or later",
    )
    yield _package("pyspark", least=4)
    yield _package("pyarrow", least=18)
    yield check_java(java_home)
    yield from _neighbours()


def _package(name: str, *, least: int) -> Check:
    try:
        found = version(name)
    except PackageNotFoundError:
        return Check(name=name, good=False, found="missing", remedy=_install())
    good = int(found.split(".")[0]) >= least
    return Check(name=name, good=good, found=found, remedy=f"use {name} {least} or later")


def check_java(java_home: str | None) -> Check:
    """Look for the Java that Spark will run."""
    remedy = f"install a JDK {JAVA_MIN} or later, or set JAVA_HOME to one"
    command = f"{java_home}/bin/java" if java_home else shutil.which("java")
    if command is None:
        return Check(name="java", good=False, found="missing", remedy=remedy)
    try:
        done = subprocess.run(  # noqa: S603 (the user's own Java)
            [command, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check(name="java", good=False, found=f"{command}: {error}", remedy=remedy)
    # Other lines may come first: Java tells of options that it found in the environment.
    said = (done.stderr or done.stdout).strip()
    told = re.search(r'^.*version "(?:1\.)?([0-9]+).*$', said, re.MULTILINE)
    if told is None:
        return Check(name="java", good=False, found=said or "no answer", remedy=remedy)
    return Check(name="java", good=int(told[1]) >= JAVA_MIN, found=told[0], remedy=remedy)


def _neighbours() -> Iterator[Check]:
    """Look at every package that Spark imports when it looks for data sources."""
    names = sorted({m.name for m in pkgutil.iter_modules() if _PYSPARK.fullmatch(m.name)})
    for name in names:
        # In a process of its own: an import cannot be undone, and a broken one may do anything.
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", f"import {name}"], capture_output=True, text=True, check=False
        )
        said = done.stderr.strip().rpartition("\n")[2]
        yield Check(
            name=name,
            good=done.returncode == 0,
            found="can be imported" if done.returncode == 0 else said,
            remedy="uninstall or mend it: while it fails, Spark finds no Python data source at all",
        )


# ---------------------------------------------------------------------------- workers


def check_workers(
    spark: "SparkSession", url: str | None, options: Mapping[str, str]
) -> Iterator[Check]:
    """Look at the workers of a cluster, and at the source as Spark sees it."""
    from pyspark import cloudpickle

    context = spark.sparkContext
    slots = max(2, context.defaultParallelism)
    cloudpickle.register_pickle_by_value(probes)
    try:
        rows = context.parallelize(range(slots), slots)
        found = rows.mapPartitions(lambda part: probes.probe(part, url, dict(options))).collect()
    finally:
        cloudpickle.unregister_pickle_by_value(probes)
    workers = {(one["host"], one["pid"]): one for one in found}
    hosts = {host for host, _ in workers}
    yield Check(name="workers", good=True, found=f"{len(workers)} on {len(hosts)} hosts")
    yield from _judge(list(workers.values()), url)
    yield _source(spark)


def _judge(workers: list[dict[str, Any]], url: str | None) -> Iterator[Check]:
    yield _same(
        "worker python",
        [f"{one['python']}, {one['executable']}" for one in workers],
        bad=[_at(one, one["python"]) for one in workers if not _same_python(one["python"])],
        remedy="driver and workers need the same Python; set PYSPARK_PYTHON on all machines",
    )
    for name in probes.PACKAGES:
        yield _same(
            name,
            [one["packages"].get(name, "missing") for one in workers],
            bad=[_at(one, one["errors"][name]) for one in workers if name in one["errors"]],
            remedy=_install(),
        )
    loaded = [one for one in workers if "kernels_cached" in one]
    yield _same(
        "kernels",
        [f"from {one['kernel_cache']}" for one in loaded],
        bad=[
            *(_at(one, one["errors"]["kernels"]) for one in workers if "kernels" in one["errors"]),
            *(
                _at(one, f"cold, compiled in {one['kernel_seconds']:.0f} s")
                for one in loaded
                if not one["kernels_cached"]
            ),
        ],
        remedy=_COLD,
    )
    if url is not None:
        reached = [one for one in workers if "store_seconds" in one]
        slowest = max((one["store_seconds"] for one in reached), default=0.0)
        yield _same(
            "store",
            [f"{url} answers within {1000 * slowest:.0f} ms"],
            bad=[_at(one, one["errors"]["store"]) for one in workers if "store" in one["errors"]],
            remedy="give executors the store's address and credentials: --store-option NAME=VALUE",
        )


def _same_python(found: str) -> bool:
    return found.split(".")[:2] == [str(part) for part in sys.version_info[:2]]


def _at(worker: dict[str, Any], what: str) -> str:
    return f"{worker['host']}: {what}"


def _same(name: str, found: list[str], *, bad: list[str], remedy: str) -> Check:
    told = ", ".join(sorted(set(bad or found))) or "not looked at"
    return Check(name=name, good=not bad, found=told, remedy=remedy)


def _source(spark: "SparkSession") -> Check:
    try:
        # It says that options are missing, if it is there to say anything.
        spark.read.format("lakelog").load()
    except Exception as error:  # noqa: BLE001
        is_there = "Spark passed no options" in str(error) or "option 'path'" in str(error)
        said = "known to Spark" if is_there else str(error).strip().partition("\n")[0]
        return Check(name='format("lakelog")', good=is_there, found=said, remedy=_install())
    return Check(name='format("lakelog")', good=True, found="known to Spark")


def _install() -> str:
    return f"{install_command('spark')} with the Python that Spark's workers run"
