"""Placed rows to bytes: runs of record batches, one object for each lane.

    object of a lane    | run of orders-0 | run of orders-4 | run of orders-4 | run of clicks-1 |
    run                 batches of one partition, whose offsets count from 0

A run is what a slice of the journal points at. Offsets are not known before the commit, and need
not be: they lie outside the CRC of a batch. Runs are short enough to be read at once, because a
reader of one batch may have to.

A batch is limited by its size before compression. Bytes that cannot be compressed become longer, so
that is not the end of it: what turns out too large for its topic is packed again into smaller ones,
and a record that is too large alone is refused, as a broker would.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.catalog import Topic, TopicConfigs, compression_codec
from lakelog.errors import InvalidInputError, NotFoundError
from lakelog.log.staging import StagedObject
from lakelog.model import TimestampType
from lakelog.records import Codec, frames

if TYPE_CHECKING:
    from lakelog.records.encoder import BatchEncoder

__all__ = [
    "BATCH_BYTES",
    "Packer",
    "PartitionRows",
    "PartitionedRows",
    "TopicTarget",
    "check_rows",
    "target_of",
]

Array = npt.NDArray[Any]

BATCH_BYTES = 1 << 20
"""How large a record batch becomes, before it is compressed, unless somebody says otherwise."""
RUN_BYTES = 4 << 20
COPIED_BYTES = 256 << 10
"""A shorter run is copied. It lies in memory that an encoder has for whole batches, and thousands
of them, one for each partition, would hold many times what they are."""
RECORDS_MAX = 100_000
"""In a batch: so many are a megabyte even if they are empty."""


@dataclass(frozen=True, slots=True)
class TopicTarget:
    """A topic, as a task knows it."""

    topic: Topic
    configs: TopicConfigs
    codec: Codec
    batch_bytes: int


def target_of(topic: Topic, codec: Codec | None, batch_bytes: int) -> TopicTarget:
    """Return what a task must know of a topic. Without a codec, it is the topic's.

    Raises:
        NotFoundError: it is deleted, or not open yet.
    """
    if not topic.is_open:
        raise NotFoundError(f"there is no topic {topic.name!r}: check the name, or create it")
    configs = TopicConfigs.of(topic.configs)
    if codec is None:
        codec = compression_codec(topic.configs) or Codec.NONE
    most = configs.max_message_bytes
    if codec is not Codec.NONE:
        most -= most // 128 + 64  # What cannot be compressed grows by about as much.
    return TopicTarget(topic, configs, codec, max(min(batch_bytes, most), 1))


class PartitionRows(NamedTuple):
    """Rows ``[start, end)`` are of one partition."""

    target: TopicTarget
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PartitionedRows:
    """Records by partition, in the order of the rows within each."""

    rows: pa.RecordBatch
    groups: list[PartitionRows]


def check_rows(target: TopicTarget, keyless: Array, times_ms: Array, now_ms: int) -> None:
    """See that rows may be in a topic, as a broker would."""
    configs, name = target.configs, target.topic.name
    what = configs.refuse_keyless(name) if keyless.any() else ""
    if configs.timestamp_type is TimestampType.CREATE_TIME and len(times_ms):
        least, most = int(times_ms.min()), int(times_ms.max())
        what = what or configs.refuse_times(name, least, most, now_ms)
    if what:
        raise InvalidInputError(what)


class Packer:
    """Packs the rows of one task."""

    def __init__(self) -> None:
        self._encoders: dict[tuple[Codec, int], BatchEncoder] = {}

    def pack(self, placed: PartitionedRows, now_ms: int) -> dict[int, StagedObject]:
        """Return the objects of a window, by lane.

        Raises:
            InvalidInputError: a record is too large for its topic, or has what no record can.
        """
        objects: dict[int, StagedObject] = {}
        times_ms = np.asarray(placed.rows.column("timestamp").cast(pa.int64())) // 1000
        for group in placed.groups:
            staged = objects.setdefault(group.target.topic.lane(group.partition), StagedObject())
            is_stamped = group.target.configs.timestamp_type is TimestampType.LOG_APPEND_TIME
            for start, end in _runs(placed.rows, group):
                rows = placed.rows.slice(start, end - start)
                some = times_ms[start:end]
                span = int(some.min()), int(some.max())
                if is_stamped:
                    rows, span = _stamped(rows, now_ms), (now_ms, now_ms)
                topic_partition, body = (
                    (group.target.topic.id, group.partition),
                    self._encode(rows, group),
                )
                staged.add(topic_partition, memoryview(body), end - start, span)
        return objects

    def _encode(self, rows: pa.RecordBatch, group: PartitionRows) -> pa.Buffer:
        target, batch_bytes = group.target, group.target.batch_bytes
        most = target.configs.max_message_bytes
        while True:
            body = self._encoder(target.codec, batch_bytes).encode(rows, base_offset=0)
            records = _records_of_largest(body, most)
            if records is None:
                return body if body.size >= COPIED_BYTES else pa.py_buffer(body.to_pybytes())
            if records == 1:
                raise InvalidInputError(
                    "RecordTooLargeException: a message is larger when serialized than "
                    f"{most}, which is the value of the max.message.bytes configuration of topic "
                    f"{target.topic.name}: raise it, or write smaller messages"
                )
            batch_bytes = max(min(batch_bytes, most) // 2, 1)

    def _encoder(self, codec: Codec, batch_bytes: int) -> "BatchEncoder":
        # Compiled: loaded where something is packed, and not by every process that commits.
        from lakelog.records.encoder import BatchEncoder

        key = codec, batch_bytes
        if key not in self._encoders:
            self._encoders[key] = BatchEncoder(
                codec=codec, records_max=RECORDS_MAX, batch_bytes=batch_bytes
            )
        return self._encoders[key]


def _runs(rows: pa.RecordBatch, group: PartitionRows) -> Iterator[tuple[int, int]]:
    """Yield the rows of a group, cut so that each run is about as long as it may be."""
    count = group.end - group.start
    size = rows.slice(group.start, count).nbytes
    step = max(count * RUN_BYTES // max(size, 1), 1)
    for start in range(group.start, group.end, step):
        yield start, min(start + step, group.end)


def _stamped(rows: pa.RecordBatch, now_ms: int) -> pa.RecordBatch:
    """Return rows with the time of the log in place of their own."""
    at = rows.schema.get_field_index("timestamp")
    kind = rows.schema.field(at).type
    now = pa.repeat(pa.scalar(now_ms * 1000, pa.int64()).cast(kind), rows.num_rows)
    kinds = pa.repeat(pa.scalar(int(TimestampType.LOG_APPEND_TIME), pa.int32()), rows.num_rows)
    return rows.set_column(at, "timestamp", now).append_column("timestampType", kinds)


def _records_of_largest(body: pa.Buffer, most: int) -> int | None:
    """Return how few records make a batch larger than ``most``; None if none is."""
    headers = (frame.header for frame in frames(memoryview(body), after=None, crc=False))
    return min((header.count for header in headers if header.size > most), default=None)
