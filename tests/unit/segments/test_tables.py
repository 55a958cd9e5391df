"""Segments and batches as tables: what lies there, damage included."""

from dataclasses import replace

import pyarrow as pa
import pytest

from lakelog.errors import InvalidInputError
from lakelog.formats import FORMATS
from lakelog.model import Record, TimestampType
from lakelog.records import Codec, NewBatch, encode_batch
from lakelog.segments import Selection, each_segment, plan_tasks
from lakelog.segments.tables import read_batches, read_segments, table_schema
from lakelog.store import MemoryStore, Meter, PutIfAbsent, metered
from tests.plain_encoders import encode, encode_kafka_log

ALL = Selection()


def records(start: int, count: int) -> list[Record]:
    return [
        Record(offset=i, timestamp=1000 + i, key=None, value=b"v" * 50)
        for i in range(start, start + count)
    ]


def put(store: MemoryStore, stem: str, files: dict[str, bytes]) -> None:
    for suffix, data in files.items():
        store.perform(PutIfAbsent(stem + suffix, data))


def batches_table(store: MemoryStore, layout: str, *columns: str) -> list[dict[str, object]]:
    splits = plan_tasks(list(each_segment(store.perform, layout, ALL)), whole=True)
    found = [b for s in splits for b in read_batches(s, store.perform, columns or None)]
    table = pa.Table.from_batches(found, table_schema("batches", columns or None))
    rows: list[dict[str, object]] = table.to_pylist()
    return rows


def test_segments_are_known_from_the_listing_alone() -> None:
    store, meter = MemoryStore(), Meter()
    for start in (0, 10):
        put(store, f"b1/t-0/{start:020}", {".log": b"x" * 70, ".index": b"", ".timeindex": b"y"})
    put(store, f"b2/t-0/{5:020}", {".log": b"x"})
    put(store, f"b2/other-7/{0:020}", {".log": b""})
    wanted = Selection(topics=frozenset({"t"}))
    (found,) = read_segments(each_segment(metered(store.perform, meter), "kafka", wanted))
    assert set(meter.usage.requests) == {"list"}
    assert found.schema == table_schema("segments")
    first, second, third = found.to_pylist()
    assert first == {
        "topic": "t", "partition": 0, "base_offset": 0, "next_offset": 10, "format": "kafkalog",
        "object": f"b1/t-0/{0:020}.log", "bytes": 70, "index_bytes": 1, "active": False,
    }  # fmt: skip
    assert (second["base_offset"], second["next_offset"], second["active"]) == (10, None, True)
    assert (third["object"], third["index_bytes"]) == (f"b2/t-0/{5:020}.log", 0)


def test_a_batch_is_a_row_with_all_that_its_header_says() -> None:
    store = MemoryStore()
    plain = NewBatch(records=records(0, 3), leader_epoch=7)
    rich = NewBatch(
        records=[replace(record, timestamp=9000) for record in records(3, 2)], codec=Codec.ZSTD,
        producer_id=11, producer_epoch=2, base_sequence=40,
        is_transactional=True, timestamp_type=TimestampType.LOG_APPEND_TIME,
    )  # fmt: skip
    marker = NewBatch(records=records(5, 1), is_control=True)
    run = [encode_batch(batch) for batch in (plain, rich, marker)]
    put(store, f"t-0/{0:020}", encode_kafka_log(b"".join(run)))
    first, second, third = batches_table(store, "kafka")
    assert first["max_timestamp"].timestamp() == 1.002  # type: ignore[attr-defined]
    del first["max_timestamp"]
    assert first == {
        "topic": "t", "partition": 0, "object": f"t-0/{0:020}.log", "position": 0,
        "bytes": len(run[0]), "base_offset": 0, "next_offset": 3, "records": 3, "codec": "none",
        "timestamp_type": 0, "min_timestamp": None, "leader_epoch": 7, "producer_id": None,
        "producer_epoch": None, "base_sequence": None, "transactional": False, "control": False,
        "error": None,
    }  # fmt: skip
    assert second["position"] == len(run[0])
    assert (second["codec"], second["timestamp_type"], second["transactional"]) == ("zstd", 1, True)
    assert (second["producer_id"], second["producer_epoch"], second["base_sequence"]) == (11, 2, 40)
    assert second["min_timestamp"] == second["max_timestamp"]
    assert (third["control"], third["records"]) == (True, 1)


def test_damage_is_a_row_too_and_what_follows_is_read() -> None:
    store = MemoryStore()
    run = [encode_batch(NewBatch(records=records(3 * i, 3))) for i in range(3)]
    files = encode_kafka_log(b"".join(run))
    spoilt = bytearray(files[".log"])
    spoilt[len(run[0]) + 80] ^= 1
    put(store, f"t-0/{0:020}", files | {".log": bytes(spoilt)})
    rows = batches_table(store, "kafka", "position", "bytes", "records", "error")
    assert [row["records"] for row in rows] == [3, None, 3]
    assert (rows[1]["position"], rows[1]["bytes"]) == (len(run[0]), len(run[1]))
    assert str(rows[1]["error"]).startswith(f"at byte {len(run[0])}: CRC-32C is ")


@pytest.mark.parametrize(("layout", "fmt"), [("strm", "strm"), ("rustlog", "rustlog")])
def test_formats_without_batches_leave_columns_empty(layout: str, fmt: str) -> None:
    store, row = MemoryStore(), FORMATS[fmt]
    made = [Record(offset=i, timestamp=i, key=None, value=b"v") for i in range(4)]
    place = "topics/t/partitions/0" if layout == "rustlog" else "data/t/0"
    put(store, f"{place}/{row.file_stem(0)}", encode(row, made, Codec.NONE))
    found = batches_table(store, layout)
    assert sum(int(str(one["records"])) for one in found) == 4
    assert {(one["base_offset"], one["codec"], one["control"], one["error"]) for one in found} == {
        (None, None, None, None)
    }


def test_only_known_tables_and_columns_can_be_asked_for() -> None:
    with pytest.raises(InvalidInputError, match="no table 'topics'; there are segments, batches"):
        table_schema("topics")
    with pytest.raises(InvalidInputError, match="no column 'key'; there are topic, partition"):
        table_schema("segments", ["key"])
