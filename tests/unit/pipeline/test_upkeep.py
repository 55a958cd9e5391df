"""merge and retain as jobs: each unit stands alone."""

from pathlib import Path
from typing import Any

import pytest

from lakelog.catalog import Topic, create_topic, delete_topic, read_topic
from lakelog.errors import NotFoundError
from lakelog.host import THIS_HOST, new_id
from lakelog.maintenance import MergeSettings
from lakelog.manifests import read_manifest
from lakelog.model import Record
from lakelog.pipeline import Compact, Job, Merge, Retain, VerifyNamespace, plan_job, run_here
from lakelog.records import Batch, Codec, decode_batches
from lakelog.segments import Selection
from lakelog.store import StoreSpec
from tests.unit.pipeline.home import Home

SMALL = MergeSettings(segment_bytes=1 << 20, rows_min=2)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def sealed(home: Home, retention_ms: str = "-1", **configs: str) -> Topic:
    topic = home.topic(partitions=3, retention_ms=retention_ms, **configs)
    for _ in range(4):
        home.fill(topic, 12)
        assert run_here(home.seal()).records == 36
    return topic


def merge(home: Home, **settings: Selection) -> Merge:
    return Merge(host=THIS_HOST, target=StoreSpec(home.url), settings=SMALL, **settings)


def test_every_partition_is_merged_and_reads_as_before(home: Home) -> None:
    topic = sealed(home)
    before = home.logs(topic)
    plan, _ = plan_job(merge(home))
    assert [len(unit.rows) for unit in plan.units] == [4, 4, 4]
    report = run_here(merge(home))
    assert report.outcomes == {"merged": 3}
    assert report.records == 144
    assert home.logs(topic) == before
    assert len(home.named(topic)) == 3
    assert run_here(merge(home)).outcomes == {}
    home.sweep(topic)
    assert home.stems() == home.named(topic)
    assert home.logs(topic) == before


def test_only_what_is_asked_for_is_merged(home: Home) -> None:
    sealed(home)
    home.topic("other")
    other = Selection(topics=frozenset({"other"}))
    assert run_here(merge(home, selection=other)).outcomes == {}


CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def opened(log: bytes) -> list[Batch]:
    return list(decode_batches(log))


def records_of(log: bytes) -> list[Record]:
    return [record for batch in opened(log) for record in batch.records]


@pytest.mark.parametrize("name", CODECS)
def test_a_topic_with_a_codec_of_its_own_is_repacked(home: Home, name: str) -> None:
    topic = sealed(home, compression_type=name)
    before = home.logs(topic)
    assert [len(opened(log)) for log in before] == [16, 16, 16]
    report = run_here(merge(home))
    assert (report.outcomes, report.records) == ({"merged": 3}, 144)
    after = home.logs(topic)
    assert [records_of(log) for log in after] == [records_of(log) for log in before]
    batches = [batch.header for log in after for batch in opened(log)]
    assert [(header.codec, header.count) for header in batches] == [(CODECS[name], 48)] * 3
    assert run_here(
        VerifyNamespace(host=THIS_HOST, source=StoreSpec(home.url), records=True)
    ).is_good


def test_a_topic_without_one_keeps_the_batches_of_its_producers(home: Home) -> None:
    topic = sealed(home, compression_type="producer")
    before = home.logs(topic)
    run_here(merge(home))
    assert home.logs(topic) == before


def test_the_largest_batch_that_a_topic_takes_is_the_largest_that_is_made(home: Home) -> None:
    topic = sealed(home, compression_type="uncompressed", max_message_bytes="2000")
    run_here(merge(home))
    sizes = [batch.header.size for log in home.logs(topic) for batch in opened(log)]
    assert max(sizes) <= 2000
    assert len(sizes) == 12


@pytest.mark.parametrize(
    ("configs", "level"),
    [
        ({"type": "zstd"}, 3),
        ({"type": "zstd", "zstd_level": "-7"}, -7),
        ({"type": "gzip"}, -1),
        ({"type": "gzip", "gzip_level": "9", "zstd_level": "1"}, 9),
        ({"type": "lz4"}, None),
        ({"type": "lz4", "lz4_level": "12"}, 12),
        ({"type": "snappy", "lz4_level": "12"}, None),
    ],
)
def test_levels_are_those_of_the_topic(
    home: Home, configs: dict[str, str], level: int | None
) -> None:
    topic = sealed(home, **{f"compression_{key}": value for key, value in configs.items()})
    before = [records_of(log) for log in home.logs(topic)]
    plan, _ = plan_job(merge(home))
    assert {unit.shape.level for unit in plan.units} == {level}
    assert run_here(merge(home)).outcomes == {"merged": 3}
    assert [records_of(log) for log in home.logs(topic)] == before


def test_damage_is_told_and_nothing_is_changed(home: Home) -> None:
    topic = sealed(home)
    row = home.run(read_manifest(topic.path_of(1))).segments[2]
    path = Path(home.url) / f"{topic.path_of(1).prefix}{row.name}.kfs"
    body = path.read_bytes()
    path.write_bytes(body[:90] + bytes([body[90] ^ 1]) + body[91:])
    report = run_here(merge(home))
    assert report.outcomes == {"damaged": 1, "merged": 2}
    assert not report.is_good
    assert row.name in report.findings(1)[0].object
    assert len(home.run(read_manifest(topic.path_of(1))).segments) == 4


def test_what_is_too_old_goes(home: Home) -> None:
    topic = sealed(home, retention_ms="1")  # The records are from 1970.
    report = run_here(Retain(host=THIS_HOST, target=StoreSpec(home.url)))
    assert report.is_good
    for partition in range(3):
        manifest = home.run(read_manifest(topic.path_of(partition)))
        assert (manifest.segments, manifest.log_start) == ((), 48)
    home.sweep(topic)
    assert home.stems() == set()


def test_of_a_deleted_topic_nothing_stays(home: Home) -> None:
    topic = sealed(home)
    home.run(delete_topic("orders", topic.id, new_id(), now_ms=1))
    home.run(create_topic("orders", topic_id=new_id(), partitions=1, lanes=2, now_ms=2))
    assert run_here(Retain(host=THIS_HOST, target=StoreSpec(home.url))).is_good
    home.sweep(topic)
    assert home.stems() == set()
    assert home.run(read_topic("orders")).retired
    # Deleted long ago by its own record, so that it is forgotten once nothing is left.
    assert run_here(Retain(host=THIS_HOST, target=StoreSpec(home.url))).is_good
    assert home.run(read_topic("orders")).retired == ()


def test_a_topic_that_is_being_imported_is_left_alone(home: Home) -> None:
    home.run(create_topic("new", topic_id=new_id(), partitions=2, lanes=2, now_ms=2, closed=True))
    plan, _ = plan_job(Retain(host=THIS_HOST, target=StoreSpec(home.url)))
    assert plan.units == []


@pytest.mark.parametrize("verb", [Merge, Compact, Retain])
def test_a_topic_that_is_named_and_not_there_is_told(home: Home, verb: type[Any]) -> None:
    home.topic()
    names = frozenset({"orders", "nothing"})
    job: Job = verb(target=StoreSpec(home.url), host=THIS_HOST, selection=Selection(topics=names))
    with pytest.raises(NotFoundError, match="there is no topic nothing: check the name"):
        plan_job(job)


@pytest.mark.parametrize("verb", [Merge, Compact, Retain])
def test_where_there_is_no_namespace_nothing_is_planned_and_nothing_is_made(
    tmp_path: Path, verb: type[Any]
) -> None:
    with pytest.raises(NotFoundError, match="there is no namespace"):
        plan_job(verb(target=StoreSpec(str(tmp_path / "nothing")), host=THIS_HOST))
    assert not list(tmp_path.iterdir())
