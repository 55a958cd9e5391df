"""Segments in a store become Arrow: what is wanted of them, and no more bytes than that takes."""

import pyarrow as pa
import pytest

from lakelog.errors import CorruptError, InvalidInputError
from lakelog.formats import FORMATS
from lakelog.model import Record
from lakelog.records import Codec
from lakelog.segments import LATEST, OffsetSpec, Selection
from lakelog.segments.mend import read_split
from lakelog.segments.placed import placed_schema
from lakelog.segments.scan import ScanRequest, plan_scan
from lakelog.store import MemoryStore, Meter, PutIfAbsent, metered
from tests.plain_encoders import encode

START = 1_700_000_000_000
RECORDS = [
    Record(offset=i, timestamp=START + 10 * i, key=None, value=b"%06d" % i * 20)
    for i in range(30_000)
]


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    """A topic of one partition, in three segments."""
    made, fmt = MemoryStore(), FORMATS["kafkalog"]
    for start in range(0, len(RECORDS), 10_000):
        for suffix, data in encode(fmt, RECORDS[start : start + 10_000], Codec.NONE).items():
            made.perform(PutIfAbsent(f"disk/t-0/{fmt.file_stem(start)}{suffix}", data))
    return made


def offsets_of(store: MemoryStore, request: ScanRequest) -> list[int]:
    splits = plan_scan(store, request)
    batches = [b for s in splits for b in read_split(s, store.perform, ("offset", "topic"))]
    table = pa.Table.from_batches(batches, placed_schema(("offset", "topic")))
    assert set(table.column("topic").to_pylist()) <= {"t"}
    found: list[int] = table.column("offset").to_pylist()
    return found


@pytest.mark.parametrize("split_bytes", [1 << 30, 100_000])
def test_all_of_it_comes_in_order(store: MemoryStore, split_bytes: int) -> None:
    request = ScanRequest(layout="kafka", split_bytes=split_bytes)
    assert offsets_of(store, request) == list(range(30_000))


def test_there_are_as_many_tasks_as_asked_for(store: MemoryStore) -> None:
    request = ScanRequest(layout="kafka", splits_min=11)
    assert len(plan_scan(store, ScanRequest(layout="kafka"))) == 1
    assert len(plan_scan(store, request)) >= 11
    assert offsets_of(store, request) == list(range(30_000))


def test_a_time_is_the_first_record_that_is_not_older(store: MemoryStore) -> None:
    request = ScanRequest(
        layout="kafka",
        starting=OffsetSpec(timestamp=START + 10 * 15_000 - 3),
        ending=OffsetSpec(timestamp=START + 10 * 15_007),
    )
    assert offsets_of(store, request) == list(range(15_000, 15_007))


def test_a_small_range_takes_few_bytes(store: MemoryStore) -> None:
    meter = Meter()
    perform = metered(store.perform, meter)
    request = ScanRequest(
        layout="kafka",
        starting=OffsetSpec(offsets={("t", 0): 12_000}),
        ending=OffsetSpec(offsets={("t", 0): 12_010}),
    )
    (split,) = plan_scan(store, request)
    rows = sum(b.num_rows for b in read_split(split, perform, ("offset",), piece_bytes=4096))
    assert rows == 10
    assert meter.usage.bytes_read < split.size / 4


def test_a_beginning_after_the_last_record_is_an_error_or_the_end(store: MemoryStore) -> None:
    late = START + 10**9
    with pytest.raises(InvalidInputError, match="no record of t-0 is as late"):
        plan_scan(
            store,
            ScanRequest(layout="kafka", starting=OffsetSpec(timestamp=late, or_latest=False)),
        )
    assert plan_scan(store, ScanRequest(layout="kafka", starting=OffsetSpec(timestamp=late))) == []


def test_when_some_partitions_are_named_all_must_be(store: MemoryStore) -> None:
    request = ScanRequest(layout="kafka", starting=OffsetSpec(offsets={("t", 1): 0}))
    with pytest.raises(InvalidInputError, match="no offset for t-0"):
        plan_scan(store, request)


def test_an_offset_below_zero_means_an_end_or_nothing(store: MemoryStore) -> None:
    ranges = {("t", 0): LATEST}
    assert plan_scan(store, ScanRequest(layout="kafka", starting=OffsetSpec(offsets=ranges))) == []
    with pytest.raises(InvalidInputError, match="offset -7"):
        plan_scan(store, ScanRequest(layout="kafka", starting=OffsetSpec(offsets={("t", 0): -7})))


def test_other_topics_are_left_out(store: MemoryStore) -> None:
    request = ScanRequest(layout="kafka", selection=Selection(topics=frozenset({"other"})))
    assert plan_scan(store, request) == []


def test_damage_names_the_object() -> None:
    store, fmt = MemoryStore(), FORMATS["kafs"]
    segment = bytearray(encode(fmt, RECORDS[:100], Codec.NONE)[".kfs"])
    segment[500] ^= 1
    key = "ns/t/0/segment-00000000000000000000.kfs"
    store.perform(PutIfAbsent(key, bytes(segment)))
    (split,) = plan_scan(store, ScanRequest(layout="kafs"))
    with pytest.raises(CorruptError) as caught:
        list(read_split(split, store.perform))
    assert caught.value.where == key


def test_only_known_columns_can_be_asked_for() -> None:
    with pytest.raises(InvalidInputError, match="no column 'valeu'; there are key, value"):
        placed_schema(["valeu"])
