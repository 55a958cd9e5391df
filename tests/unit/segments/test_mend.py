"""PERMISSIVE: a row for each damage, and every record that can be read."""

from pathlib import Path

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import CorruptError, InvalidInputError
from lakelog.formats import FORMATS
from lakelog.model import Header, Record
from lakelog.records import Codec, NewBatch, encode_batch
from lakelog.segments import Mode, OffsetSpec
from lakelog.segments.mend import read_split
from lakelog.segments.placed import placed_schema
from lakelog.segments.scan import ScanRequest, plan_scan
from lakelog.store import MemoryStore, PutIfAbsent
from tests.plain_encoders import encode, encode_kafka_log

KEY = "disk/t-0/00000000000000000000"


def records_from(start: int, count: int = 10) -> list[Record]:
    return [
        Record(
            offset=i,
            timestamp=1000 + i,
            key=b"k",
            value=b"%d" % i * 30,
            headers=(Header("caf\udce9", b"x"),),
        )
        for i in range(start, start + count)
    ]


def batches(count: int) -> list[bytes]:
    return [encode_batch(NewBatch(records=records_from(10 * i))) for i in range(count)]


def put(files: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    for suffix, data in files.items():
        store.perform(PutIfAbsent(KEY + suffix, data))
    return store


def segment(run: list[bytes]) -> dict[str, bytes]:
    return encode_kafka_log(b"".join(run), interval_bytes=0)


def spoilt(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def read(store: MemoryStore, *columns: str, **request: object) -> list[dict[str, object]]:
    asked = ScanRequest(layout="kafka", mode=Mode.PERMISSIVE, **request)  # type: ignore[arg-type]
    found = [
        batch
        for split in plan_scan(store, asked)
        for batch in read_split(split, store.perform, columns, mode=Mode.PERMISSIVE)
    ]
    rows: list[dict[str, object]] = pa.Table.from_batches(
        found, placed_schema(columns, Mode.PERMISSIVE)
    ).to_pylist()
    return rows


@pytest.mark.parametrize("split_bytes", [1 << 20, 300])
def test_what_stands_before_and_behind_damage_comes_out(split_bytes: int) -> None:
    run = batches(4)
    start, size = len(run[0]), len(run[1])
    bad = [run[0], spoilt(run[1], 100), *run[2:]]
    files = segment(run) | {".log": b"".join(bad)}
    rows = read(
        put(files), "topic", "partition", "offset", "headers", "_corrupt", split_bytes=split_bytes
    )
    offsets = [row["offset"] for row in rows]
    assert offsets == [*range(10), None, *range(20, 40)]
    (damage,) = [row for row in rows if row["_corrupt"] is not None]
    assert (damage["topic"], damage["partition"], damage["headers"]) == ("t", 0, None)
    told = str(damage["_corrupt"])
    assert told.startswith(f"{KEY}.log at byte {start}: CRC-32C is ")
    assert told.endswith(f"; {size} bytes skipped")
    # The walk reads names as the kernels do.
    assert {str(row["headers"]) for row in rows if row is not damage} == {
        str([{"key": "caf\ufffd", "value": b"x"}])
    }


@pytest.mark.parametrize("split_bytes", [1 << 20, 300])
def test_a_damaged_index_is_told_once_and_all_records_come(split_bytes: int) -> None:
    files = segment(batches(4))
    files[".index"] = files[".index"][8:16] * 3
    rows = read(put(files), "value", "_corrupt", split_bytes=split_bytes)
    told = [str(row["_corrupt"]) for row in rows if row["_corrupt"] is not None]
    assert len(told) == 1
    assert told[0].startswith(f"{KEY}.index at byte 8: ")
    assert [row["value"] for row in rows if row["value"] is not None] == [
        record.value for record in records_from(0, 40)
    ]


def test_only_wanted_offsets_come_from_behind_damage() -> None:
    run = batches(4)
    files = segment(run) | {".log": b"".join([run[0], spoilt(run[1], 100), *run[2:]])}
    starting, ending = OffsetSpec(offsets={("t", 0): 5}), OffsetSpec(offsets={("t", 0): 33})
    rows = read(put(files), "offset", "_corrupt", starting=starting, ending=ending)
    assert [row["offset"] for row in rows] == [*range(5, 10), None, *range(20, 33)]


def test_a_time_is_found_in_a_segment_with_a_damaged_index() -> None:
    files = segment(batches(4))
    files[".index"] = files[".index"][8:16] * 3
    rows = read(put(files), "offset", "_corrupt", starting=OffsetSpec(timestamp=1036))
    assert [row["offset"] for row in rows if row["offset"] is not None] == [36, 37, 38, 39]
    with pytest.raises(CorruptError, match=KEY):
        plan_scan(put(files), ScanRequest(layout="kafka", starting=OffsetSpec(timestamp=1036)))


def test_a_torn_end_is_not_damage() -> None:
    run = batches(2)
    files = segment(run[:1])
    files[".log"] += run[1][:-1]
    rows = read(put(files), "offset", "_corrupt")
    assert [row["offset"] for row in rows] == list(range(10))


def test_markers_of_transactions_stay_hidden_behind_damage() -> None:
    run = batches(3)
    marker = encode_batch(NewBatch(records=records_from(30, 1), is_control=True))
    files = segment([*run, marker]) | {".log": b"".join([spoilt(run[0], 100), *run[1:], marker])}
    rows = read(put(files), "offset", "_corrupt")
    assert [row["offset"] for row in rows] == [None, *range(10, 30)]


def test_a_time_that_no_column_holds_costs_its_batch_unless_nobody_asks_for_times() -> None:
    late = Record(offset=10, timestamp=1 << 62, key=None, value=b"late")
    run = [batches(1)[0], encode_batch(NewBatch(records=[late])), *batches(4)[2:]]
    store = put(segment(run))
    rows = read(store, "offset", "timestamp", "_corrupt")
    assert [row["offset"] for row in rows] == [*range(10), None, *range(20, 40)]
    assert "ask for columns without `timestamp`" in str(rows[10]["_corrupt"])
    rows = read(store, "offset", "_corrupt")
    assert [row["offset"] for row in rows] == [*range(11), *range(20, 40)]


def test_the_column_exists_only_where_it_has_a_meaning(tmp_path: Path) -> None:
    run = batches(2)
    for suffix, data in (segment(run) | {".log": run[0] + spoilt(run[1], 100)}).items():
        path = tmp_path / f"t-0/{0:020}{suffix}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    # Behind the last segment, damage would be an end that is still on its way.
    (tmp_path / f"t-0/{20:020}.log").touch()
    with pytest.raises(CorruptError, match=r"t-0/00000000000000000000.log at byte"):
        lakelog.scan(str(tmp_path), layout="kafka").read_all()
    table = lakelog.scan(str(tmp_path), layout="kafka", mode="permissive").read_all()
    assert table.schema.names[-1] == "_corrupt"
    assert (table.num_rows, table.column("_corrupt").null_count) == (11, 10)
    with pytest.raises(InvalidInputError, match="mode=PERMISSIVE adds it"):
        lakelog.scan(str(tmp_path), layout="kafka", columns=["offset", "_corrupt"])
    with pytest.raises(InvalidInputError, match="no mode 'lenient'; there are FAILFAST, PERM"):
        lakelog.scan(str(tmp_path), layout="kafka", mode="lenient")


def test_formats_without_batches_are_mended_too() -> None:
    fmt = FORMATS["strm"]
    data = encode(fmt, records_from(0), Codec.NONE)[".seg"]
    store = MemoryStore()
    store.perform(PutIfAbsent(f"data/t/0/{0:020}.seg", spoilt(data, 90)))
    splits = plan_scan(store, ScanRequest(layout="strm"))
    (row,) = [
        row
        for split in splits
        for batch in read_split(split, store.perform, ("_corrupt",), mode=Mode.PERMISSIVE)
        for row in batch.to_pylist()
    ]
    assert row["_corrupt"].startswith(f"data/t/0/{0:020}.seg at byte 64: ")


def test_damage_behind_the_end_belongs_to_the_last_part() -> None:
    """A file that was cut short lacks what should stand behind its end."""
    store, key = MemoryStore(), f"ns/t/0/segment-{0:020}.kfs"
    store.perform(PutIfAbsent(key, b"KAFS"))
    (split,) = plan_scan(store, ScanRequest(layout="kafs"))
    found = list(read_split(split, store.perform, ("_corrupt",), mode=Mode.PERMISSIVE))
    assert [row["_corrupt"] for batch in found for row in batch.to_pylist()] == [
        f"{key} at byte 0: 4 bytes, a header has 32",
        f"{key} at byte 32: 0 bytes, a footer has 16",
    ]


@pytest.mark.parametrize("split_bytes", [1 << 20, 300])
def test_a_damaged_batch_is_no_torn_end_where_its_part_ends(split_bytes: int) -> None:
    """The last segment of a partition may end torn, but only where the segment ends."""
    run = batches(4)
    files = segment(run) | {".log": b"".join([run[0], spoilt(run[1], 100), *run[2:]])}
    store = put(files)
    splits = plan_scan(store, ScanRequest(layout="kafka", split_bytes=split_bytes))
    with pytest.raises(CorruptError, match="CRC-32C"):
        [batch for split in splits for batch in read_split(split, store.perform)]
