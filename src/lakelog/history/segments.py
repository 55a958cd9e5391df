"""Segments in a store, and parts of them: what a plan hands to the tasks that read.

A ``SegmentRef`` is known from names and sizes alone: nothing has been read. Plans hold millions of
them, so they are small, and they cross process borders, so they are plain values.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lakelog.formats import FORMATS, Files, Format

__all__ = ["Part", "SegmentRef", "Split"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRef:
    """One segment of one partition, and the objects it is made of."""

    topic: str
    partition: int
    base_offset: int
    next_offset_max: int
    """No record of it lies here or above: the next segment begins here, if there is one."""

    format: str
    stem: str
    """The key of each of its objects, without its suffix."""

    sizes: Mapping[str, int]
    active: bool = False
    """Whether a writer may still be appending."""

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

    def key(self, suffix: str) -> str:
        return self.stem + suffix


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Bytes and offsets of one segment: batches that begin in the one, records in the other."""

    segment: SegmentRef
    byte_from: int
    byte_to: int
    offset_from: int
    offset_to: int

    @property
    def size(self) -> int:
        return self.byte_to - self.byte_from


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What one task reads."""

    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)
