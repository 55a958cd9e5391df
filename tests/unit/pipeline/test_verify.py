"""verify and its comparison, step by step and without Spark."""

from pathlib import Path

import pytest

from lakelog.host import THIS_HOST
from lakelog.model import Record
from lakelog.pipeline import (
    Compare,
    Convert,
    Reindex,
    Verdict,
    Verify,
    plan_job,
    run_here,
)
from lakelog.records import CRC_START, Codec
from lakelog.segments import LAYOUTS, Selection
from lakelog.store import StoreSpec
from tests.stores import make_records, write_partition, write_topic


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def verify(root: Path, layout: str, **settings: object) -> Verify:
    return Verify(host=THIS_HOST, source=StoreSpec(str(root)), layout=layout, **settings)  # type: ignore[arg-type]


def compare(left: Path, layout: str, right: Path, other: str) -> Compare:
    return Compare(
        host=THIS_HOST,
        source=StoreSpec(str(left)),
        layout=layout,
        against=StoreSpec(str(right)),
        against_layout=other,
    )


def whole(layout: str) -> str:
    """How verify calls a segment in which it finds nothing wrong."""
    return "unverifiable" if layout == "rustlog" else "good"


def data_files(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("*") if p.suffix in (".log", ".kfs", ".seg"))


@pytest.mark.parametrize("records", [False, True])
def test_what_is_whole_is_good(tmp_path: Path, layout: str, records: bool) -> None:
    report = run_here(verify(write_topic(tmp_path, layout), layout, records=records, closed=True))
    assert report.outcomes == {whole(layout): 6}
    assert report.verdict == whole(layout)
    assert report.is_good == (layout != "rustlog")
    assert (report.records, report.findings_count) == (2000, 0)
    assert (report.segments, report.topics) == (6, 1)


def test_damage_is_found_in_its_object_at_its_place(tmp_path: Path, layout: str) -> None:
    write_topic(tmp_path, layout)
    victim = data_files(tmp_path)[1]
    data = bytearray(victim.read_bytes())
    # RustLog has no checksum: only what breaks its structure shows.
    at = 0 if layout == "rustlog" else len(data) // 2
    data[at] ^= 0x40
    victim.write_bytes(data)
    report = run_here(verify(tmp_path, layout, closed=True))
    assert report.outcomes == {"damaged": 1, whole(layout): 5}
    assert report.verdict == Verdict.BAD
    key = str(victim.relative_to(tmp_path))
    found = [finding for finding in report.findings(10) if finding.object == key]
    assert any(one.position <= at < one.position + max(1, one.size) for one in found)


def test_a_dry_run_tells_what_the_run_takes(tmp_path: Path, layout: str) -> None:
    job = verify(write_topic(tmp_path, layout), layout, closed=True)
    plan, _ = plan_job(job)
    report = run_here(job)
    assert len(plan.units) == 6
    assert plan.objects_read == sum(1 for path in tmp_path.rglob("*") if path.is_file())
    assert plan.expected.requests["list"] == report.usage.requests["list"]
    assert plan.expected.bytes_read >= report.usage.bytes_read / 2
    assert plan.expected.price_usd > 0


def test_an_index_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    write_partition(tmp_path, "kafs", make_records("kafs", 4000), segment_records=4000)
    (index,) = tmp_path.rglob("*.index")
    data = bytearray(index.read_bytes())
    data[-1] ^= 1
    index.write_bytes(data)
    (found,) = run_here(verify(tmp_path, "kafs")).findings(10)
    assert found.object.endswith(".index")


def test_a_segment_that_reaches_into_the_next_is_found(tmp_path: Path, layout: str) -> None:
    records = make_records(layout, 800)
    write_partition(tmp_path, layout, records[:500], segment_records=500)
    write_partition(tmp_path, layout, records[400:], segment_records=400)
    report = run_here(verify(tmp_path, layout))
    (found,) = report.findings(10)
    assert "offsets up to 499, the next segment begins at 400" in found.what
    assert report.outcomes == {"damaged": 1, whole(layout): 1}


def test_where_a_segment_ends_is_known_though_offsets_are_missing_in_it(
    tmp_path: Path, layout: str
) -> None:
    records = [record for record in make_records(layout, 800) if record.offset % 3 == 1]
    write_partition(tmp_path, layout, records[:200], segment_records=200)
    write_partition(tmp_path, layout, records[199:], segment_records=200)
    (found,) = run_here(verify(tmp_path, layout)).findings(10)
    assert "offsets up to 598, the next segment begins at 598" in found.what


def test_a_gap_between_segments_is_told_and_is_no_damage(tmp_path: Path, layout: str) -> None:
    records = make_records(layout, 1200)
    write_partition(tmp_path, layout, records)
    for path in data_files(tmp_path)[1:2]:
        for one in path.parent.glob(f"{path.stem}.*"):
            one.unlink()
    report = run_here(verify(tmp_path, layout, records=True))
    (found,) = report.findings(10)
    assert found.object == str(data_files(tmp_path)[0].relative_to(tmp_path))
    assert found.what == "no segment holds offsets 400 to 799: compacted or expired, or lost"
    assert "damaged" not in report.outcomes
    assert report.verdict == whole(layout)
    if layout != "rustlog":
        assert report.outcomes == {"gap": 1, "good": 1}


def test_a_changed_payload_does_not_show_where_there_is_no_checksum(tmp_path: Path) -> None:
    write_partition(tmp_path, "rustlog", make_records("rustlog", 10))
    (path,) = data_files(tmp_path)
    data = bytearray(path.read_bytes())
    data[25] ^= 1
    path.write_bytes(data)
    report = run_here(verify(tmp_path, "rustlog", closed=True, records=True))
    assert report.outcomes == {"unverifiable": 1}
    assert (report.verdict, report.is_good) == (Verdict.UNVERIFIABLE, False)
    assert report.summary()["verdict"] == "unverifiable"
    assert report.table.column("outcome").to_pylist() == ["unverifiable"]


def test_a_torn_end_is_damage_only_where_nobody_writes(tmp_path: Path) -> None:
    write_topic(tmp_path, "kafka", partitions=1)
    last = data_files(tmp_path)[-1]
    last.write_bytes(last.read_bytes()[:-10])
    for path in tmp_path.rglob(f"{last.stem}.*index"):
        path.unlink()
    assert run_here(verify(tmp_path, "kafka")).is_good
    assert not run_here(verify(tmp_path, "kafka", closed=True)).is_good


def test_nonsense_under_a_good_checksum_is_found_by_reading_records(tmp_path: Path) -> None:
    from crc32c import crc32c

    write_partition(tmp_path, "kafka", make_records("kafka", 10))
    (path,) = data_files(tmp_path)
    data = bytearray(path.read_bytes())
    data[61] ^= 0x7F  # The length of the first record.
    data[CRC_START - 4 : CRC_START] = crc32c(data[CRC_START:]).to_bytes(4, "big")
    path.write_bytes(data)
    assert run_here(verify(tmp_path, "kafka", closed=True)).is_good
    (found,) = run_here(verify(tmp_path, "kafka", closed=True, records=True)).findings(10)
    assert found.object == "orders-0/00000000000000000000.log"


def test_only_the_topics_that_are_wanted(tmp_path: Path) -> None:
    write_topic(tmp_path, "kafs")
    write_partition(tmp_path, "kafs", make_records("kafs", 10), topic="others")
    chosen = Selection(topics=frozenset({"others"}))
    assert run_here(verify(tmp_path, "kafs", selection=chosen)).records == 10


def test_every_copy_is_verified(tmp_path: Path) -> None:
    write_topic(tmp_path / "broker-1", "kafka", partitions=1)
    write_topic(tmp_path / "broker-2", "kafka", partitions=1)
    assert run_here(verify(tmp_path, "kafka")).records == 2000


# ---------------------------------------------------------------------------- nothing there


def test_an_audit_of_nothing_is_not_good_and_says_what_was_looked_for(
    tmp_path: Path, layout: str
) -> None:
    report = run_here(verify(tmp_path, layout))
    assert (report.is_good, report.verdict) == (False, Verdict.NOTHING)
    (found,) = report.findings(10)
    assert f"no segment in the layout {layout} ({LAYOUTS[layout].pattern})" in found.what
    assert str(tmp_path) in found.what
    assert "no object at all is there; check the address" in found.what


def test_who_finds_nothing_says_what_lies_there_instead(tmp_path: Path) -> None:
    write_topic(tmp_path, "strm")
    (found,) = run_here(verify(tmp_path, "kafs")).findings(10)
    assert "there are segments in the layout strm: try --layout strm" in found.what


def test_a_topic_that_is_not_there_is_told_beside_those_that_are(tmp_path: Path) -> None:
    write_topic(tmp_path, "kafs")
    wanted = Selection(topics=frozenset({"orders", "oders"}))
    report = run_here(verify(tmp_path, "kafs", selection=wanted))
    assert report.outcomes == {"good": 6, "missing": 1}
    assert report.verdict == Verdict.NOTHING
    (found,) = report.findings(10)
    assert "no segment of topic oders" in found.what
    assert "check the names of topics; there are orders" in found.what


def test_indexes_of_nothing_are_not_made(tmp_path: Path) -> None:
    job = Reindex(source=StoreSpec(str(tmp_path)), layout="kafs")
    assert run_here(job).verdict == Verdict.NOTHING


def test_a_conversion_of_nothing_is_not_good(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    job = Convert(
        host=THIS_HOST,
        source=StoreSpec(str(tmp_path / "a")),
        layout="kafs",
        target=StoreSpec(str(tmp_path / "b")),
        target_layout="strm",
    )
    assert run_here(job).verdict == Verdict.NOTHING


def test_a_segment_that_goes_while_it_is_verified_is_gone(tmp_path: Path) -> None:
    write_topic(tmp_path, "kafs")
    job = verify(tmp_path, "kafs")
    plan, usage = plan_job(job)
    first = data_files(tmp_path)[0]
    first.unlink()
    report = run_here(job, (plan, usage))
    assert report.outcomes == {"gone": 1, "good": 5}
    for path in data_files(tmp_path):
        path.unlink()
    assert run_here(job, (plan, usage)).verdict == Verdict.NOTHING


# ---------------------------------------------------------------------------- against


def test_two_places_that_hold_nothing_are_not_the_same(tmp_path: Path) -> None:
    report = run_here(compare(tmp_path, "kafka", tmp_path, "kafs"))
    assert report.verdict == Verdict.NOTHING


def test_the_same_records_in_two_layouts_are_the_same(tmp_path: Path, layout: str) -> None:
    records = make_records(layout, 1000)
    write_partition(tmp_path / "a", layout, records, segment_records=300)
    write_partition(tmp_path / "b", "kafka", records, segment_records=450, codec=Codec.ZSTD)
    for job in (
        compare(tmp_path / "a", layout, tmp_path / "b", "kafka"),
        compare(tmp_path / "b", "kafka", tmp_path / "a", layout),
    ):
        report = run_here(job)
        assert (report.is_good, report.records) == (True, 1000)


def test_what_is_missing_or_other_is_told_by_offset(tmp_path: Path) -> None:
    records = make_records("kafka", 1000)
    write_partition(tmp_path / "a", "kafka", records, segment_records=300)
    changed = [
        Record(offset=r.offset, timestamp=r.timestamp, key=r.key, value=b"other", headers=r.headers)
        if r.offset == 700
        else r
        for r in records
        if r.offset not in (0, 10, 299, 300, 999)
    ]
    write_partition(tmp_path / "b", "kafka", changed, segment_records=250)
    report = run_here(compare(tmp_path / "a", "kafka", tmp_path / "b", "kafka"))
    assert not report.is_good
    assert [found.what for found in report.findings(10)] == [
        "offset 0: missing there",
        "offset 10: missing there",
        "offset 299: missing there",
        "offset 300: missing there",
        "offset 700: other value there",
        "offset 999: missing there",
    ]
    back = run_here(compare(tmp_path / "b", "kafka", tmp_path / "a", "kafka"))
    assert {found.position for found in back.findings(10)} == {0, 10, 299, 300, 700, 999}


def test_a_partition_that_only_one_side_has_is_told(tmp_path: Path) -> None:
    write_topic(tmp_path / "a", "kafka", partitions=1, count=5)
    write_topic(tmp_path / "b", "kafka", partitions=2, count=5)
    for left, right, said in (("a", "b", "missing here"), ("b", "a", "missing there")):
        report = run_here(compare(tmp_path / left, "kafka", tmp_path / right, "kafka"))
        assert report.outcomes == {"different": 1, "good": 1}
        assert report.findings_count == 5
        assert all(said in found.what for found in report.findings(9))


def test_columns_that_one_side_cannot_hold_are_not_compared(tmp_path: Path) -> None:
    job = compare(tmp_path, "kafka", tmp_path, "rustlog")
    assert job.columns == ("offset", "value", "timestamp")
    assert "timestampType" not in compare(tmp_path, "kafka", tmp_path, "strm").columns
    assert len(compare(tmp_path, "kafka", tmp_path, "parquet").columns) == 6


def test_findings_are_counted_and_not_all_kept(tmp_path: Path) -> None:
    write_partition(tmp_path / "a", "kafka", make_records("kafka", 1000), segment_records=1000)
    write_partition(tmp_path / "b", "kafka", make_records("kafka", 1))
    report = run_here(compare(tmp_path / "a", "kafka", tmp_path / "b", "kafka"))
    assert report.findings_count == 100
    assert len(report.findings(1000)) == 100
