"""A damaged topic, lane, partition or unit stops only itself; the report names it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lakelog.catalog import Topic
from lakelog.host import THIS_HOST
from lakelog.maintenance import MergeSettings
from lakelog.manifests import Manifest, read_manifest
from lakelog.names import bundle_key, head_key, manifest_key, topic_key
from lakelog.pipeline import Compact, Merge, Report, Retain, run_here
from lakelog.store import StoreSpec
from tests.unit.pipeline.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def spoil(home: Home, key: str, body: bytes = b"{not json") -> None:
    path = Path(home.url, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)


def bad(report: Report) -> list[str]:
    rows = report.table.to_pylist()
    return [row["object"] for row in rows if row["outcome"] in ("damaged", "refused")]


def floors(home: Home) -> list[bool]:
    """Of which lanes the floor has risen."""
    return [b'"floor": 0,' not in Path(home.url, head_key(n)).read_bytes() for n in range(2)]


def ends(home: Home, topic: Topic, *partitions: int) -> list[int]:
    return [home.run(read_manifest(topic.path_of(p))).sealed_end for p in partitions]


def test_a_bad_unit_keeps_no_lane_from_being_trimmed(home: Home) -> None:
    topic = home.topic(partitions=2)
    home.fill(topic, 20)
    lane = topic.lane(0)
    path = Path(home.url, bundle_key(lane, 0))
    body = bytearray(path.read_bytes())
    body[200] ^= 255
    path.write_bytes(body)
    report = run_here(home.seal(idle=True))
    assert not report.is_good
    assert bad(report) == [f"lane {lane}"]
    assert ends(home, topic, 1) == [30]
    assert floors(home)[1 - lane], "the other lane was trimmed"


def test_a_bad_lane_fails_no_plan(home: Home) -> None:
    topic = home.topic(partitions=2)
    home.fill(topic, 20)
    spoil(home, head_key(topic.lane(0)))
    report = run_here(home.seal(idle=True))
    assert bad(report) == [f"lane {topic.lane(0)}"]
    assert not report.is_good
    assert ends(home, topic, 1) == [30]


def test_a_bad_manifest_stops_only_its_partition(home: Home) -> None:
    topic = home.topic(partitions=4)
    home.fill(topic, 40)
    spoil(home, manifest_key("orders", 1))
    report = run_here(home.seal(idle=True))
    assert bad(report) == ["orders/1/manifest"]
    assert ends(home, topic, 0, 2, 3) == [30, 30, 30]


VERBS: dict[str, Callable[[StoreSpec], Merge | Retain | Compact]] = {
    "merge": lambda target: Merge(
        host=THIS_HOST, target=target, settings=MergeSettings(segment_bytes=1 << 20, rows_min=2)
    ),
    "retain": lambda target: Retain(host=THIS_HOST, target=target),
    "compact": lambda target: Compact(host=THIS_HOST, target=target, always=True),
}
DONE: dict[str, Callable[[Manifest], bool]] = {
    "merge": lambda manifest: len(manifest.segments) == 1,
    "retain": lambda manifest: manifest.log_start == manifest.sealed_end,
    "compact": lambda manifest: manifest.cleaned_end == manifest.sealed_end,
}
"""What a manifest says when a verb has done its partition, and not before."""


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_damaged_stops_no_other_in_any_verb(home: Home, verb: str) -> None:
    topics = [home.topic(name, cleanup_policy="compact,delete") for name in ("a", "b", "c")]
    for _ in range(2):
        for topic in topics:
            home.fill(topic, 12)
        run_here(home.seal())
    whole = [
        topics[0].path_of(0),
        topics[0].path_of(2),
        *(topics[2].path_of(at) for at in range(3)),
    ]
    assert not any(DONE[verb](home.run(read_manifest(where))) for where in whole)
    spoil(home, topic_key("b"))
    spoil(home, manifest_key("a", 1))
    report = run_here(VERBS[verb](StoreSpec(home.url)))
    assert not report.is_good
    told = {one.object for one in report.findings(10)}
    assert told == {topic_key("b"), "a/1/manifest"}
    assert all(DONE[verb](home.run(read_manifest(where))) for where in whole)


def test_a_seal_with_a_damaged_topic_seals_the_others_and_keeps_its_records(home: Home) -> None:
    topics = [home.topic(name, partitions=1) for name in ("a", "b", "c")]
    for topic in topics:
        home.fill(topic, 4)
    cell = Path(home.url, topic_key("b")).read_bytes()
    spoil(home, topic_key("b"))
    report = run_here(home.seal(idle=True))
    assert bad(report) == ["topic b"]
    assert [ends(home, topic, 0) for topic in topics] == [[12], [0], [12]]
    spoil(home, topic_key("b"), cell)
    assert run_here(home.seal(idle=True)).is_good
    assert ends(home, topics[1], 0) == [12]
