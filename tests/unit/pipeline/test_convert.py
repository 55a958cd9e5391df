"""convert, without Spark: there and back again, and what may be lost."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakelog.errors import InvalidInputError
from lakelog.formats import strm
from lakelog.host import THIS_HOST
from lakelog.model import Header, Record, TimestampType
from lakelog.pipeline import LOSSES, Compare, Convert, Report, Verify, parse_losses, run_here
from lakelog.records import Codec, NewBatch, encode_batch
from lakelog.segments import LAYOUTS
from lakelog.store import StoreSpec
from tests.stores import START_MS, make_records, write_partition, write_topic

EVERYTHING = frozenset(LOSSES)


def convert(source: Path, layout: str, target: Path, to: str, **settings: object) -> Report:
    job = Convert(
        host=THIS_HOST,
        source=StoreSpec(str(source)),
        layout=layout,
        target=StoreSpec(str(target)),
        target_layout=to,
        **settings,  # type: ignore[arg-type]
    )
    return run_here(job)


def same(left: Path, layout: str, right: Path, other: str) -> bool:
    job = Compare(
        host=THIS_HOST,
        source=StoreSpec(str(left)),
        layout=layout,
        against=StoreSpec(str(right)),
        against_layout=other,
    )
    return run_here(job).is_good


def bytes_of(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()
            and ".lakelog-staging" not in p.parts}  # fmt: skip


@pytest.mark.parametrize("middle", ["kafka", "kafs"])
def test_batches_come_back_byte_for_byte(tmp_path: Path, middle: str) -> None:
    layout = "kafs" if middle == "kafka" else "kafka"
    for partition in range(2):
        records = make_records(layout, 1000, partition=partition)
        write_partition(tmp_path / "a", layout, records, partition=partition, codec=Codec.LZ4)
    assert convert(tmp_path / "a", layout, tmp_path / "b", middle).outcomes == {"written": 6}
    assert convert(tmp_path / "b", middle, tmp_path / "c", layout).outcomes == {"written": 6}
    assert bytes_of(tmp_path / "c") == bytes_of(tmp_path / "a")


@pytest.mark.parametrize("to", [*LAYOUTS, "parquet"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_records_come_back_equal(tmp_path: Path, layout: str, to: str) -> None:
    # Only what RustLog can hold, so that nothing need be lost on any way.
    for partition in range(2):
        records = make_records("rustlog", 1000, partition=partition)
        write_partition(tmp_path / "a", layout, records, partition=partition)
    there = convert(tmp_path / "a", layout, tmp_path / "b", to)
    assert (there.outcomes, there.records) == ({"written": 6}, 2000)
    assert same(tmp_path / "a", layout, tmp_path / "b", to)
    if to != "parquet":
        checked = run_here(
            Verify(
                host=THIS_HOST,
                source=StoreSpec(str(tmp_path / "b")),
                layout=to,
                records=True,
                closed=True,
            )
        )
        assert checked.verdict == ("unverifiable" if to == "rustlog" else "good")
    back = convert(tmp_path / "b", to, tmp_path / "c", layout)
    assert back.records == 2000
    assert same(tmp_path / "a", layout, tmp_path / "c", layout)


@pytest.mark.parametrize("to", ["kafka", "kafs", "strm", "parquet"])
@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_everything_a_record_has_survives_a_codec(tmp_path: Path, to: str, codec: str) -> None:
    write_topic(tmp_path / "a", "kafka")
    settings = {"codec": Codec[codec.upper()], "level": 3, "block_bytes": 10_000}
    assert convert(tmp_path / "a", "kafka", tmp_path / "b", to, **settings).is_good
    assert same(tmp_path / "a", "kafka", tmp_path / "b", to)


@pytest.mark.parametrize("to", [*LAYOUTS, "parquet"])
def test_a_second_run_finds_its_work_done(tmp_path: Path, to: str) -> None:
    write_topic(tmp_path / "a", "rustlog")
    assert convert(tmp_path / "a", "rustlog", tmp_path / "b", to).outcomes == {"written": 6}
    made = bytes_of(tmp_path / "b")
    # As if the first run had been killed half-way.
    for path in sorted(tmp_path.joinpath("b").rglob("*"))[::3]:
        if path.is_file():
            path.unlink()
    again = convert(tmp_path / "a", "rustlog", tmp_path / "b", to)
    assert again.is_good
    assert set(again.outcomes) <= {"written", "present"}
    assert bytes_of(tmp_path / "b") == made
    assert convert(tmp_path / "a", "rustlog", tmp_path / "b", to).outcomes == {"present": 6}


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    write_topic(tmp_path / "a", "kafs", partitions=1, count=10)
    write_topic(tmp_path / "other", "kafs", partitions=1, count=11)
    assert convert(tmp_path / "other", "kafs", tmp_path / "b", "strm").is_good
    report = convert(tmp_path / "a", "kafs", tmp_path / "b", "strm")
    assert report.outcomes == {"refused": 1}
    assert "empty target" in report.findings(1)[0].what


def test_neighbours_become_larger_segments_and_large_ones_are_cut(tmp_path: Path) -> None:
    records = make_records("kafka", 3000)
    write_partition(tmp_path / "a", "kafka", records, segment_records=100)
    large = convert(tmp_path / "a", "kafka", tmp_path / "b", "kafs", segment_bytes=100_000)
    assert len(list(tmp_path.joinpath("b").rglob("*.kfs"))) == large.table.num_rows < 10
    assert same(tmp_path / "a", "kafka", tmp_path / "b", "kafs")
    convert(tmp_path / "b", "kafs", tmp_path / "c", "kafka", segment_bytes=5000)
    assert len(list(tmp_path.joinpath("c").rglob("*.log"))) == 30
    assert same(tmp_path / "a", "kafka", tmp_path / "c", "kafka")
    source = StoreSpec(str(tmp_path / "c"))
    assert run_here(Verify(host=THIS_HOST, source=source, layout="kafka", closed=True)).is_good


def test_days_are_folders(tmp_path: Path) -> None:
    records = make_records("kafka", 100, step_ms=6 * 60 * 60 * 1000)
    records[50:52] = [
        Record(offset=r.offset, timestamp=START_MS, key=r.key, value=r.value)
        for r in records[50:52]
    ]
    write_partition(tmp_path / "a", "kafka", records)
    convert(tmp_path / "a", "kafka", tmp_path / "b", "parquet")
    files = sorted(tmp_path.joinpath("b").rglob("*.parquet"))
    assert files[0].relative_to(tmp_path / "b").parts == (
        "topic=orders", "day=2023-11-14", "00000-00000000000000000000.parquet",
    )  # fmt: skip
    assert len(files) == 26
    assert sum(pq.read_metadata(path).num_rows for path in files) == 100
    convert(tmp_path / "b", "parquet", tmp_path / "c", "kafka")
    assert same(tmp_path / "a", "kafka", tmp_path / "c", "kafka")


def test_strm_is_lz4_unless_another_codec_is_named(tmp_path: Path) -> None:
    write_partition(tmp_path / "a", "kafka", make_records("strm", 100))
    for target, settings, codec in (
        ("b", {}, Codec.LZ4), ("c", {"codec": Codec.NONE}, Codec.NONE),
    ):  # fmt: skip
        convert(tmp_path / "a", "kafka", tmp_path / target, "strm", **settings)
        (path,) = (tmp_path / target).rglob("*.seg")
        assert strm.decode_header(path.read_bytes()[:64]).codec is codec


def test_copies_of_several_brokers_become_one_log(tmp_path: Path) -> None:
    records = make_records("kafka", 1000)
    write_partition(tmp_path / "a" / "broker-1", "kafka", records, segment_records=300)
    # It came later, and has only the end.
    write_partition(tmp_path / "a" / "broker-2", "kafka", records[500:], segment_records=250)
    write_partition(tmp_path / "whole", "kafka", records)
    for number, settings in enumerate(({}, {"codec": Codec.LZ4})):
        target = tmp_path / f"b{number}"
        report = convert(tmp_path / "a", "kafka", target, "kafs", **settings)
        assert report.is_good, report.findings(3)
        assert same(tmp_path / "whole", "kafka", target, "kafs")
        source = StoreSpec(str(target))
        assert run_here(Verify(host=THIS_HOST, source=source, layout="kafs")).records == 1000


def test_times_go_back_across_segments_that_are_put_together(tmp_path: Path) -> None:
    late = [Record(offset=0, timestamp=START_MS, key=None, value=b"")]
    early = [Record(offset=1, timestamp=START_MS - 1, key=None, value=b"")]
    write_partition(tmp_path / "a", "kafka", late)
    write_partition(tmp_path / "a", "kafka", early)
    report = convert(tmp_path / "a", "kafka", tmp_path / "b", "rustlog", segment_bytes=1 << 20)
    assert "--lose time-order" in report.findings(1)[0].what
    assert convert(tmp_path / "a", "kafka", tmp_path / "c", "rustlog").is_good


def test_a_time_without_a_date_is_refused(tmp_path: Path) -> None:
    far = [Record(offset=0, timestamp=1 << 52, key=None, value=b"")]
    write_partition(tmp_path / "a", "kafka", far)
    report = convert(tmp_path / "a", "kafka", tmp_path / "b", "parquet")
    assert report.outcomes == {"refused": 1}
    assert "has no date" in report.findings(1)[0].what


# ---------------------------------------------------------------------------- losses

ORDINARY = Record(offset=0, timestamp=START_MS, key=None, value=b"v")
LOSSY = {
    "keys": (Record(offset=1, timestamp=START_MS, key=b"k", value=b"v"), "rustlog"),
    "null-values": (Record(offset=1, timestamp=START_MS, key=None, value=None), "rustlog"),
    "headers": (
        Record(offset=1, timestamp=START_MS, key=None, value=b"", headers=(Header("h", None),)),
        "rustlog",
    ),
    "time-order": (Record(offset=1, timestamp=START_MS - 1, key=None, value=b"v"), "rustlog"),
}


@pytest.mark.parametrize("loss", LOSSY)
def test_a_loss_is_refused_unless_it_is_allowed(tmp_path: Path, loss: str) -> None:
    record, to = LOSSY[loss]
    write_partition(tmp_path / "a", "kafka", [ORDINARY, record])
    others = EVERYTHING - {loss}
    report = convert(tmp_path / "a", "kafka", tmp_path / "b", to, lose=others)
    assert report.outcomes == {"refused": 1}
    assert report.findings(1)[0].what == (
        f"offset 1: {to} cannot hold {LOSSES[loss]}; allow it with --lose {loss}"
    )
    assert bytes_of(tmp_path / "b") == {}
    allowed = convert(tmp_path / "a", "kafka", tmp_path / "b", to, lose=frozenset({loss}))
    assert allowed.outcomes == {"written": 1}
    assert allowed.records == 2


@pytest.mark.parametrize(
    ("loss", "settings"),
    [
        ("producers", {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}),
        ("timestamp-types", {"timestamp_type": TimestampType.LOG_APPEND_TIME}),
    ],
)
@pytest.mark.parametrize("to", ["strm", "rustlog"])
def test_what_batches_know_is_lost_only_when_allowed(
    tmp_path: Path, loss: str, settings: dict[str, int], to: str
) -> None:
    place = tmp_path / "a" / "orders-0"
    place.mkdir(parents=True)
    batch = encode_batch(NewBatch(records=[ORDINARY], **settings))  # type: ignore[arg-type]
    (place / "00000000000000000000.log").write_bytes(batch)
    report = convert(tmp_path / "a", "kafka", tmp_path / "b", to, lose=EVERYTHING - {loss})
    assert report.outcomes == {"refused": 1}
    assert f"--lose {loss}" in report.findings(1)[0].what
    lose = frozenset({loss})
    assert convert(tmp_path / "a", "kafka", tmp_path / "b", to, lose=lose).is_good
    # Whole batches keep it.
    assert convert(tmp_path / "a", "kafka", tmp_path / "c", "kafs").is_good


def test_a_transaction_is_lost_only_when_allowed(tmp_path: Path) -> None:
    place = tmp_path / "a" / "orders-0"
    place.mkdir(parents=True)
    batch = encode_batch(
        NewBatch(
            records=[ORDINARY], producer_id=7, producer_epoch=0, base_sequence=0,
            is_transactional=True,
        )
    )  # fmt: skip
    (place / "00000000000000000000.log").write_bytes(batch)
    lose = frozenset({"producers"})
    report = convert(tmp_path / "a", "kafka", tmp_path / "b", "parquet", lose=lose)
    assert "--lose transactions" in report.findings(1)[0].what


def test_damage_is_told_and_not_converted(tmp_path: Path) -> None:
    write_topic(tmp_path / "a", "kafs", partitions=1)
    victim = sorted(tmp_path.joinpath("a").rglob("*.kfs"))[1]
    data = bytearray(victim.read_bytes())
    data[200] ^= 1
    victim.write_bytes(data)
    for to in ("strm", "kafka"):
        report = convert(tmp_path / "a", "kafs", tmp_path / to, to)
        assert report.outcomes == {"damaged": 1, "written": 2}
        assert report.findings(1)[0].object == str(victim.relative_to(tmp_path / "a"))


def test_an_empty_segment_becomes_nothing(tmp_path: Path) -> None:
    place = tmp_path / "a" / "orders-0"
    place.mkdir(parents=True)
    (place / "00000000000000000000.log").write_bytes(b"")
    for to in ("kafs", "strm", "parquet"):
        assert convert(tmp_path / "a", "kafka", tmp_path / "b", to).outcomes == {"empty": 1}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"layout": "tape"}, "no layout 'tape'"),
        ({"target_layout": "tape"}, "no layout 'tape'"),
        ({"target": StoreSpec("/a")}, "is the source"),
        ({"codec": Codec.GZIP}, "does not know gzip: choose from lz4, none, zstd"),
        ({"segment_bytes": 0}, "segment_bytes is 0"),
        ({"block_bytes": 0}, "block_bytes is 0"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_is_read(
    settings: dict[str, object], said: str
) -> None:
    right: dict[str, object] = {
        "source": StoreSpec("/a"), "layout": "kafka", "target": StoreSpec("/b"),
        "target_layout": "strm",
    }  # fmt: skip
    with pytest.raises(InvalidInputError, match=said):
        Convert(host=THIS_HOST, **{**right, **settings})  # type: ignore[arg-type]


def test_losses_have_names() -> None:
    assert parse_losses(["keys, headers", "time-order"]) == {"keys", "headers", "time-order"}
    with pytest.raises(InvalidInputError, match="no loss 'sleep'"):
        parse_losses(["sleep"])
