"""What a reader is told on a disk whose fsync has lied, after its power was cut.

Nobody can promise that anything is left. Whoever reads gets records that were written at just these
offsets, or an error that says what is damaged.
"""

from lakelog.catalog import Topic
from lakelog.errors import LakelogError
from lakelog.formats import batches
from lakelog.log import OutOfRange, read
from lakelog.store import Work
from lakelog.testing.process import Process
from lakelog.testing.town import Town
from lakelog.testing.truth import Anomaly

__all__ = ["inspect_damaged"]


def inspect_damaged(town: Town, process: Process) -> Work[None]:
    """Read what is left of every partition, batch after batch."""
    for topic in town.topics.values():
        for partition in range(topic.partitions):
            yield from _inspect(town, process, topic, partition)


def _inspect(town: Town, process: Process, topic: Topic, partition: int) -> Work[None]:
    where, offset = topic.path_of(partition), 0
    end = town.truth.end(where.topic_partition)
    while offset < end:
        try:
            found = yield from read(town.lane(process), where, offset, 1)
        except LakelogError as error:
            if error.retryable:
                raise Anomaly(f"damage that asks to be tried again: {error}") from error
            town.count("damage told")
            offset += 1
            continue
        if isinstance(found, OutOfRange):
            town.count("damage out of range")
            offset = max(offset + 1, found.bounds.log_start)
            continue
        if found.body:
            town.count("damage spared")
            flaw = _flaw(town, where.topic_partition, found.body)
            if flaw:
                raise Anomaly(f"damage: {where.topic_partition} at {offset}: {flaw}")
        offset = max(offset + 1, found.next_offset)


def _flaw(town: Town, topic_partition: tuple[bytes, int], body: bytes) -> str:
    """Say which batch was never written at its offset."""
    if topic_partition in town.truth.keyed.logs:
        return town.truth.keyed.judge_found(topic_partition, body)
    for _, header in batches.frames(body):
        told = header.base_offset, header.next_offset, header.crc
        if not any(told == entry[:3] for entry in town.truth.logs.get(topic_partition, ())):
            return f"batch {told} was never written there"
    return ""
