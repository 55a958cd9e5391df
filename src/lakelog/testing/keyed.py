"""The truth of compacted topics: which records stand where, and which of them may be gone.

A cleaner leaves out records and writes batches anew, so what is kept cannot be compared batch by
batch. Four laws are left, and they are what a compacted topic promises:

    nothing new      whatever is found at an offset is what was written there
    newest stays     a record may be gone only if a newer one of its key is in the log, or if it
                     says that the key is deleted
    no way back      where the newest record of a key says that it is deleted, and is gone itself,
                     nothing older of the key is left
    as a whole       both hold for every manifest, from its start to the end of what is sealed
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lakelog.journal import TopicIdPartition
from lakelog.model import Header, Record
from lakelog.records import NewBatch, decode_batches, encode_batch

__all__ = ["KEYS", "Kept", "Keyed", "make_keyed_batch"]

KEYS = 5
"""So few that most records are outdated soon."""

DELETED = 0.2
"""How many records say that their key is deleted."""


class Kept(NamedTuple):
    """A record."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[Header, ...]


Records = dict[int, Kept]
"""By offset."""


def make_keyed_batch(
    number: int, drawn: Iterable[tuple[int, float]], producer: tuple[int, int, int], now_ms: int
) -> bytes:
    """Return a batch whose headers nobody else has; ``drawn`` are a key and a chance for each."""
    records = [
        Record(
            offset=at,
            timestamp=now_ms,
            key=b"key-%d" % key,
            value=None if chance < DELETED else b"%d-%d" % (number, at),
            headers=(Header("batch", b"%d" % number),),
        )
        for at, (key, chance) in enumerate(drawn)
    ]
    id_, epoch, sequence = producer
    return encode_batch(
        NewBatch(records=records, producer_id=id_, producer_epoch=epoch, base_sequence=sequence)
    )


@dataclass(slots=True)
class Keyed:
    """What is so in every compacted partition."""

    sent: dict[int, tuple[Kept, ...]] = field(default_factory=dict)
    """The records of each batch that was ever sent, by its CRC."""
    logs: dict[TopicIdPartition, Records] = field(default_factory=dict)
    segments: dict[str, Records] = field(default_factory=dict)
    """What is in each segment that was ever named."""

    def send(self, crc: int, body: bytes) -> None:
        """Take note of a batch that is on its way."""
        self.sent[crc] = tuple(_read(body).values())

    def store(self, topic_partition: TopicIdPartition, offset: int, crc: int) -> None:
        """Take note of where a batch was stored."""
        log = self.logs.setdefault(topic_partition, {})
        log.update(enumerate(self.sent[crc], offset))

    # ------------------------------------------------------------------------ judging

    def judge_segment(self, topic_partition: TopicIdPartition, name: str, run: bytes) -> str:
        """Return what is wrong with a segment that is named for the first time."""
        held = self.segments[name] = _read(run)
        return self._invented(topic_partition, held)

    def judge_manifest(
        self, topic_partition: TopicIdPartition, names: Iterable[str], start: int, end: int
    ) -> str:
        """Return what is wrong with the segments of a partition, from its start to their end."""
        held: Records = {}
        for name in names:
            held |= self.segments[name]
        log = self.logs.get(topic_partition, {})
        left = _newest(held, start, end)
        for key, at in _newest(log, start, end).items():
            found = left.get(key)
            if log[at].value is not None and found != at:
                return f"lost write: {log[at]} at {at}, the newest of its key; left is {found}"
            if log[at].value is None and found not in (at, None):
                return f"no way back: {key!r} was deleted at {at}, and {found} is left"
        return ""

    def judge_chunk(
        self, topic_partition: TopicIdPartition, body: bytes, offset: int, next_: int
    ) -> str:
        """Return what is wrong with what stands between two offsets."""
        held = _read(body)
        log = self.logs.get(topic_partition, {})
        newest = _newest(log, 0, max(log, default=0) + 1)
        for at in range(offset, next_):
            true = log.get(at)
            if true is None or at in held:
                continue
            if newest[true.key] == at and true.value is not None:
                return f"lost write: {true} at {at}, and it is the newest of its key"
        return self._invented(topic_partition, held)

    def judge_found(self, topic_partition: TopicIdPartition, body: bytes) -> str:
        """Return which record was never written where it is found."""
        return self._invented(topic_partition, _read(body))

    def _invented(self, topic_partition: TopicIdPartition, held: Mapping[int, Kept]) -> str:
        log = self.logs.get(topic_partition, {})
        for at, one in held.items():
            if log.get(at) != one:
                return f"nothing new: {one} at {at}, where {log.get(at)} was written"
        return ""


def _read(run: bytes) -> Records:
    return {
        one.offset: Kept(one.key, one.value, one.timestamp, one.headers)
        for batch in decode_batches(run)
        for one in batch.records
    }


def _newest(records: Mapping[int, Kept], start: int, end: int) -> dict[bytes | None, int]:
    """Return where each key was written last."""
    return {records[at].key: at for at in sorted(records) if start <= at < end}
