"""The kafs layout on a namespace: what manifests name is read and verified, and nothing else."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import lakelog
from lakelog.catalog import Topic
from lakelog.errors import CorruptError, InvalidInputError, NotFoundError
from lakelog.host import THIS_HOST, new_id
from lakelog.maintenance import MergeSettings
from lakelog.manifests import change_manifest, changes, read_manifest
from lakelog.pipeline import (
    Compare,
    Merge,
    Reindex,
    ReindexNamespace,
    Report,
    Verdict,
    Verify,
    VerifyNamespace,
    run_here,
)
from lakelog.segments import Selection
from lakelog.store import StoreSpec
from tests.stores import make_records, write_partition
from tests.unit.pipeline.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def sealed(home: Home, rounds: int = 4) -> Topic:
    topic = home.topic(partitions=3)
    for _ in range(rounds):
        home.fill(topic, 12)
        assert run_here(home.seal()).records == 36
    return topic


def merged(home: Home) -> Topic:
    """A topic whose replaced segments have not been swept yet."""
    topic = sealed(home)
    settings = MergeSettings(segment_bytes=1 << 20, rows_min=2)
    job = Merge(host=THIS_HOST, target=StoreSpec(home.url), settings=settings)
    assert run_here(job).outcomes == {"merged": 3}
    assert len(home.stems()) == 15
    return topic


def verify(home: Home, **settings: Any) -> Report:
    return run_here(Verify(host=THIS_HOST, source=StoreSpec(home.url), layout="kafs", **settings))


def scanned(home: Home) -> list[tuple[int, int]]:
    """Partition and offset of every record."""
    with pytest.warns(UserWarning, match="reads only what of it is sealed"):
        reader = lakelog.scan(home.url, layout="kafs", columns=("partition", "offset"))
    table = reader.read_all()
    rows = table.to_pylist()
    return sorted((row["partition"], row["offset"]) for row in rows)


def every(home: Home, topic: Topic) -> list[tuple[int, int]]:
    ends = home.ends(topic)
    return [(partition, offset) for partition, end in enumerate(ends) for offset in range(end)]


def path_of(home: Home, topic: Topic, partition: int = 0, row: int = 0) -> Path:
    """The file of a segment that the manifest names."""
    name = home.run(read_manifest(topic.path_of(partition))).segments[row].name
    return Path(home.url) / topic.path_of(partition).prefix / f"{name}.kfs"


def spoil(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_what_spark_has_sealed_is_found_and_verified(home: Home) -> None:
    topic = sealed(home)
    report = verify(home)
    assert report.outcomes == {"good": 12}
    assert (report.records, report.segments, report.topics) == (144, 12, 1)
    assert scanned(home) == every(home, topic)


def test_a_damaged_byte_in_a_segment_that_spark_has_sealed_is_found(home: Home) -> None:
    topic = sealed(home)
    spoil(path_of(home, topic))
    report = verify(home)
    assert report.outcomes == {"damaged": 1, "good": 11}
    assert report.verdict == Verdict.BAD


def test_what_was_replaced_is_neither_read_nor_verified(home: Home) -> None:
    topic = merged(home)
    old = Path(home.url) / topic.path_of(0).prefix / "segment-00000000000000000000.kfs"
    spoil(old)
    report = verify(home)
    assert (report.outcomes, report.records) == ({"good": 3}, 144)
    assert scanned(home) == every(home, topic)


def test_what_a_killed_sealer_left_behind_is_not_read(home: Home) -> None:
    topic = sealed(home, rounds=1)
    old = path_of(home, topic)
    orphan = old.with_name(f"segment-00000000000000000012-{new_id().hex()}.kfs")
    orphan.write_bytes(b"half of it")
    assert verify(home).outcomes == {"good": 3}
    assert scanned(home) == every(home, topic)


def test_a_segment_that_is_lost_is_damage_and_stops_a_reader(home: Home) -> None:
    topic = sealed(home)
    lost = path_of(home, topic, row=1)
    lost.unlink()
    report = verify(home)
    assert report.outcomes == {"damaged": 1, "good": 11}
    (found,) = report.findings(10)
    assert found.object == str(lost.relative_to(home.url))
    assert "the manifest beside it names it" in found.what
    with pytest.raises(NotFoundError):
        scanned(home)
    job = Reindex(source=StoreSpec(home.url), layout="kafs")
    assert run_here(job).outcomes == {"damaged": 1, "good": 11}


def test_a_manifest_that_cannot_be_read_is_damage_and_stops_a_reader(home: Home) -> None:
    topic = sealed(home, rounds=1)
    manifest = path_of(home, topic).with_name("manifest")
    manifest.write_bytes(b"{")
    report = verify(home)
    # Without it nobody knows where the journal begins, either.
    assert report.outcomes == {"damaged": 1, "good": 2, "unsealed": 1}
    unsealed, found = report.findings(10)
    assert "it cannot be read: orders/0/manifest" in unsealed.what
    assert found.object == "orders/0/manifest"
    with pytest.raises(CorruptError, match="orders/0/manifest"):
        scanned(home)


def test_what_lies_before_the_start_of_a_log_is_not_read(home: Home) -> None:
    topic = sealed(home)
    write = new_id().hex()
    where = topic.path_of(0)
    home.run(change_manifest(where, write, lambda now: changes.start(now, write, 14)))
    assert scanned(home) == [one for one in every(home, topic) if one[0] or one[1] >= 14]


def test_a_segment_that_was_made_after_the_listing_is_read_as_the_manifest_has_it(
    home: Home,
) -> None:
    from lakelog.segments import find_logs

    topic = sealed(home, rounds=1)
    grown: list[bool] = []

    def perform(wish: Any) -> Any:
        answer = home.perform(wish)
        if not grown and "Page" in type(answer).__name__:
            grown.append(True)
            home.fill(topic, 12)
            run_here(home.seal())
        return answer

    logs = find_logs(perform, "kafs", Selection())
    assert [len(segments) for segments in logs.values()] == [2, 2, 2]
    assert all(".index" not in segments[1].sizes for segments in logs.values())


def test_a_partition_without_records_is_good_and_is_told(home: Home) -> None:
    topic = home.topic(partitions=2)
    write = new_id().hex()
    for partition in range(2):
        where = topic.path_of(partition)
        home.run(change_manifest(where, write, lambda now: changes.start(now, write, 1)))
    report = verify(home)
    assert (report.outcomes, report.verdict) == ({"empty": 2}, Verdict.GOOD)
    assert (report.segments, report.topics) == (0, 1)


def test_a_deleted_topic_has_no_segments(home: Home) -> None:
    topic = sealed(home, rounds=1)
    write = new_id().hex()
    for where in map(topic.path_of, range(topic.partitions)):
        home.run(change_manifest(where, write, lambda now: changes.delete(now, write)))
    assert scanned(home) == []
    report = verify(home)
    assert report.outcomes == {"empty": 3, "unsealed": 1}
    (found,) = report.findings(10)
    assert "was deleted" in found.what


def test_records_that_are_only_in_the_journal_are_not_passed_over_in_silence(home: Home) -> None:
    home.fill(home.topic(), 5)
    report = verify(home)
    assert report.verdict == Verdict.NOTHING
    missing, unsealed = report.findings(10)
    assert "--layout lakelog looks at all of it, its journal too" in missing.what
    assert "15 records are only in the journal" in unsealed.what


# ---------------------------------------------------------------------------- a namespace as such


def test_a_topic_without_records_is_good_in_a_namespace(home: Home) -> None:
    home.topic()
    wanted = Selection(topics=frozenset({"orders"}))
    report = run_here(VerifyNamespace(host=THIS_HOST, source=StoreSpec(home.url), selection=wanted))
    assert report.verdict == Verdict.GOOD
    assert (report.segments, report.topics) == (0, 1)


@pytest.mark.parametrize(
    "job", [partial(VerifyNamespace, host=THIS_HOST), ReindexNamespace], ids=["verify", "reindex"]
)
def test_a_topic_that_a_namespace_does_not_have_is_told(home: Home, job: Any) -> None:
    home.topic()
    wanted = Selection(topics=frozenset({"oders"}))
    report = run_here(job(source=StoreSpec(home.url), selection=wanted))
    assert report.verdict == Verdict.NOTHING
    (found,) = report.findings(10)
    assert "nothing of topic oders" in found.what
    assert "check the names of topics; there are orders" in found.what


def test_topics_without_records_on_both_sides_are_empty(home: Home) -> None:
    home.topic()
    store = StoreSpec(home.url)
    job = Compare(
        host=THIS_HOST, source=store, layout="lakelog", against=store, against_layout="lakelog"
    )
    report = run_here(job)
    assert (report.outcomes, report.verdict) == ({"empty": 1}, Verdict.GOOD)


# ---------------------------------------------------------------------------- without a manifest


def bare(tmp_path: Path) -> Path:
    """A bucket without manifests: a segment, and what was made of it."""
    write_partition(tmp_path, "kafs", make_records("kafs", 400))
    (old,) = tmp_path.rglob("*.kfs")
    old.with_name(f"{old.stem}-{'ab' * 16}.kfs").write_bytes(old.read_bytes())
    return tmp_path


def test_two_segments_of_the_same_offsets_are_refused_where_no_manifest_chooses(
    tmp_path: Path,
) -> None:
    root = bare(tmp_path)
    with pytest.raises(InvalidInputError, match="both begin at offset 0, and no manifest says"):
        lakelog.scan(str(root), layout="kafs")


def test_two_segments_of_the_same_offsets_are_told_by_verify(tmp_path: Path) -> None:
    report = run_here(Verify(host=THIS_HOST, source=StoreSpec(str(bare(tmp_path))), layout="kafs"))
    assert report.outcomes == {"damaged": 1, "good": 1}
    (found,) = report.findings(10)
    assert "offsets up to 399, the next segment begins at 0" in found.what


def test_a_segment_that_reaches_into_the_next_is_read_up_to_there(tmp_path: Path) -> None:
    records = make_records("kafs", 800)
    write_partition(tmp_path, "kafs", records[:500], segment_records=500)
    write_partition(tmp_path, "kafs", records[400:], segment_records=400)
    table = lakelog.scan(str(tmp_path), layout="kafs", columns=("offset",)).read_all()
    assert table.column("offset").to_pylist() == list(range(800))
