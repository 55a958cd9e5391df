"""What a judge has before it: a history, the log in the end, and what follows from both."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tests.cluster.history import History, producer_of

__all__ = ["Case", "Log", "Place"]

Log = Mapping[int, Sequence[tuple[int, str]]]
"""By partition, in the order of the log: offset and what the record says."""

Place = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True)
class Case:
    """What is judged, and what follows from it."""

    history: History
    log: Log
    groups: tuple[str, ...]
    healed: float
    order_of: Callable[[str], tuple[str, int]]
    repeating: frozenset[str] = field(default=frozenset())

    @cached_property
    def stored(self) -> dict[Place, str]:
        """What is in the store at the end."""
        return {(key, offset): value for key, rows in self.log.items() for offset, value in rows}

    @cached_property
    def places(self) -> dict[str, set[Place]]:
        """Where each record was seen, by readers or in the store."""
        found: dict[str, set[Place]] = defaultdict(set)
        for one in self.history.reads:
            found[one.value].add((one.partition, one.offset))
        for place, value in self.stored.items():
            found[value].add(place)
        return found

    @cached_property
    def told(self) -> dict[str, Place]:
        """Where records are of which a producer was told the offset."""
        return {
            value: (acked.partition, acked.offset)
            for value, acked in self.history.acked.items()
            if acked.offset is not None
        }

    @cached_property
    def offsets(self) -> dict[int, list[int]]:
        """Offsets of each partition at which something is known to be, in order."""
        found: dict[int, set[int]] = defaultdict(set)
        for places in self.places.values():
            for partition, offset in places:
                found[partition].add(offset)
        for partition, offset in self.told.values():
            found[partition].add(offset)
        return {partition: sorted(some) for partition, some in found.items()}

    @cached_property
    def _starts(self) -> dict[int, tuple[list[float], list[int]]]:
        """When somebody asked for a start, and the highest that was told to who asked by then."""
        found: dict[int, tuple[list[float], list[int]]] = {}
        for one in sorted(self.history.starts):
            times, offsets = found.setdefault(one.partition, ([], []))
            times.append(one.begun)
            offsets.append(max([one.offset, *offsets[-1:]]))
        return found

    def start_by(self, partition: int, at: float) -> int:
        """Return where a partition began at a time at the latest, by what was asked for next."""
        times, offsets = self._starts.get(partition, ([], []))
        index = min(bisect_left(times, at), len(times) - 1)
        return offsets[index] if offsets else 0

    def start(self, partition: int) -> int:
        """Return where a partition began in the end."""
        return self.start_by(partition, float("inf"))

    def is_exact(self, value: str) -> bool:
        """Whether a record is of an idempotent producer."""
        return producer_of(value) not in self.repeating
