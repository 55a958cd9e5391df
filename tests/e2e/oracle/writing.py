"""The segments of a stopped Kafka replaced by lakelog's: other records, and all files beside them.

Offsets stay within the range of the segment that is replaced, so that the broker's checkpoints
remain true. Everything else is new: records of all codecs, gaps as compaction leaves them, batches
of producers that never existed, indexes and producer snapshots.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

import pyarrow as pa

from lakelog.formats.kafkalog import (
    LEADER_EPOCHS_NAME,
    METADATA_NAME,
    ProducerState,
    decode_leader_epochs,
    decode_metadata,
)
from lakelog.model import Header, Record
from lakelog.records import Codec, NewBatch, encode_batch
from lakelog.records.columns import arrow_schema
from lakelog.records.encoder import BatchEncoder
from tests.e2e.oracle.reading import Partition, Row
from tests.e2e.oracle.workload import records as messages
from tests.kafka_files import encode_leader_epochs, encode_metadata, encode_snapshot, fold_producers
from tests.plain_encoders import encode_kafka_log

__all__ = ["Replaced", "replace_segments"]

_MADE_UP_PRODUCERS = range(90_001, 90_004)
_COLUMNS = ("offset", "timestamp", "key", "value", "headers")


@dataclass(frozen=True, slots=True)
class Replaced:
    """A directory after the exchange."""

    folder: Path
    rows: list[Row]
    """All that a consumer must see: what lakelog wrote, and behind it what Kafka did."""

    bases: tuple[int, ...]
    """Base offsets of the segments that lakelog wrote."""


def replace_segments(folder: Path, rng: Random, *, first_time: int, also_last: bool) -> Replaced:
    """Write every closed segment of ``folder`` anew, and with ``also_last`` the last one, too."""
    partition = Partition(folder, active=False)
    plan = partition.plan()
    snapshots = set(plan.snapshots)
    starts = [files.base_offset for files in plan.segments]
    end = partition.frames(plan.segments[-1])[-1].header.next_offset
    ranges = list(pairwise([*starts, end]))
    if not also_last:
        ranges.pop()
    rows: list[Row] = []
    sequences = dict.fromkeys(_MADE_UP_PRODUCERS, 0)
    for number, (base, next_base) in enumerate(ranges):
        # The last offset stays: else the log would end before the broker's own checkpoint.
        records = tuple(_records(rng, base, next_base, first_time, stays=end - 1))
        rows += (
            (partition.number, r.offset, r.timestamp, 0, r.key, r.value, r.headers) for r in records
        )
        if number == 1:
            run = _compiled_run(records)
        else:
            run = _plain_run(rng, records, next_base, sequences)
        for suffix, data in encode_kafka_log(run, base_offset=base).items():
            (folder / f"{base:020}{suffix}").write_bytes(data)
    _write_snapshots(partition, snapshots)
    _rewrite(folder)
    rows += (row for row in partition.rows() if row[1] >= ranges[-1][1])
    return Replaced(folder, rows, tuple(base for base, _ in ranges))


def _records(
    rng: Random, base: int, next_base: int, first_time: int, *, stays: int
) -> Iterator[Record]:
    """Yield records for ``[base, next_base)``; one in ten is left out, and never that one."""
    drawn = messages(rng, next_base - base, first_time=first_time, jitter_ms=5_000)
    for offset, message in enumerate(drawn, start=base):
        if rng.random() < 0.9 or offset == stays:
            headers = tuple(Header(key, value) for key, value in message.headers)
            yield Record(
                offset=offset,
                timestamp=message.timestamp,
                key=message.key,
                value=message.value,
                headers=headers,
            )


def _plain_run(
    rng: Random, records: tuple[Record, ...], next_base: int, sequences: dict[int, int]
) -> bytes:
    """Return batches of every codec and of any size, some from producers that count."""
    run = bytearray()
    at = 0
    while at < len(records):
        taken = records[at : at + rng.randint(1, 60)]
        at += len(taken)
        after = records[at].offset if at < len(records) else next_base
        # A batch may end before the next one begins, and it may end behind its last record.
        next_offset = rng.randint(taken[-1].offset + 1, after)
        producer_id, epoch, sequence = -1, -1, -1
        if rng.random() < 0.3:
            producer_id, epoch = rng.choice(_MADE_UP_PRODUCERS), 1
            sequence = sequences[producer_id]
            sequences[producer_id] += next_offset - taken[0].offset
        batch = NewBatch(
            records=taken,
            next_offset=next_offset,
            codec=rng.choice(list(Codec)),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        run += encode_batch(batch)
    return bytes(run)


def _compiled_run(records: tuple[Record, ...]) -> bytes:
    """Return the same by way of Arrow and the compiled encoder."""
    columns = [
        [record.offset for record in records],
        [record.timestamp * 1000 for record in records],
        [record.key for record in records],
        [record.value for record in records],
        [[{"key": k, "value": v} for k, v in record.headers] for record in records],
    ]
    schema = arrow_schema(_COLUMNS)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    encoder = BatchEncoder(codec=Codec.ZSTD, records_max=50)
    return bytes(encoder.encode(batch))


def _write_snapshots(partition: Partition, due: set[int]) -> None:
    """Write a snapshot wherever the broker had one, from what now stands in the log before it."""
    states: dict[int, ProducerState] = {}
    end = 0
    for files in partition.plan().segments:
        if files.base_offset in due:
            _write_snapshot(partition.folder, files.base_offset, encode_snapshot(states.values()))
            due.discard(files.base_offset)
        states, _ = fold_producers(partition.batches(files), states.values())
        end = partition.frames(files)[-1].header.next_offset
    assert due <= {end}, "an orderly stop leaves one snapshot more, at the end"
    _write_snapshot(partition.folder, end, encode_snapshot(states.values()))


def _write_snapshot(folder: Path, offset: int, data: bytes) -> None:
    (folder / f"{offset:020}.snapshot").write_bytes(data)


def _rewrite(folder: Path) -> None:
    """Read the two text files and write them again; they come out as they were."""
    epochs = (folder / LEADER_EPOCHS_NAME).read_bytes()
    metadata = (folder / METADATA_NAME).read_bytes()
    again = {
        LEADER_EPOCHS_NAME: encode_leader_epochs(decode_leader_epochs(epochs)),
        METADATA_NAME: encode_metadata(decode_metadata(metadata)),
    }
    assert again == {LEADER_EPOCHS_NAME: epochs, METADATA_NAME: metadata}
    for name, data in again.items():
        (folder / name).write_bytes(data)
