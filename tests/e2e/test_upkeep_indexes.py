"""Indexes of a namespace are lost and damaged; `lakelog pipeline reindex` makes them again.

As its users run it: by the command line, on Spark, on a bucket. What it makes is byte for byte what
the sealer had made, and verify, by the command line as well, finds nothing wrong any more.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from lakelog.host import THIS_HOST, new_id
from lakelog.model import Rules
from lakelog.pipeline import run_here
from lakelog.pipeline.fsck import VerifyNamespace
from lakelog.store import StoreSpec, delete, get, put_if_absent, run
from tests.e2e.live.twins import START_MS, Namespace, Sent, create_topic, produce, running_namespace
from tests.e2e.live.views import Bucket
from tests.parts.archives import quick_environment
from tests.parts.seaweedfs import SeaweedFS

pytestmark = [pytest.mark.spark, pytest.mark.seaweedfs]

TOPIC, PARTITIONS, RECORDS, LOTS = "orders", 3, 3_000, 4
NO_KEEPER = ("--flush-interval-ms", "100", "--no-keep")
LOCAL = ("--master", "local[2]", "--conf", "spark.driver.host=127.0.0.1", "--json")
SIDES = (".index", ".timeindex")
HARMS = ("lost", "well", "damaged", "lost", "well", "well")
"""Of two sides of a segment, two of the next, and of one that is left alone."""


@pytest.fixture
def namespace(seaweedfs: SeaweedFS) -> Iterator[Namespace]:
    place = StoreSpec(f"s3://{seaweedfs.bucket('indexes')}/{new_id().hex()}", seaweedfs.options)
    with running_namespace(NO_KEEPER, Rules(lanes=2), place) as running:
        yield running


def pipeline(verb: str, place: StoreSpec) -> tuple[int, dict[str, Any]]:
    """Run a verb by the command line; return its exit code, and what it told."""
    argv = [sys.executable, "-m", "lakelog", "pipeline", verb, place.url, "--layout", "lakelog"]
    for name, value in place.options.items():
        argv += ["--store-option", f"{name}={value}"]
    done = subprocess.run(
        [*argv, *LOCAL], capture_output=True, text=True, timeout=180, env=quick_environment()
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.strip().splitlines()[-1])


def test_lost_and_damaged_indexes_are_made_again_on_spark(namespace: Namespace) -> None:
    create_topic(namespace.broker.bootstrap, TOPIC, PARTITIONS)
    sent = [
        Sent(number % PARTITIONS, None, b"%09d" % number * 9, START_MS + number)
        for number in range(RECORDS)
    ]
    for lot in range(LOTS):
        produce(namespace.broker.bootstrap, TOPIC, sent[lot::LOTS])
        namespace.keep()
    bucket = Bucket(namespace.place)
    sides = sorted(key for key in bucket.keys("") if key.endswith(SIDES))
    assert len(sides) == LOTS * PARTITIONS * len(SIDES)
    before = {key: run(get(key), bucket.perform) for key in sides}
    harm = {key: HARMS[number % len(HARMS)] for number, key in enumerate(sides)}
    for key, how in harm.items():
        if how != "well":
            run(delete(key), bucket.perform)
        if how == "damaged":
            other = bytes([before[key][0] ^ 1]) + before[key][1:]
            run(put_if_absent(key, other), bucket.perform)
    assert run_here(VerifyNamespace(host=THIS_HOST, source=namespace.place)).outcomes.keys() >= {
        "damaged",
        "unindexed",
    }
    code, told = pipeline("reindex", namespace.place)
    stems = {key.rpartition(".")[0] for key, how in harm.items() if how != "well"}
    assert (code, told["outcomes"]["rebuilt"]) == (0, len(stems)), told
    assert {key: run(get(key), bucket.perform) for key in sides} == before
    code, told = pipeline("verify", namespace.place)
    assert code == 0, told
    assert not Counter(told["outcomes"]).keys() & {"damaged", "unindexed"}, told
    assert told["records"] >= RECORDS
