"""Namespaces that versions have left: this one reads, verifies, appends to and keeps each of them.

What must be served is what the version that made it has served, and is kept beside it. Each test
works in a copy of its own.
"""

import hashlib
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

import lakelog
from lakelog.catalog import read_topic
from lakelog.host import THIS_HOST
from lakelog.maintenance import SealSettings, maintain
from lakelog.model import Record
from lakelog.pipeline import CompactSettings, VerifyNamespace, compact_partition
from lakelog.pipeline.frame import BAD
from lakelog.records import NewBatch, encode_batch
from lakelog.store import StoreSpec
from release.versions import released
from tests.golden.namespaces import make
from tests.golden.namespaces.copies import (
    HERE,
    Copy,
    digest,
    expected,
    groups,
    objects_of,
    observe,
    observe_copy,
    read_records,
    run_story,
    text_of,
    versions,
)
from tests.golden.namespaces.life import HOUR_MS, small_limits
from tests.golden.namespaces.members import commit, join_classic
from tests.unit.broker.site import Client, connect

VERIFY = VerifyNamespace(host=THIS_HOST, source=StoreSpec("memory:"), records=True)
SERVED = ("topics", "partitions", "groups")
FINISHED_BY_THE_KEEPER = {"loaded-0": 6, "loaded-1": 6}
"""Records of a bulk write that was decided for: they are part of the log as soon as it is kept."""

every_version = pytest.mark.parametrize("version", versions())


def copy(version: str) -> Copy:
    return Copy(expected(version)["now_ms"], objects_of(version))


def by_a_client(site: Copy, told: Callable[[Client], Awaitable[Any]]) -> Any:
    """Run a story of one client of a new broker."""

    async def story() -> Any:
        async with site.broker() as running:
            client = await connect(running)
            try:
                return await told(client)
            finally:
                await client.close()

    return run_story(story)


def keep_it(site: Copy, *, leap_ms: int) -> None:
    with small_limits():
        kept = site.do(maintain(site.lanes(), SealSettings(segment_bytes=700), idle=True))
    assert not kept.failures, kept.failures
    site.clock.leap(leap_ms)


def batch(*values: bytes, at_ms: int, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    records = [
        Record(offset=at, timestamp=at_ms, key=b"new", value=value)
        for at, value in enumerate(values)
    ]
    return encode_batch(
        NewBatch(
            records=tuple(records),
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
        )
    )


def assert_nothing_is_wrong(site: Copy) -> None:
    results = site.work(VERIFY)
    assert len(results) > 20
    assert [one for one in results if one.outcome in BAD] == []


# ---------------------------------------------------------------------------- what is kept


def test_the_first_release_has_left_a_namespace() -> None:
    """Of later ones test_coverage.py says what is missing."""
    assert next(iter(released())) in versions()


@every_version
def test_a_golden_namespace_is_what_its_version_has_written(version: str) -> None:
    sums = {key: hashlib.sha256(body).hexdigest() for key, body in objects_of(version).items()}
    assert sums == expected(version)["objects"]
    assert len(sums) < 500
    assert sum(map(len, objects_of(version).values())) < 1 << 20


@every_version
def test_a_namespace_that_is_there_is_never_made_again(
    version: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(make, "VERSION", version)
    before = (HERE / version / "expected.json").stat().st_mtime_ns
    assert make.main() == 1
    assert "never written anew" in capsys.readouterr().err
    assert (HERE / version / "expected.json").stat().st_mtime_ns == before


# ---------------------------------------------------------------------------- reading it


@every_version
def test_a_broker_serves_what_its_version_has_served(version: str) -> None:
    site = copy(version)
    served = run_story(lambda: observe_copy(site))
    assert served == {name: expected(version)[name] for name in SERVED}


@every_version
def test_a_scan_reads_every_record_that_its_version_has_served(
    version: str, tmp_path: Path
) -> None:
    shutil.copytree(HERE / version / "objects", tmp_path / "copy")
    rows: dict[str, list[list[object]]] = {}
    for one in lakelog.scan(str(tmp_path / "copy")).read_all().to_pylist():
        rows.setdefault(f"{one['topic']}-{one['partition']}", []).append(
            [
                one["offset"],
                round(one["timestamp"].timestamp() * 1000),
                text_of(one["key"]),
                text_of(one["value"]),
                [[header["key"], text_of(header["value"])] for header in one["headers"] or ()],
            ]
        )
    for name, partition in expected(version)["partitions"].items():
        found = sorted(rows.get(name, []), key=lambda row: int(str(row[0])))
        assert digest(found) == partition["sha256"], name


@every_version
def test_nothing_is_wrong_with_it(version: str) -> None:
    assert_nothing_is_wrong(copy(version))


# ---------------------------------------------------------------------------- appending to it


@every_version
def test_what_is_appended_comes_behind_what_was_there(version: str) -> None:
    site, told = copy(version), expected(version)

    async def story(client: Client) -> None:
        for name, topic in told["topics"].items():
            for number in range(topic["partitions"]):
                body = batch(b"new", at_ms=site.clock.now_ms())
                sent = await client.produce(name, number, body)
                before = told["partitions"][f"{name}-{number}"]
                assert (sent.error_code, sent.base_offset) == (ErrorCode.none, before["end"])
        served = await observe(client)
        for name, before in told["partitions"].items():
            after = served["partitions"][name]
            assert (after["start"], after["end"]) == (before["start"], before["end"] + 1)
            assert after["records"] == before["records"] + 1
            topic, _, number = name.rpartition("-")
            rows = await read_records(
                client, topic, int(number), before["start"], before["end"] + 1
            )
            assert digest(rows[:-1]) == before["sha256"], name

    by_a_client(site, story)
    assert_nothing_is_wrong(site)


@every_version
def test_an_idempotent_producer_goes_on_and_repeats_nothing(version: str) -> None:
    site, told = copy(version), expected(version)
    producer, epoch, sequence = told["producer"]
    end = told["partitions"]["trail-0"]["end"]

    async def story(client: Client) -> None:
        again = batch(
            b"x", b"y", at_ms=site.clock.now_ms(), producer=(producer, epoch, sequence - 2)
        )
        sent = await client.produce("trail", 0, again)
        assert (sent.error_code, sent.base_offset) == (ErrorCode.none, end - 2)
        skipped = batch(b"x", at_ms=site.clock.now_ms(), producer=(producer, epoch, sequence + 1))
        sent = await client.produce("trail", 0, skipped)
        assert sent.error_code is ErrorCode.out_of_order_sequence_number
        next_ = batch(b"x", at_ms=site.clock.now_ms(), producer=(producer, epoch, sequence))
        sent = await client.produce("trail", 0, next_)
        assert (sent.error_code, sent.base_offset) == (ErrorCode.none, end)

    by_a_client(site, story)


@every_version
def test_groups_of_both_kinds_go_on(version: str) -> None:
    site, told = copy(version), expected(version)

    async def story(client: Client) -> None:
        await join_classic(client, "billing", "till-1", "orders")
        beat = await client.ask(
            68, 1, group_id="search", member_id="search-member", member_epoch=1, instance_id=None,
            rack_id=None, rebalance_timeout=-1, subscribed_topic_names=None,
            subscribed_topic_regex=None, server_assignor=None, topic_partitions=None,
        )  # fmt: skip
        assert beat.error_code is ErrorCode.none
        await commit(client, "reports", "orders", {0: 9})
        found = await groups(client)
        assert found["reports"]["offsets"] == {
            **told["groups"]["reports"]["offsets"],
            "orders-0": [9, ""],
        }
        for name in ("billing", "search"):
            assert found[name]["offsets"] == told["groups"][name]["offsets"]
        assert found.keys() == told["groups"].keys()

    by_a_client(site, story)
    assert_nothing_is_wrong(site)


# ---------------------------------------------------------------------------- keeping it


@every_version
def test_what_is_kept_is_served_as_before_but_for_what_the_rules_take(version: str) -> None:
    site, told = copy(version), expected(version)
    for _ in range(6):
        keep_it(site, leap_ms=90_000)
    assert_nothing_is_wrong(site)
    assert not [key for key in site.objects() if "/staged/" in key or "/time/" in key]

    async def story(client: Client) -> None:
        served = await observe(client)
        assert served["topics"] == told["topics"]
        for name, before in told["partitions"].items():
            after = served["partitions"][name]
            more = FINISHED_BY_THE_KEEPER.get(name, 0)
            assert (after["start"], after["end"]) == (before["start"], before["end"] + more), name
            topic, _, number = name.rpartition("-")
            rows = await read_records(client, topic, int(number), before["start"], after["end"])
            assert len(rows) == before["records"] + more
            assert digest(rows[: before["records"]]) == before["sha256"], name

    by_a_client(site, story)


@every_version
def test_what_has_expired_goes_and_nothing_else(version: str) -> None:
    site, told = copy(version), expected(version)
    keep_it(site, leap_ms=2 * HOUR_MS)
    for _ in range(3):
        keep_it(site, leap_ms=90_000)
    assert_nothing_is_wrong(site)
    served = run_story(lambda: observe_copy(site))["partitions"]
    assert (
        served["clicks-0"]["start"]
        == served["clicks-0"]["end"]
        == told["partitions"]["clicks-0"]["end"]
    )
    assert not [key for key in site.objects() if key.startswith("clicks/0/segment")]
    for name in told["partitions"].keys() - FINISHED_BY_THE_KEEPER.keys() - {"clicks-0"}:
        assert served[name] == told["partitions"][name], name


@every_version
def test_compaction_leaves_the_newest_record_of_each_key(version: str) -> None:
    site, told = copy(version), expected(version)
    keep_it(site, leap_ms=0)
    before = by_a_client(site, lambda client: _rows(client, told, "users"))
    topic = site.do(read_topic("users"))
    for partition in range(topic.partitions):
        where = topic.path_of(partition)
        compacting = compact_partition(
            topic, where, CompactSettings(), site.id(), seed=bytes(16),
            now_ms=site.clock.now_ms(), always=True,
        )  # fmt: skip
        assert site.do(compacting).before
    after = by_a_client(site, lambda client: _rows(client, told, "users"))
    for name, rows in before.items():
        assert digest(rows) == told["partitions"][name]["sha256"]
        newest = {str(row[2]): row[0] for row in rows}
        assert after[name] == [row for row in rows if newest[str(row[2])] == row[0]]
        assert len(after[name]) < len(rows)
    assert_nothing_is_wrong(site)


async def _rows(client: Client, told: Any, topic: str) -> dict[str, list[list[object]]]:
    found = {}
    for number in range(told["topics"][topic]["partitions"]):
        about = told["partitions"][f"{topic}-{number}"]
        found[f"{topic}-{number}"] = await read_records(
            client, topic, number, about["start"], about["end"]
        )
    return found
