"""Committed offsets: how far a group has come, by topic id and partition.

The key is the id of a topic and not its name, so a topic that is made again has none. A table is a
value: committing gives a new one, and the old one stays as it was when it was stored.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["Committed", "NewOffset", "Offsets", "TopicIdPartition", "by_topic"]

ROW_BYTES = 120
"""What a stored row takes besides its metadata; a bound."""


class TopicIdPartition(NamedTuple):
    """A partition of a topic."""

    topic_id: bytes
    partition: int


class Committed(NamedTuple):
    """What was committed for a partition, and when."""

    offset: int
    leader_epoch: int
    """-1: the client did not say."""
    metadata: str
    commit_ms: int
    """By the wall clock."""


class NewOffset(NamedTuple):
    """What a client wants to commit."""

    partition: TopicIdPartition
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    """Return partitions as Kafka lists them: topics by id, and the numbers of each, in order."""
    found: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        found.setdefault(topic_id, []).append(partition)
    return found


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets of one group."""

    rows: Mapping[TopicIdPartition, Committed] = field(default_factory=dict)
    size_bytes: int = 0
    """A bound of what they take when they are stored."""

    @classmethod
    def of(cls, rows: Mapping[TopicIdPartition, Committed]) -> "Offsets":
        """Return a table of these rows."""
        said = sum(_said_bytes(row.metadata) for row in rows.values() if row.metadata)
        return cls(rows, ROW_BYTES * len(rows) + said)

    def get(self, partition: TopicIdPartition) -> Committed | None:
        return self.rows.get(partition)

    def committed(self, new: Iterable[NewOffset], commit_ms: int) -> "Offsets":
        """Return the offsets after a commit; the last of two for one partition counts."""
        rows, said = dict(self.rows), 0
        for partition, offset, epoch, metadata in new:
            old = rows.get(partition)
            if metadata or (old is not None and old.metadata):
                said += _said_bytes(metadata) - _said_bytes("" if old is None else old.metadata)
            rows[partition] = Committed(offset, epoch, metadata, commit_ms)
        more = ROW_BYTES * (len(rows) - len(self.rows)) + said
        return Offsets(rows, self.size_bytes + more)

    def without(self, is_gone: Callable[[TopicIdPartition, Committed], bool]) -> "Offsets":
        """Return the offsets that stay; the same object if all do."""
        rows = {
            partition: row for partition, row in self.rows.items() if not is_gone(partition, row)
        }
        if len(rows) == len(self.rows):
            return self
        return Offsets.of(rows)


def _said_bytes(metadata: str) -> int:
    return len(json.dumps(metadata)) if metadata else 0
