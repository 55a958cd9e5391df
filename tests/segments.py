"""Driving segments from memory, while watching what they ask for.

Every test of a whole segment, and every fuzz target, reads through a ``Store``. So what is true of
each range that is asked for (it lies inside the file, it is not empty, it is bounded, and there
are not endless ones) is checked wherever a segment is read at all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakelog.formats import (
    EVERYTHING,
    Block,
    Bytes,
    Damage,
    Files,
    Format,
    Range,
    Segment,
    Span,
    run,
    walk_blocks,
)
from lakelog.model import Record
from lakelog.records import BATCH_BYTES_MAX

__all__ = ["Opened", "Store", "Walked", "buffers", "decode", "open_files", "walk_files"]

RANGE_BYTES_MAX = BATCH_BYTES_MAX + (2 << 20)
"""The largest piece that any limit of any format allows, and a chunk on either side of it."""

ASKS_MAX = 20_000
"""More than any file that a test makes can need: a reader that asks more often goes in circles."""


class Store:
    """Files in memory. ``sizes`` may lie about them, as a listing that is out of date does."""

    def __init__(self, files: Mapping[str, bytes], sizes: Mapping[str, int] | None = None) -> None:
        self.files = files
        self.sizes = {name: len(data) for name, data in files.items()} if sizes is None else sizes
        self.asked: list[Range] = []

    @property
    def is_honest(self) -> bool:
        """Whether the files are as large as they are said to be."""
        return all(self.sizes[name] == len(data) for name, data in self.files.items())

    def give(self, wish: Range) -> bytes:
        assert 0 <= wish.start < wish.end <= self.sizes[wish.suffix], wish
        assert wish.end - wish.start <= RANGE_BYTES_MAX, wish
        self.asked.append(wish)
        assert len(self.asked) < ASKS_MAX, "a reader goes in circles"
        return bytes(self.files[wish.suffix][wish.start : wish.end])


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked:
    """What a walk found, in order."""

    blocks: tuple[Block, ...]
    damages: tuple[Damage, ...]

    @property
    def records(self) -> tuple[Record, ...]:
        return tuple(record for block in self.blocks for record in block.records)

    @property
    def where(self) -> set[str]:
        """The suffixes of the files that were found to be damaged."""
        return {damage.error.where for damage in self.damages}


def walk_files(
    fmt: Format, store: Store, *, base_offset: int, active: bool = False, span: Span = EVERYTHING
) -> Walked:
    """Walk a segment to its end. A walk reports damage; nothing makes it raise."""
    files = Files(base_offset=base_offset, sizes=store.sizes, active=active)
    blocks: list[Block] = []
    damages: list[Damage] = []
    for found in walk_blocks(fmt.walk(files, span=span), store.give):
        if isinstance(found, Block):
            blocks.append(found)
        else:
            damages.append(found)
    return Walked(blocks=tuple(blocks), damages=tuple(damages))


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An opened segment with the store it reads from."""

    segment: Segment
    store: Store

    def read_from(self, offset: int, limit: int) -> tuple[Record, ...]:
        return run(self.segment.read_from(offset, limit), self.store.give)

    def offset_at(self, timestamp: int) -> int | None:
        return run(self.segment.offset_at(timestamp), self.store.give)


def open_files(fmt: Format, store: Store, *, base_offset: int, active: bool = False) -> Opened:
    """Open a segment."""
    files = Files(base_offset=base_offset, sizes=store.sizes, active=active)
    return Opened(segment=run(fmt.open(files), store.give), store=store)


def decode(fmt: Format, files: Mapping[str, Bytes], *, base_offset: int) -> tuple[Record, ...]:
    """Return every record of a closed segment.

    Raises:
        CorruptError: no correct writer made these bytes.
        UnsupportedError: a later version, an unknown codec, or a limit.
    """
    sizes = {suffix: len(data) for suffix, data in files.items()}
    records: list[Record] = []
    walk = fmt.walk(Files(base_offset=base_offset, sizes=sizes))
    for found in walk_blocks(walk, buffers(files)):
        if isinstance(found, Damage):
            raise found.error
        records += found.records
    return tuple(records)


def buffers(files: Mapping[str, Bytes]) -> Callable[[Range], bytes]:
    """Bytes from memory, to drive a flow with."""

    def give(range_: Range) -> bytes:
        return bytes(memoryview(files[range_.suffix])[range_.start : range_.end])

    return give
