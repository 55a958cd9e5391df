"""What of a log is wanted: which topics and partitions, from where, up to where.

The words and their meanings are those of Spark's Kafka source, so that a query can be moved over by
changing its format. Where a read of a partition begins or ends is

    "earliest" or "latest"
    an offset for each partition; -2 stands for earliest, -1 for latest
    a time in milliseconds, for all partitions or for each: the first record that is not older;
    -2 and -1 mean the same as for offsets

Where a time is later than every record, a beginning is an error or the end, as the strategy says;
an end is the end.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakelog.errors import InvalidInputError

__all__ = [
    "EARLIEST",
    "LATEST",
    "Mode",
    "OffsetSpec",
    "Selection",
    "mode_named",
    "no_record_at",
]

EARLIEST, LATEST = -2, -1

Partition = tuple[str, int]


class Mode(StrEnum):
    """What damage means to a read; the words are Spark's."""

    FAILFAST = "FAILFAST"
    """The end of it."""

    PERMISSIVE = "PERMISSIVE"
    """A row that tells of it. What can be read before and behind it is read."""


def mode_named(name: str) -> Mode:
    """Return the mode of a name, whatever its case.

    Raises:
        InvalidInputError: there is none of that name.
    """
    try:
        return Mode(name.upper())
    except ValueError as error:
        raise InvalidInputError(f"no mode {name!r}; there are {', '.join(Mode)}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which partitions: those of named topics, of topics like a pattern, or named one by one."""

    topics: frozenset[str] | None = None
    pattern: str | None = None
    partitions: frozenset[Partition] | None = None

    def __post_init__(self) -> None:
        given = [self.topics, self.pattern, self.partitions]
        if sum(one is not None for one in given) > 1:
            raise InvalidInputError("give one of subscribe, subscribePattern and assign")
        if self.pattern is not None:
            try:
                re.compile(self.pattern)
            except re.error as error:
                raise InvalidInputError(f"subscribePattern {self.pattern!r}: {error}") from error

    def wants_some(self, topic: str) -> bool:
        """Whether it wants any partition of a topic."""
        if self.partitions is not None:
            return any(topic == name for name, _ in self.partitions)
        return self.wants(topic, 0)

    def wants(self, topic: str, partition: int) -> bool:
        if self.topics is not None:
            return topic in self.topics
        if self.pattern is not None:
            return re.search(self.pattern, topic) is not None
        if self.partitions is not None:
            return (topic, partition) in self.partitions
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSpec:
    """Where to begin or to end, in every partition."""

    offset: int = EARLIEST
    """For partitions that are not named otherwise: EARLIEST, or LATEST."""

    offsets: Mapping[Partition, int] | None = None
    timestamp: int | None = None
    timestamps: Mapping[Partition, int] | None = None
    or_latest: bool = True
    """Whether a time that no record reaches means the end, and is not an error."""

    @property
    def is_by_time(self) -> bool:
        return self.timestamp is not None or self.timestamps is not None

    def time_in(self, partition: Partition) -> int | None:
        """Return the time asked for in a partition, if it is by time."""
        time = self._time_in(partition)
        return None if time is None or time < 0 else time

    def _time_in(self, partition: Partition) -> int | None:
        if self.timestamp is not None:
            return self.timestamp
        if self.timestamps is None:
            return None
        if partition not in self.timestamps:
            raise _missing(partition, "a timestamp")
        return self.timestamps[partition]

    def offset_in(self, partition: Partition, *, earliest: int, latest: int) -> int:
        """Return the offset that is meant in a partition, where it is not by time.

        ``earliest`` and ``latest`` are the offsets that these words mean there.

        Raises:
            InvalidInputError: offsets are given, but not for this partition; or it is none.
        """
        offset = self._time_in(partition)  # EARLIEST or LATEST, as Kafka says it among times.
        if offset is None and self.offsets is not None and partition not in self.offsets:
            raise _missing(partition, "an offset")
        if offset is None:
            offset = self.offset if self.offsets is None else self.offsets[partition]
        if offset == EARLIEST:
            return earliest
        if offset == LATEST:
            return latest
        if offset < 0:
            raise InvalidInputError(
                f"offset {offset} for {partition[0]}-{partition[1]}: use an offset from 0, "
                f"{LATEST} for latest, or {EARLIEST} for earliest"
            )
        return offset


def no_record_at(partition: Partition, timestamp: int) -> InvalidInputError:
    """Return the error for a beginning by time that no record of a partition reaches."""
    name = f"{partition[0]}-{partition[1]}"
    return InvalidInputError(
        f"No offset matched from request of topic-partition {name} and timestamp {timestamp}: no "
        f"record of {name} is as late; startingOffsetsByTimestampStrategy=latest begins at the end "
        "then"
    )


def _missing(partition: Partition, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"no {what.split()[-1]} for {partition[0]}-{partition[1]}: when some partitions are named, "
        "all that are read must be"
    )
