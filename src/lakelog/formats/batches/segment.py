"""An opened segment of record batches: what KAFS segments and Kafka logs offer alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lakelog.errors import InvalidInputError
from lakelog.formats.batches.index import OffsetIndex
from lakelog.formats.batches.run import Run, find_time, read_records
from lakelog.formats.contract import Ranged
from lakelog.model import Record
from lakelog.records import Frame

__all__ = ["BatchSegment", "TimeLookup", "base_offset_of"]


class TimeLookup(Protocol):
    """A time index."""

    def offset(self, timestamp: int) -> int:
        """Return an offset at or before which no record has ``timestamp`` or a later time."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSegment:
    """An opened segment."""

    base_offset: int
    run: Run
    index: OffsetIndex | None
    times: TimeLookup | None = None
    created_ms: int | None = None
    """When it was made, where a segment says so."""

    def start(self, offset: int) -> int:
        """Return where the index says to begin looking for ``offset``; no bytes are read."""
        return self.run.start if self.index is None else self.index.position(offset)

    def start_at(self, position: int) -> int:
        """Return where some batch begins that is not behind ``position``: the nearest known."""
        return self.run.start if self.index is None else self.index.position_at(position)

    def read_from(self, offset: int, limit: int) -> Ranged[tuple[Record, ...]]:
        """Return at most ``limit`` records from the first one at or after ``offset``."""
        return read_records(self.run, self.start(offset), offset, limit)

    def offset_at(self, timestamp: int) -> Ranged[int | None]:
        """Return the first offset whose record is not older, or None.

        Without a time index it is looked for from the first batch on.
        """
        at = self.run.start if self.times is None else self.start(self.times.offset(timestamp))
        return find_time(self.run, at, timestamp)


def base_offset_of(placed: Sequence[Frame], base_offset: int | None) -> int:
    """Return the base offset of a segment: the first batch's, unless it is given.

    Raises:
        InvalidInputError: the batches begin below it.
    """
    first = placed[0].header.base_offset if placed else base_offset or 0
    if base_offset is not None and base_offset > first:
        raise InvalidInputError(
            f"the batches begin at {first}, below base offset {base_offset}; "
            "name the segment after its first batch"
        )
    return first if base_offset is None else base_offset
