"""Directories of brokers, made by hand: which batches, of which epoch, in which segments."""

from collections.abc import Sequence
from itertools import pairwise

from lakelog.formats import kafkalog
from lakelog.model import Record
from lakelog.records import NewBatch, encode_batch
from lakelog.segments import Selection, find_logs
from lakelog.segments.mend import read_split
from lakelog.segments.scan import ScanRequest, plan_scan
from lakelog.segments.segments import SegmentRef
from lakelog.store import MemoryStore, PutIfAbsent
from tests.kafka_files import encode_leader_epochs
from tests.plain_encoders import encode_kafka_log

__all__ = ["batch", "log_of", "offsets_and_values", "put_copy"]

Batch = tuple[int, int, bytes]
"""Base offset, leader epoch, and the value of each of its two records."""


def batch(base: int, epoch: int, value: bytes = b"") -> bytes:
    """Two records, and times that rise with the offset."""
    records = [
        Record(offset=at, timestamp=1000 + at, key=None, value=b"%s/%d" % (value, epoch))
        for at in (base, base + 1)
    ]
    return encode_batch(NewBatch(records=records, leader_epoch=epoch))


def put_copy(
    store: MemoryStore,
    directory: str,
    batches: Sequence[tuple[int, int]],
    *,
    rolls: Sequence[int] = (0,),
    epochs: Sequence[tuple[int, int]] | None = None,
    tail: bytes = b"",
    index: bytes | None = None,
) -> None:
    """Put a directory that holds batches (base offset, epoch), in segments that begin at rolls."""
    for start, end in pairwise([*rolls, 1 << 40]):
        run = b"".join(batch(base, epoch) for base, epoch in batches if start <= base < end)
        files = encode_kafka_log(run, base_offset=start, interval_bytes=100)
        if end == 1 << 40:
            files[".log"] += tail
            if index is not None:
                files[".index"] = index
        for suffix, data in files.items():
            store.perform(PutIfAbsent(f"{directory}/{start:020}{suffix}", data))
    if epochs is not None:
        made = encode_leader_epochs([kafkalog.EpochStart(*one) for one in epochs])
        store.perform(PutIfAbsent(f"{directory}/leader-epoch-checkpoint", made))


def log_of(store: MemoryStore, topic: str = "t") -> list[SegmentRef]:
    logs = find_logs(store.perform, "kafka", Selection(topics=frozenset({topic})))
    return logs.get((topic, 0), [])


def offsets_and_values(store: MemoryStore, **request: object) -> list[tuple[int, bytes]]:
    """Everything a read gives, in the order it comes."""
    splits = plan_scan(store, ScanRequest(layout="kafka", **request))  # type: ignore[arg-type]
    return [
        (row["offset"], row["value"])
        for split in splits
        for found in read_split(split, store.perform, ("offset", "value"))
        for row in found.to_pylist()
    ]
