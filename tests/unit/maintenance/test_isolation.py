"""What fails in a namespace stops only itself, and what is idle costs little time."""

from random import Random  # noqa: TID251 (seeded)
from typing import Any

import pytest

from lakelog.catalog import Topic, delete_topic, read_topic
from lakelog.errors import CorruptError, LakelogError, UnavailableError
from lakelog.maintenance import MaintenanceReport, SealSettings, maintain
from lakelog.manifests import PartitionPath
from lakelog.names import commit_key, head_key, manifest_key, topic_key
from lakelog.store import Get, ListPage, Many, Op, PutIfAbsent, Wait, retrying, run
from tests.unit.log.site import EPOCH_MS, Perform, Site, get_key

SETTINGS = SealSettings()


def pass_over(site: Site, perform: Perform | None = None) -> MaintenanceReport:
    lanes = {number: site.lane(number) for number in range(site.rules.lanes)}
    return site.run(maintain(lanes, SETTINGS, idle=True), perform)


def filled(site: Site, *topics: Topic) -> list[PartitionPath]:
    """Append to every partition, and return where they are."""
    wheres = [topic.path_of(p) for topic in topics for p in range(topic.partitions)]
    for _ in range(5):
        for topic in topics:
            for partition in range(topic.partitions):
                lane = site.lane(topic.lane(partition))
                site.append(lane, topic.path_of(partition), site.batch(2))
    return wheres


def sealed(site: Site, wheres: list[PartitionPath]) -> list[int]:
    return [site.manifest(where).sealed_end for where in wheres]


# ---------------------------------------------------------------------------- what fails


@pytest.mark.parametrize("bad", range(4))
def test_a_damaged_manifest_stops_only_its_partition(bad: int) -> None:
    site = Site()
    topic = site.topic(partitions=4)
    wheres = filled(site, topic)
    site.perform(PutIfAbsent(manifest_key("orders", bad), b"{not json"))
    kept = pass_over(site)
    assert list(kept.failures) == [f"partition orders-{bad}"]
    assert isinstance(kept.failures[f"partition orders-{bad}"], CorruptError)
    good = [where for where in wheres if where.partition != bad]
    assert sealed(site, good) == [10, 10, 10]


def test_a_damaged_topic_stops_only_itself_and_its_records_stay() -> None:
    site = Site()
    wheres = filled(site, site.topic("a"), site.topic("b"), site.topic("c"))
    body = get_key(site, topic_key("b"))
    site.replace(topic_key("b"), b"{}")
    kept = pass_over(site)
    assert list(kept.failures) == ["topic b"]
    assert sealed(site, [wheres[0], wheres[2]]) == [10, 10]
    site.replace(topic_key("b"), body)
    assert pass_over(site).failures == {}
    assert sealed(site, wheres) == [10, 10, 10]


def test_a_damaged_lane_stops_no_other() -> None:
    site = Site(lanes=4)
    topic = site.topic(partitions=8)
    wheres = filled(site, topic)
    site.replace(head_key(2), b"{}")
    kept = pass_over(site)
    assert list(kept.failures) == ["lane 2"]
    good = [where for where in wheres if topic.lane(where.partition) != 2]
    assert sealed(site, good) == [10] * 6
    assert kept.trimmed >= 30


def test_a_partition_that_has_no_answer_stops_no_other() -> None:
    site = Site()
    wheres = filled(site, site.topic(partitions=4))

    def perform(op: Op) -> Any:
        if isinstance(op, ListPage) and op.prefix == wheres[1].prefix:
            raise UnavailableError("503 Slow Down")
        return site.perform(op)

    assert list(pass_over(site, perform).failures) == ["partition orders-1"]


def test_a_topic_of_a_reserved_name_stops_no_lane_and_goes_when_it_is_deleted() -> None:
    site = Site()
    old = site.topic("old")
    name = ".lakelog-staging"
    body = get_key(site, topic_key("old")).replace(b'"old"', f'"{name}"'.encode())
    body = body.replace(old.id.hex().encode(), b"ab" * 16)
    site.perform(PutIfAbsent(topic_key(name), body))
    reserved = site.run(read_topic(name))
    site.append(site.lane(), reserved.path_of(0), site.batch(2))
    (where,) = filled(site, old)
    kept = pass_over(site)
    assert list(kept.failures) == [f"topic {name}"]
    assert "lakelog topic delete" in str(kept.failures[f"topic {name}"])
    assert (sealed(site, [where]), kept.trimmed) == ([10], 0)
    site.run(delete_topic(name, reserved.id, site.id(), now_ms=site.now_ms))
    kept = pass_over(site)
    assert kept.failures == {}
    assert kept.trimmed > 0


@pytest.mark.parametrize("seed", range(10))
def test_a_store_that_fails_one_in_ten_requests_holds_up_no_pass(seed: int) -> None:
    site = Site(lanes=4)
    chance = Random(seed)

    def flaky(op: Op) -> Any:
        if chance.random() < 0.05:
            raise UnavailableError("503 Slow Down")
        answer = site.perform(op)
        if chance.random() < 0.05:
            raise UnavailableError("no answer, outcome unknown")
        return answer

    perform = retrying(flaky, sleep=lambda seconds: site.pass_ms(round(seconds * 1000)))
    wheres = filled(site, site.topic(partitions=16))
    kept = pass_over(site, perform)
    assert kept.failures == {}
    assert (sealed(site, wheres), kept.trimmed >= 80) == ([10] * 16, True)
    site.pass_ms(2 * site.rules.grace_ms)
    kept = pass_over(site, perform)
    assert kept.failures == {}
    assert kept.reaped >= 80


# ---------------------------------------------------------------------------- what is idle

LATENCY_MS = 30


class Far:
    """A store far away: what is asked for at once takes as long as one request."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.rounds = self.requests = self.most = 0

    def perform(self, wish: Op | Many | Wait) -> Any:
        if isinstance(wish, Wait):
            return None
        ops = wish.ops if isinstance(wish, Many) else (wish,)
        self.rounds += 1
        self.requests += len(ops)
        self.most = max(self.most, len(ops))
        self.site.pass_ms(LATENCY_MS)
        answers = tuple(map(self._one, ops))
        if isinstance(wish, Many):
            return answers
        if isinstance(answers[0], LakelogError):
            raise answers[0]
        return answers[0]

    def _one(self, op: Op) -> Any:
        try:
            return self.site.perform(op)
        except LakelogError as error:
            return error


def test_a_thousand_idle_topics_take_few_rounds_and_two_requests_each() -> None:
    site = Site(lanes=4)
    for number in range(1_000):
        site.topic(f"t{number}")
    far = Far(site)
    kept = run(maintain({n: site.lane(n) for n in range(4)}, SETTINGS), far.perform)
    assert kept == MaintenanceReport()
    assert far.rounds <= 120, "3.6 seconds at 30 ms"
    assert far.requests <= 3_200, "a cell, a list and a manifest for each"
    assert far.most <= 64


def test_many_bulk_writes_take_few_rounds_and_one_that_is_damaged_stops_no_other() -> None:
    site = Site()
    for number in range(300):
        site.perform(PutIfAbsent(commit_key(site.id(), number), b"{}"))
    site.pass_ms(3_600_000)
    far = Far(site)
    kept = run(maintain({0: site.lane()}, SETTINGS), far.perform)
    assert len(kept.failures) == 300
    assert far.rounds <= 60


def test_a_partition_with_nothing_to_do_takes_two_requests() -> None:
    site = Site()
    filled(site, site.topic(partitions=16))
    pass_over(site)
    pass_over(site)
    seen: list[Op] = []

    def perform(op: Op) -> Any:
        seen.append(op)
        return site.perform(op)

    pass_over(site, perform)
    mine = [op for op in seen if getattr(op, "key", getattr(op, "prefix", "")).startswith("orders")]
    assert sum(isinstance(op, ListPage) for op in mine) == 16
    assert sum(isinstance(op, Get) for op in mine) == 16
    assert site.now_ms >= EPOCH_MS
