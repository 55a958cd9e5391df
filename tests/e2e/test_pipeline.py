"""The pipeline as people run it: from the command line, by spark-submit, on a cluster that breaks.

Functions that take a session and are handed to a cluster run in its driver's own process.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from lakelog.host import THIS_HOST
from lakelog.pipeline.jobs import seal_job
from lakelog.records import Codec
from lakelog.spark import jobs
from tests.parts.archives import quick_environment
from tests.parts.seaweedfs import SeaweedFS
from tests.parts.spark_cluster import SparkCluster
from tests.stores import make_records, write_partition, write_topic
from tests.unit.pipeline.home import Home

pytestmark = pytest.mark.spark

LOCAL = ["--master", "local[2]", "--conf", "spark.driver.bindAddress=127.0.0.1",
         "--conf", "spark.driver.host=127.0.0.1"]  # fmt: skip
SEGMENTS = 24


def lakelog(*arguments: object, within_s: float = 120) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "lakelog", *map(str, arguments)]
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=within_s, env=quick_environment()
    )


def pipeline(verb: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return lakelog("pipeline", verb, *arguments, *LOCAL)


# ---------------------------------------------------------------------------- the command line


def test_a_dry_run_starts_no_spark_and_tells_the_price(tmp_path: Path) -> None:
    write_topic(tmp_path / "a", "kafs")
    where = [tmp_path / "a", tmp_path / "b", "--layout", "kafs", "--to", "strm"]
    done = pipeline("convert", *where, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert (plan["verb"], plan["units"], plan["objects_read"]) == ("convert", 6, 12)
    assert (plan["objects_written"], plan["requests"]["put"]) == (6, 6)
    assert plan["price_usd"] > 0
    assert not (tmp_path / "b").exists()
    told = pipeline("convert", *where, "--dry-run").stdout
    assert "segments   6\n" in told
    assert "12 objects" in told


def test_verify_finds_damage_reports_it_and_says_so_by_its_exit_code(tmp_path: Path) -> None:
    write_topic(tmp_path / "a", "kafs")
    good = pipeline("verify", tmp_path / "a", "--layout", "kafs", "--json")
    assert (good.returncode, json.loads(good.stdout)["records"]) == (0, 2000), good.stderr
    victim = sorted((tmp_path / "a").rglob("*.kfs"))[0]
    data = bytearray(victim.read_bytes())
    data[500] ^= 8
    victim.write_bytes(data)
    saved = tmp_path / "report"
    bad = pipeline("verify", tmp_path / "a", "--layout", "kafs", "--report", saved)
    assert bad.returncode == 1, bad.stderr
    assert "orders/0/segment-00000000000000000000.kfs" in bad.stdout
    assert "CRC-32C" in bad.stdout
    assert "next: lakelog inspect" in bad.stdout
    assert list(saved.glob("*.parquet"))


HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "audit-a-bucket.md"


def audit_of_the_how_to(url: str) -> list[subprocess.CompletedProcess[str]]:
    """Type in what the how-to says: its dry run, and its run."""
    typed = re.findall(
        r"^\$ lakelog (pipeline verify s3://bucket/prefix .*)$", HOW_TO.read_text(), re.M
    )
    assert len(typed) == 2
    words = [line.replace("s3://bucket/prefix", url).split() for line in typed]
    return [lakelog(*some, "--json", *LOCAL, within_s=300) for some in words]


def test_the_audit_of_the_how_to_finds_what_spark_has_sealed(
    spark: SparkSession, tmp_path: Path
) -> None:
    home = Home(tmp_path)
    topic = home.topic(partitions=3)
    home.fill(topic, 30)
    assert jobs.run_job(spark, seal_job(home.url, host=THIS_HOST, backlog_ms=0)).records == 90
    dry, good = audit_of_the_how_to(home.url)
    assert (dry.returncode, json.loads(dry.stdout)["units"]) == (0, 3), dry.stderr
    told = json.loads(good.stdout)
    assert (good.returncode, told["verdict"]) == (0, "good"), good.stderr
    assert (told["outcomes"], told["records"], told["segments"]) == ({"good": 3}, 90, 3)
    victim = sorted(tmp_path.rglob("*.kfs"))[1]
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 8
    victim.write_bytes(data)
    _, bad = audit_of_the_how_to(home.url)
    told = json.loads(bad.stdout)
    assert (bad.returncode, told["outcomes"]) == (1, {"damaged": 1, "good": 2}), bad.stderr
    assert told["found"][0]["object"] == str(victim.relative_to(tmp_path))


def test_what_has_no_checksum_ends_as_unverifiable(tmp_path: Path) -> None:
    write_topic(tmp_path / "a", "rustlog")
    saved = tmp_path / "report"
    words = ("pipeline", "verify", tmp_path / "a", "--layout", "rustlog", "--report", saved)
    done = lakelog(*words, *LOCAL, within_s=300)
    assert done.returncode == 5, done.stderr
    assert done.stdout.startswith(f"verify {tmp_path / 'a'}: unverifiable")
    assert "segments   6 unverifiable" in done.stdout
    assert "this format has no checksum" in done.stdout
    table = parquet.read_table(saved)
    assert set(table.column("outcome").to_pylist()) == {"unverifiable"}


def test_a_wrong_call_and_a_store_that_is_not_there_are_told_apart(tmp_path: Path) -> None:
    wrong = pipeline("reindex", tmp_path, "--layout", "strm")
    assert wrong.returncode == 2
    assert "carries its index inside" in wrong.stderr
    gone = pipeline("verify", "s3://nobody/here", "--layout", "kafs",
                    "--store-option", "endpoint=http://127.0.0.1:1",
                    "--store-option", "access_key_id=a", "--store-option", "secret_access_key=b",
                    "--store-option", "region=us-east-1")  # fmt: skip
    assert gone.returncode == 3
    assert "Traceback" not in gone.stderr


def test_spark_submit_runs_the_same_verbs(tmp_path: Path) -> None:
    import pyspark

    write_topic(tmp_path / "a", "kafka", partitions=1)
    script = subprocess.run(
        [sys.executable, "-m", "lakelog.spark.submit"], capture_output=True, text=True, check=True
    ).stdout.strip()
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = ["--conf", f"spark.pyspark.python={sys.executable}",
                "--conf", "spark.driver.host=127.0.0.1"]  # fmt: skip
    done = subprocess.run(
        [submit, "--master", "local[2]", *settings, script,
         "verify", tmp_path / "a", "--layout", "kafka", "--json"],
        capture_output=True, text=True, timeout=120, env=quick_environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.strip().splitlines()[-1])["records"] == 1000


def test_doctor_finds_nothing_wrong_here(tmp_path: Path) -> None:
    write_topic(tmp_path, "kafs", partitions=1)
    done = lakelog("doctor", "spark", "--path", tmp_path, "--json", *LOCAL)
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert {"java", "pyspark_lakelog", "kernels", "store", 'format("lakelog")'} <= checks.keys()
    # Whether kernels were compiled before depends on what ran before.
    assert [one for name, one in checks.items() if not one["good"] and name != "kernels"] == []


def test_doctor_finds_a_broken_neighbour_and_a_store_out_of_reach(tmp_path: Path) -> None:
    (tmp_path / "pyspark_broken.py").write_text("import nothing_of_the_kind\n")
    argv = [sys.executable, "-m", "lakelog", "doctor", "spark", "--json", *LOCAL]
    store = ["--path", "s3://nobody/here", "--store-option", "endpoint=http://127.0.0.1:1",
             "--store-option", "access_key_id=a", "--store-option", "secret_access_key=b",
             "--store-option", "region=us-east-1"]  # fmt: skip
    done = subprocess.run(
        [*argv, *store], capture_output=True, text=True, timeout=180,
        env={**quick_environment(), "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    bad = {one["name"]: one for one in json.loads(done.stdout)["checks"] if not one["good"]}
    assert done.returncode == 1
    assert "nothing_of_the_kind" in bad["pyspark_broken"]["found"]
    assert "--store-option" in bad["store"]["remedy"]


# ---------------------------------------------------------------------------- S3


@pytest.mark.seaweedfs
def test_a_bucket_is_converted_verified_and_read(
    spark: SparkSession, seaweedfs: SeaweedFS, tmp_path: Path
) -> None:
    write_topic(tmp_path, "kafka")
    url, options = f"s3://{seaweedfs.bucket('pipeline')}/ns", seaweedfs.options
    made = jobs.convert(
        spark, str(tmp_path), layout="kafka", target=url, target_layout="kafs",
        target_store_options=options,
    )  # fmt: skip
    assert made.outcomes == {"written": 6}
    assert jobs.verify(spark, url, layout="kafs", store_options=options).records == 2000
    again = jobs.convert(
        spark, str(tmp_path), layout="kafka", target=url, target_layout="kafs",
        target_store_options=options,
    )  # fmt: skip
    assert again.outcomes == {"present": 6}
    same = jobs.compare(
        spark, str(tmp_path), layout="kafka", against=url, against_layout="kafs",
        against_store_options=options,
    )  # fmt: skip
    assert same.is_good
    reader = spark.read.format("lakelog").option("path", url).option("layout", "kafs")
    for name, value in options.items():
        reader = reader.option(f"store.{name}", value)
    assert reader.load().count() == 2000


# ---------------------------------------------------------------------------- a cluster


def write_large(root: Path) -> None:
    for partition in range(2):
        records = make_records("kafka", SEGMENTS * 250, partition=partition, step_ms=1000)
        write_partition(
            root, "kafka", records, partition=partition, segment_records=500, codec=Codec.LZ4
        )


def convert_all(spark: SparkSession, source: str, target: str) -> dict[str, object]:
    report = jobs.convert(
        spark, source, layout="kafka", target=target, target_layout="strm",
        codec="zstd", level=19, task_bytes=1,
    )  # fmt: skip
    return report.summary()


def verify_all(spark: SparkSession, source: str, target: str) -> list[dict[str, object]]:
    whole = jobs.verify(spark, target, layout="strm", records=True)
    same = jobs.compare(spark, source, layout="kafka", against=target, against_layout="strm")
    return [whole.summary(), same.summary()]


def made(target: Path) -> int:
    return sum(1 for _ in target.rglob("*.seg"))


def test_a_conversion_that_loses_a_worker_ends_right(
    spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write_large(source)
    job = spark_cluster.job(convert_all, source=str(source), target=str(target))
    job.wait_until(lambda: made(target) >= 3, within_s=120)
    spark_cluster.lose(spark_cluster.workers[0])
    summary = job.result(within_s=180)
    assert summary["good"], summary
    assert summary["records"] == 2 * SEGMENTS * 250
    whole, same = spark_cluster.job(verify_all, source=str(source), target=str(target)).result(
        within_s=180
    )
    assert (whole["good"], same["good"]) == (True, True)


def test_a_conversion_whose_driver_dies_is_completed_by_the_next(
    spark_cluster: SparkCluster, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write_large(source)
    job = spark_cluster.job(convert_all, source=str(source), target=str(target))
    job.wait_until(lambda: made(target) >= 3, within_s=120)
    spark_cluster.stop_driver()
    before = made(target)
    summary = spark_cluster.job(convert_all, source=str(source), target=str(target)).result(
        within_s=180
    )
    assert summary["good"], summary
    assert made(target) == SEGMENTS
    assert summary["outcomes"].get("present", 0) >= min(before, SEGMENTS - 1) // 2
    whole, same = spark_cluster.job(verify_all, source=str(source), target=str(target)).result(
        within_s=180
    )
    assert (whole["records"], same["good"]) == (2 * SEGMENTS * 250, True)
