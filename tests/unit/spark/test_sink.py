"""What a frame may be written, what is refused and how; what is in the log after commit and abort.

There is no Spark here: a task is a function of Arrow batches, and what Spark tells it is told by
the test.
"""

from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import StructType

from lakelog.catalog import Topic, create_topic, make_namespace, read_topic
from lakelog.errors import ConflictError, InvalidInputError, NotFoundError
from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane
from lakelog.log import OutOfRange, StagedObject, read
from lakelog.log.packing import RUN_BYTES, Packer, target_of
from lakelog.model import Record, Rules, TimestampType
from lakelog.names import STAGED_PREFIX
from lakelog.records import Codec, decode_batches, decode_header
from lakelog.spark import parse_write_options, stream_writer_of, writer_of
from lakelog.spark.sink.columns import check_columns, read_columns
from lakelog.spark.sink.options import WriteOptions
from lakelog.spark.sink.placing import RowPartitioner
from lakelog.store import list_objects, open_store, run, working

NOW_MS = 1_700_000_000_000
RULES = Rules(lanes=2, grace_ms=3_600_000, checkpoint_every=64)


def schema(text: str) -> StructType:
    # The parser of Spark needs a Spark; names and types are enough here.
    kinds = dict(one.split(":", 1) for one in text.split(";"))
    return StructType.fromJson(
        {
            "type": "struct",
            "fields": [
                {"name": name, "type": kind, "nullable": True, "metadata": {}}
                for name, kind in kinds.items()
            ],
        }
    )


def topic_of(partitions: int = 3, **configs: str) -> Topic:
    given = {name.replace("_", "."): value for name, value in configs.items()}
    return Topic(
        name="orders", id=bytes(15) + b"\x01", partitions=partitions, lanes=2, configs=given
    )


def parcels_of(rows: pa.RecordBatch, topic: Topic, **options: Any) -> dict[int, StagedObject]:
    given = WriteOptions(path="memory:", topic=topic.name, **options)
    placer = RowPartitioner(
        lambda _: target_of(topic, given.codec, given.batch_bytes), topic.name, 0
    )
    return Packer().pack(placer.partition(read_columns(rows, NOW_MS), NOW_MS), NOW_MS)


def packed(rows: pa.RecordBatch, topic: Topic, **options: Any) -> list[bytes]:
    """The runs that a window becomes."""
    parcels = parcels_of(rows, topic, **options)
    return [
        b"".join(parcel.pieces)[run.position : run.position + run.length]
        for parcel in parcels.values()
        for run in parcel.runs
    ]


def batch(**columns: list[Any]) -> pa.RecordBatch:
    kinds = {"partition": pa.int32(), "timestamp": pa.timestamp("us", tz="UTC")}
    arrays = {name: pa.array(of, kinds.get(name, pa.binary())) for name, of in columns.items()}
    return pa.record_batch(list(arrays.values()), names=list(arrays))


# ---------------------------------------------------------------------------- columns and options


BYTES = "string or binary"
TIMES = "double or timestamp"
PAIRS = "array<struct<key:string,value:binary>>"

NO_TOPIC = (
    "topic option required when no 'topic' attribute is present. Use the topic option for setting "
    "a topic."
)


def unsupported(name: str, kind: str, allowed: str) -> str:
    return f"{name} attribute unsupported type {kind}. {name} must be a(n) {allowed}"


@pytest.mark.parametrize(
    ("columns", "topic", "said"),
    [
        ("key:string", "t", "Required attribute 'value' not found"),
        ("value:integer", "t", unsupported("value", "int", BYTES)),
        ("value:string;key:long", "t", unsupported("key", "bigint", BYTES)),
        ("value:string;topic:integer", None, unsupported("topic", "int", "string")),
        ("value:string;partition:long", "t", unsupported("partition", "bigint", "int")),
        ("value:string;headers:string", "t", unsupported("headers", "string", PAIRS)),
        ("value:string;timestamp:long", "t", unsupported("timestamp", "bigint", TIMES)),
        (
            "value:string",
            None,
            NO_TOPIC,
        ),
    ],
)
def test_a_frame_is_refused_in_the_words_of_sparks_kafka_sink(
    columns: str, topic: str | None, said: str
) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        check_columns(schema(columns), topic)
    assert str(refusal.value) == said


def test_the_option_goes_before_the_column_whatever_that_is() -> None:
    check_columns(schema("value:binary;topic:integer;extra:double"), "t")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "option 'path' is missing"),
        ({"path": "x", "compression": "brotli"}, "use one of none, gzip, snappy, lz4, zstd"),
        ({"path": "x", "batchBytes": "0"}, "option batchBytes is '0': use 1 to"),
        ({"path": "x", "bufferBytes": "1e9"}, "option bufferBytes is '1e9'"),
        ({"path": "x", "subscribe": "t"}, "no option 'subscribe' of a write"),
        ({"path": "x", "layout": "kafs"}, "rows are written to a namespace"),
        ({"path": "x", "kafka.key.serializer": "s"}, "Kafka option 'key.serializer' is not"),
    ],
)
def test_an_option_that_means_nothing_is_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        parse_write_options(options)


def test_what_spark_and_kafka_clients_are_told_is_passed_over() -> None:
    given = {"PATH": "x", "Topic": "t", "COMPRESSION": "LZ4", "store.Region": "r"}
    others = {"kafka.bootstrap.servers": "h", "checkpointLocation": "c", "queryName": "q"}
    options = parse_write_options(given | others)
    assert (options.path, options.topic, options.codec) == ("x", "t", Codec.LZ4)
    assert options.store_options == {"Region": "r"}


# ---------------------------------------------------------------------------- what topics demand


def test_the_codec_is_the_options_then_the_topics_then_none() -> None:
    asked = WriteOptions(path="x", codec=Codec.ZSTD)
    plain = WriteOptions(path="x")
    assert (
        target_of(topic_of(compression_type="lz4"), asked.codec, asked.batch_bytes).codec
        is Codec.ZSTD
    )
    assert (
        target_of(topic_of(compression_type="lz4"), plain.codec, plain.batch_bytes).codec
        is Codec.LZ4
    )
    for other in ("producer", "uncompressed"):
        assert (
            target_of(topic_of(compression_type=other), plain.codec, plain.batch_bytes).codec
            is Codec.NONE
        )


@pytest.mark.parametrize("codec", list(Codec))
def test_no_batch_is_larger_than_its_topic_takes(codec: Codec) -> None:
    values = [b"".join(new_id() for _ in range(20)) for _ in range(300)]  # Mostly noise.
    topic = topic_of(1, max_message_bytes="700")
    for body in packed(batch(value=values), topic, codec=codec):
        assert max(found.header.size for found in decode_batches(body)) <= 700


def test_a_record_that_is_too_large_alone_is_refused() -> None:
    topic = topic_of(1, max_message_bytes="700")
    fits = 700 - 61 - 9  # A header, and what a record has around its value.
    assert packed(batch(value=[bytes(fits)]), topic)
    with pytest.raises(InvalidInputError, match=r"RecordTooLargeException.*max\.message\.bytes"):
        packed(batch(value=[b"", bytes(fits + 1)]), topic)
    # What counts is the size of the batch as it is stored.
    assert packed(batch(value=[bytes(100_000)]), topic, codec=Codec.ZSTD)


def test_a_compacted_topic_takes_no_record_without_a_key() -> None:
    topic = topic_of(cleanup_policy="compact,delete")
    assert packed(batch(key=[b"", b"a"], value=[None, b""]), topic)
    for keyless in (batch(value=[b"a"]), batch(key=[b"k", None], value=[b"a", b"b"])):
        with pytest.raises(InvalidInputError, match="Compacted topic cannot accept message"):
            packed(keyless, topic)


def test_a_topic_with_times_of_the_log_has_them() -> None:
    topic = topic_of(1, message_timestamp_type="LogAppendTime")
    rows = batch(value=[b"a", b"b"], timestamp=[0, NOW_MS * 2000])
    (found,) = (one for body in packed(rows, topic) for one in decode_batches(body))
    assert found.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in found.records] == [NOW_MS, NOW_MS]
    (parcel,) = parcels_of(rows, topic).values()
    assert [(one.min_timestamp, one.max_timestamp) for one in parcel.runs] == [(NOW_MS, NOW_MS)]


def test_a_time_is_that_of_the_column_or_now() -> None:
    rows = batch(value=[b"a", b"b"], timestamp=[1_234_567, None])
    (found,) = (one for body in packed(rows, topic_of(1)) for one in decode_batches(body))
    assert [record.timestamp for record in found.records] == [1234, NOW_MS]


def test_a_double_is_seconds() -> None:
    rows = pa.record_batch([pa.array([b"a"]), pa.array([1.5])], names=["value", "timestamp"])
    assert read_columns(rows, NOW_MS).column("timestamp").cast(pa.int64()).to_pylist() == [1500000]


@pytest.mark.parametrize(
    ("time_us", "said"),
    [
        (-1, "Timestamp should always be non-negative or null"),
        ((NOW_MS + 3_600_001) * 1000, "change them, or the topic's message.timestamp"),
    ],
)
def test_a_time_that_no_broker_takes_is_refused(time_us: int, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        packed(batch(value=[b"a"], timestamp=[time_us]), topic_of(1))


@pytest.mark.parametrize(
    ("partition", "said"),
    [
        (-1, "Invalid partition: -1. Partition number should always be non-negative or null"),
        (3, "Partition 3 of topic orders with partition count 3 is not present"),
    ],
)
def test_a_partition_that_there_is_not_is_refused(partition: int, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        packed(batch(value=[b"a", b"b"], partition=[None, partition]), topic_of(3))


def test_a_run_is_short_enough_to_be_read_at_once() -> None:
    bodies = packed(batch(value=[bytes(10_000)] * 1500), topic_of(1))
    assert len(bodies) > 3
    assert all(len(body) < 1.1 * RUN_BYTES for body in bodies)
    assert all(decode_header(body).base_offset == 0 for body in bodies)


def test_many_small_runs_hold_about_what_they_are() -> None:
    rows = batch(key=[b"%d" % at for at in range(10_000)], value=[bytes(100)] * 10_000)
    before = pa.total_allocated_bytes()
    parcels = parcels_of(rows, topic_of(2000))
    runs = sum(len(parcel.runs) for parcel in parcels.values())
    size = sum(parcel.size for parcel in parcels.values())
    assert runs > 1900
    assert pa.total_allocated_bytes() - before < 2 * size


# ---------------------------------------------------------------------------- commit and abort


class Context:
    """What Spark tells a task."""

    def __init__(self, task: int = 0, query: UUID | None = None, number: int = 0) -> None:
        self._task, self._query, self._number = task, query, number

    def partitionId(self) -> int:  # noqa: N802
        return self._task

    def attemptNumber(self) -> int:  # noqa: N802
        return 0

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
        if self._query is None:
            return None
        told = {"sql.streaming.queryId": str(self._query), "streaming.sql.batchId": self._number}
        return str(told[name])


class Place:
    """A namespace in a folder, and what tasks of it are told."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._monkeypatch = folder, monkeypatch
        self._perform = working(open_store(str(folder)).perform)
        self.run(make_namespace(new_id(), RULES))
        topic = create_topic("orders", topic_id=new_id(), partitions=4, lanes=2, now_ms=0)
        self.run(topic)
        self.options = {"path": str(folder), "topic": "orders"}

    def run(self, flow: Any) -> Any:
        return run(flow, self._perform)

    def tell(self, context: Context | None) -> None:
        self._monkeypatch.setattr(TaskContext, "get", lambda: context)

    def records(self) -> list[Record]:
        """All there is, by the reader of the log."""
        topic, found = self.run(read_topic("orders")), []
        for partition in range(topic.partitions):
            number, offset = topic.lane(partition), 0
            lane = Lane(
                number=number, rules=RULES, clock=SystemClock(), ids=new_id, writer=new_id()
            )
            while True:
                chunk = self.run(read(lane, topic.path_of(partition), offset, 1 << 20))
                assert not isinstance(chunk, OutOfRange)
                if not chunk.body:
                    break
                found += [record for one in decode_batches(chunk.body) for record in one.records]
                offset = chunk.next_offset
        return found

    def staged(self) -> list[str]:
        return [info.key for info in self.run(list_objects(STAGED_PREFIX))]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path / "log", monkeypatch)


COLUMNS = schema("key:binary;value:binary")


def rows_of(first: int) -> list[pa.RecordBatch]:
    values = [b"%d" % at for at in range(first, first + 50)]
    return [batch(key=values, value=values)]


def values_of(records: list[Record]) -> list[int]:
    return sorted(int(record.value or b"") for record in records)


def test_a_committed_batch_is_in_the_log_and_an_aborted_one_is_not(place: Place) -> None:
    writer = writer_of(COLUMNS, place.options, overwrite=False)
    messages = []
    for task in range(3):
        place.tell(Context(task))
        messages.append(writer.write(iter(rows_of(50 * task))))
    assert not place.records()
    writer.commit(messages)
    assert values_of(place.records()) == list(range(150))
    other = writer_of(COLUMNS, place.options, overwrite=False)
    message = other.write(iter(rows_of(500)))
    other.abort([message, None])
    assert values_of(place.records()) == list(range(150))
    with pytest.raises(ConflictError):
        other.commit([message])
    assert values_of(place.records()) == list(range(150))


def test_a_frame_without_rows_leaves_nothing(place: Place) -> None:
    writer = writer_of(COLUMNS, place.options, overwrite=False)
    place.tell(Context())
    writer.commit([writer.write(iter([]))])
    assert place.staged() == []


def test_a_micro_batch_that_is_run_again_counts_once(place: Place) -> None:
    query = UUID(int=7)
    for number, first in ((0, 0), (0, 0), (1, 50), (1, 50), (2, 100)):
        place.tell(Context(0, query, number))
        message = stream_writer_of(COLUMNS, place.options).write(iter(rows_of(first)))
        # Spark makes another writer for the commit.
        place.tell(None)
        stream_writer_of(COLUMNS, place.options).commit([message], number)
    assert values_of(place.records()) == list(range(150))


def test_a_micro_batch_that_was_aborted_can_be_written_by_the_next_attempt(place: Place) -> None:
    query = UUID(int=7)
    place.tell(Context(0, query, 0))
    messages = [stream_writer_of(COLUMNS, place.options).write(iter(rows_of(0))) for _ in range(2)]
    stream_writer_of(COLUMNS, place.options).abort([messages[0], None], 0)
    assert not place.records()
    stream_writer_of(COLUMNS, place.options).commit([messages[1]], 0)
    assert values_of(place.records()) == list(range(50))
    stream_writer_of(COLUMNS, place.options).abort([None, None], 1)


def test_tasks_of_two_attempts_are_never_committed_together(place: Place) -> None:
    place.tell(Context(0, UUID(int=7), 3))
    messages = [stream_writer_of(COLUMNS, place.options).write(iter(rows_of(0))) for _ in range(2)]
    for mixed, number in ((messages, 3), (messages[:1], 4)):
        with pytest.raises(InvalidInputError, match="restart the query"):
            stream_writer_of(COLUMNS, place.options).commit(mixed, number)
    assert not place.records()


def test_a_stream_that_is_none_is_refused(place: Place) -> None:
    place.tell(Context())
    with pytest.raises(InvalidInputError, match=r"start it by df\.writeStream"):
        stream_writer_of(COLUMNS, place.options).write(iter([]))


def test_a_write_to_nowhere_is_refused_before_a_task_runs(place: Place, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no topic 'nowhere': check the name"):
        writer_of(COLUMNS, place.options | {"topic": "nowhere"}, overwrite=False)
    with pytest.raises(NotFoundError, match="there is no namespace here"):
        writer_of(COLUMNS, place.options | {"path": str(tmp_path / "other")}, overwrite=False)
    with pytest.raises(InvalidInputError, match="Save mode Overwrite not allowed for Kafka"):
        writer_of(COLUMNS, place.options, overwrite=True)
