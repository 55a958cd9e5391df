"""The examples do what they say, as somebody would run them."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import lakelog
from lakelog.pipeline import run_here
from tests.parts.archives import quick_environment
from tests.stores import make_records, write_partition, write_topic
from tests.unit.pipeline.home import Home

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=180, env=quick_environment()
    )


def test_sql_on_a_dead_brokers_disk(tmp_path: Path) -> None:
    write_topic(tmp_path / "broker-1", "kafka")
    write_topic(tmp_path / "broker-2", "kafka")
    done = run("dead_broker_sql.py", tmp_path, "orders")
    assert done.returncode == 0, done.stderr
    assert "|0        |1000   |0    |999 " in done.stdout
    assert "|key-1|" in done.stdout


def test_an_audit_names_what_is_damaged(tmp_path: Path) -> None:
    write_topic(tmp_path, "kafs")
    write_partition(tmp_path, "kafs", make_records("kafs", 10), topic="whole")
    victim = sorted(tmp_path.rglob("*.kfs"))[0]
    data = bytearray(victim.read_bytes())
    data[1000] ^= 1
    victim.write_bytes(data)
    done = run("audit_bucket.py", tmp_path, "kafs")
    assert done.returncode == 1, done.stderr
    assert "|orders|6       |" in done.stdout
    assert "|whole |1       |10     |0      |" in done.stdout
    assert str(victim.relative_to(tmp_path)) in done.stdout


def test_a_topic_is_archived_and_restored(tmp_path: Path) -> None:
    write_topic(tmp_path / "kafka", "kafka")
    done = run(
        "archive_topic.py",
        tmp_path / "kafka",
        tmp_path / "archive",
        tmp_path / "restored",
        "orders",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "compare: {'good': 6}, 2000 records" in done.stdout
    assert list((tmp_path / "archive").rglob("*.seg"))


def test_duckdb_and_polars_read_the_stream(tmp_path: Path) -> None:
    write_topic(tmp_path, "strm")
    done = run("duckdb_log.py", tmp_path, "strm")
    assert done.returncode == 0, done.stderr
    assert "orders" in done.stdout
    assert "999" in done.stdout
    frame = pl.from_arrow(
        lakelog.scan(str(tmp_path), layout="strm", columns=["partition", "offset"])
    )
    assert isinstance(frame, pl.DataFrame)
    assert frame.group_by("partition").len().sort("partition").rows() == [(0, 1000), (1, 1000)]


def test_duckdb_and_polars_read_the_live_log(tmp_path: Path) -> None:
    home = Home(tmp_path / "log")
    home.fill(home.topic(partitions=1), 9)
    run_here(home.seal())
    home.fill(home.topic("others", partitions=1), 5)
    done = run("duckdb_log.py", home.url)
    assert done.returncode == 0, done.stderr
    for topic, last in (("orders", 26), ("others", 14)):
        (line,) = (line for line in done.stdout.splitlines() if topic in line)
        assert f" {last} " in line
    frame = pl.from_arrow(lakelog.scan(home.url, columns=["topic"]))
    assert isinstance(frame, pl.DataFrame)
    assert frame.group_by("topic").len().sort("topic").rows() == [("orders", 27), ("others", 15)]
