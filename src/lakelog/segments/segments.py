"""Segments in a store, and parts of them: what a plan hands to the tasks that read.

A ``SegmentRef`` is known from names and sizes alone: nothing has been read. Plans hold millions of
them, so they are small, and they cross process borders, so they are plain values.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.flows import through
from lakelog.formats import FORMATS, Files, Format, Range, Ranged
from lakelog.store import Flow, get_range

__all__ = ["ReadTask", "SegmentRange", "SegmentRef", "through_store"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRef:
    """One segment of one partition, and the objects it is made of."""

    topic: str
    partition: int
    base_offset: int
    next_offset_max: int
    """What lies here or above belongs to another segment, or to no log at all."""

    format: str
    stem: str
    """The key of each of its objects, without its suffix."""

    sizes: Mapping[str, int]
    active: bool = False
    """Whether a writer may still be appending."""

    offset_min: int = 0
    """What lies below was deleted, and only its bytes are left."""

    has_row: bool = False
    """Whether a manifest has a row of it: then it reaches to ``next_offset_max``, where the next
    begins, whatever compaction took out of it."""

    @property
    def fmt(self) -> Format:
        return FORMATS[self.format]

    @property
    def size(self) -> int:
        """Bytes of the data object."""
        return self.sizes[self.fmt.suffix]

    @property
    def files(self) -> Files:
        return Files(base_offset=self.base_offset, sizes=self.sizes, active=self.active)

    @property
    def directory(self) -> str:
        return self.stem.rpartition("/")[0]

    def key(self, suffix: str) -> str:
        return self.stem + suffix

    def read(self, wanted: Range) -> Flow[bytes]:
        """Return bytes of one of its objects."""
        return (yield from get_range(self.key(wanted.suffix), wanted.start, wanted.end))

    def named(self, error: CorruptError | UnsupportedError) -> CorruptError | UnsupportedError:
        """Return the error of a format's reader with the key of the object it is about."""
        key = self.key(error.where or self.fmt.suffix)
        return type(error)(error.what, at=error.at, where=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRange:
    """Bytes and offsets of one segment: batches that begin in the one, records in the other."""

    segment: SegmentRef
    byte_from: int
    byte_to: int
    offset_from: int
    offset_to: int

    @property
    def size(self) -> int:
        return self.byte_to - self.byte_from

    @property
    def offsets(self) -> int:
        return self.offset_to - self.offset_from


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """What one task reads."""

    parts: tuple[SegmentRange, ...]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)


def through_store(segment: SegmentRef, flow: Ranged[T]) -> Flow[T]:
    """Turn the requests of a format's flow into reads of a segment's objects.

    Raises:
        CorruptError, UnsupportedError: as the flow does; ``where`` is the key of the object.
    """
    try:
        return (yield from through(flow, segment.read))
    except (CorruptError, UnsupportedError) as error:
        raise segment.named(error) from error
