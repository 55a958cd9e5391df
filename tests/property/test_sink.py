"""What a task stages is what it was given: every row once, in order, where it belongs.

Judges are the plain codec and the plain hash. The store is one in memory.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakelog.catalog import Topic
from lakelog.log import Driver, Identity, Staged
from lakelog.log.packing import target_of
from lakelog.names import staged_key
from lakelog.records import Codec, decode_batches, hash_keys, sort_rows
from lakelog.spark.sink.options import WriteOptions
from lakelog.spark.sink.placing import RowPartitioner
from lakelog.spark.sink.tasks import TaskWriter
from lakelog.store import Get, MemoryStore
from tests.murmur2 import murmur2, partition_of

FIRST = 3
"""The partition that a task begins with."""
NOW_MS = 1_700_000_000_000
WRITE = bytes(15) + b"\x07"
IDENTITY = Identity(bytes(15) + b"\x05", 0, False)
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
TOPICS = {
    name: Topic(name=name, id=bytes(15) + bytes([at + 1]), partitions=count, lanes=3)
    for at, (name, count) in enumerate([("orders", 1), ("clicks", 5), ("views", 16)])
}
TYPES = {
    "topic": pa.string(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
    "partition": pa.int32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


class Clock:
    """Time that stands still."""

    def now_ms(self) -> int:
        return NOW_MS

    boot_ms = now_ms


class Row(NamedTuple):
    """A row of a frame."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[dict[str, Any]] | None
    partition: int | None
    timestamp: int | None


keys = st.none() | st.binary(max_size=9) | st.binary(max_size=70)
values = st.none() | st.binary(max_size=30) | st.integers(0, 4000).map(bytes)
headers = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=4), "value": st.none() | st.binary(max_size=5)}),
    max_size=3,
)


@st.composite
def rows(draw: st.DrawFn) -> Row:
    topic = draw(st.sampled_from(sorted(TOPICS)))
    return Row(
        topic,
        draw(keys),
        draw(values),
        draw(headers),
        draw(st.none() | st.integers(0, TOPICS[topic].partitions - 1)),
        draw(st.none() | st.integers(0, NOW_MS * 1000)),
    )


def frame(some: list[Row], names: list[str]) -> pa.RecordBatch:
    columns = [pa.array([getattr(row, name) for row in some], TYPES[name]) for name in names]
    return pa.record_batch(columns, names=names)


def staged_by(
    batches: list[pa.RecordBatch], options: WriteOptions, store: MemoryStore, **given: Any
) -> list[Staged]:
    writer = TaskWriter(
        Driver(store.perform),
        Clock(),
        RowPartitioner(
            lambda name: target_of(TOPICS[name], options.codec, options.batch_bytes),
            options.topic,
            FIRST,
        ),
        identity=IDENTITY,
        write=WRITE,
        buffer_bytes=options.buffer_bytes,
        **{"task": 2, "attempt": 0, **given},
    )
    return writer.write(batches)


Records = dict[tuple[bytes, int], list[tuple[Any, ...]]]


def read_back(staged: list[Staged], store: MemoryStore) -> Records:
    """What lies where tasks say it does, by the plain codec."""
    found: Records = {}
    for run in staged:
        whole = store.perform(Get(staged_key(WRITE, run.lane, run.part), 1 << 30)).body
        body = whole[run.position : run.position + run.length]
        batches = list(decode_batches(body))
        records = [record for batch in batches for record in batch.records]
        assert [record.offset for record in records] == list(range(run.offsets))
        times = [record.timestamp for record in records]
        assert (min(times), max(times)) == (run.min_timestamp, run.max_timestamp)
        found.setdefault((run.topic, run.partition), []).extend(
            (r.timestamp, r.key, r.value, [(h.key, h.value) for h in r.headers]) for r in records
        )
    return found


def as_record(row: Row, names: list[str]) -> tuple[Any, ...]:
    time = row.timestamp if "timestamp" in names else None
    pairs = (row.headers or []) if "headers" in names else []
    return (
        NOW_MS if time is None else time // 1000,
        row.key if "key" in names else None,
        row.value,
        [(pair["key"], pair["value"]) for pair in pairs],
    )


def placed(some: list[Row], names: list[str], topic: str | None, batch_bytes: int) -> Records:
    """Where rows must be, found row by row."""
    found: Records = {}
    filled = dict.fromkeys(TOPICS, 0)
    for row in some:
        home = TOPICS[topic or row.topic]
        if "partition" in names and row.partition is not None:
            partition = row.partition
        elif "key" in names and row.key is not None:
            partition = partition_of(row.key, home.partitions)
        else:
            partition = (FIRST + filled[home.name] // batch_bytes) % home.partitions
            filled[home.name] += len(row.value or b"") + 12
        found.setdefault((home.id, partition), []).append(as_record(row, names))
    return found


@given(
    some=st.lists(rows(), min_size=1, max_size=40),
    cuts=st.sets(st.integers(1, 39), max_size=4),
    codec=st.sampled_from(list(Codec)),
    batch_bytes=st.integers(1, 3000),
    buffer_bytes=st.integers(1, 5000),
    left_out=st.sets(st.sampled_from(["key", "headers", "partition", "timestamp"])),
    topic=st.none() | st.just("views"),
)
def test_every_row_is_staged_once_in_order_and_where_it_belongs(
    some: list[Row],
    cuts: set[int],
    codec: Codec,
    batch_bytes: int,
    buffer_bytes: int,
    left_out: set[str],
    topic: str | None,
) -> None:
    names = [n for n in TYPES if n not in left_out and not (topic and n in ("topic", "partition"))]
    whole = frame(some, names)
    ends = sorted({0, *(cut for cut in cuts if cut < len(some)), len(some)})
    batches = [whole.slice(a, b - a) for a, b in pairwise(ends)]
    store = MemoryStore()
    options = WriteOptions(
        path="memory:", topic=topic, codec=codec, batch_bytes=batch_bytes, buffer_bytes=buffer_bytes
    )
    staged = staged_by(batches, options, store)
    # The order of a plan is that of the numbers of its objects.
    staged.sort(key=lambda one: (one.lane, one.topic, one.partition, one.part, one.position))
    found = read_back(staged, store)
    for run in staged:
        (owner,) = (one for one in TOPICS.values() if one.id == run.topic)
        assert run.lane == owner.lane(run.partition)
    assert found == placed(some, names, topic, batch_bytes)


@given(
    keys=st.lists(st.none() | st.binary(max_size=40), max_size=30),
    start=st.integers(0, 10),
    length=st.integers(0, 30),
)
def test_the_compiled_hash_is_the_plain_one(
    keys: list[bytes | None], start: int, length: int
) -> None:
    column = pa.array(keys, pa.binary()).slice(start, length)
    expected = [-1 if k is None else murmur2(k) & 0x7FFFFFFF for k in column.to_pylist()]
    assert hash_keys(column).tolist() == expected


@given(places=st.lists(st.integers(0, 20), max_size=60))
def test_rows_are_sorted_by_place_and_keep_their_order(places: list[int]) -> None:
    order, ends = sort_rows(np.array(places, np.int32), 21)
    assert order.tolist() == sorted(range(len(places)), key=lambda row: places[row])
    assert ends.tolist() == [sum(place <= at for place in places) for at in range(21)]


def test_a_task_that_is_tried_again_puts_the_same_records_in_the_same_places() -> None:
    options = WriteOptions(path="memory:", topic="views", batch_bytes=100, buffer_bytes=1000)
    some = [Row("views", None, bytes(at), None, None, None) for at in range(90)]
    batches = [frame([row], ["value"]) for row in some]
    first, again = (staged_by(batches, options, MemoryStore()) for _ in range(2))
    assert first == again
    assert {run.partition for run in first} == set(range(16))


def test_an_object_is_never_taken_for_that_of_another_attempt() -> None:
    """Spark numbers attempts from 0 again when a stage is tried again, with rows in any order."""
    store = MemoryStore()
    options = WriteOptions(path="memory:", topic="views", buffer_bytes=1)
    some = [Row("", b"k%d" % (at % 3), b"%d" % at, None, None, None) for at in range(12)]
    batches = [frame([row], ["key", "value"]) for row in some]
    first = staged_by(batches[::-1], options, store)
    second = staged_by(batches, options, store)
    assert not {(one.lane, one.part) for one in first} & {(one.lane, one.part) for one in second}
    for staged, order in ((first, some[::-1]), (second, some)):
        assert read_back(staged, store) == placed(order, ["key", "value"], "views", 1)


def test_rows_are_in_order_also_where_another_attempt_died_half_way() -> None:
    """The order of a plan is that of the numbers of its objects."""
    store = MemoryStore()
    options = WriteOptions(path="memory:", topic="orders", buffer_bytes=1)
    some = [Row("", None, b"%d" % at, None, None, None) for at in range(6)]
    batches = [frame([row], ["value"]) for row in some]
    staged_by(batches[:3], options, store)
    staged = sorted(staged_by(batches, options, store), key=lambda one: one.part)
    assert read_back(staged, store) == placed(some, ["value"], "orders", 1)
