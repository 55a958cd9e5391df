"""convert: from one layout into another, every record with its offset.

    kafka <-> kafs            batches are copied as they are, unless a codec or block size is given
    any -> any other          records are decoded, and encoded again
    any <-> parquet           files by day

Segments keep their bounds, unless a segment size is given: then neighbours of a partition are put
together, and cut where they reach it. Names and bytes follow from the source and the options alone,
so a run that was killed is completed by running it again: what is there already is found to be the
same. What the target cannot hold is refused, unless that loss is allowed (see ``losses``).

A segment is held in memory while it is made, because a store takes an object whole or not at all.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from lakelog.errors import ConflictError, CorruptError, InvalidInputError, UnsupportedError
from lakelog.flows import Items, asked_for
from lakelog.pipeline.frame import (
    SOURCE,
    TARGET,
    Connect,
    Plan,
    Result,
    SourceJob,
    Step,
    StoreRequest,
    pack,
)
from lakelog.pipeline.listing import missing_results, unsealed_results
from lakelog.pipeline.losses import LossGuard
from lakelog.pipeline.parquet import ParquetGroup
from lakelog.pipeline.sides import (
    PARQUET,
    carries_of,
    expected_reads,
    list_pieces,
    read_piece,
    subject_of,
)
from lakelog.pipeline.targets import BatchTarget, DayTarget, RecordTarget
from lakelog.ports import Host
from lakelog.records import HEADER_BYTES, Codec, decode_header
from lakelog.segments import LAYOUTS, SegmentRef
from lakelog.store import StoreSpec, Usage

__all__ = ["Conversion", "Convert"]

BATCHED = frozenset({"kafka", "kafs"})
"""Layouts whose segments are runs of record batches."""

UNSEALED_NEXT = "lakelog pipeline seal --now makes segments of them, to be converted then"

SEGMENT_BYTES_MAX = 1 << 30
"""What is decoded can grow: no segment is made larger than this."""

COLUMNS = ("key", "value", "offset", "timestamp", "timestampType", "headers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """Neighbours of one partition that are converted together."""

    pieces: tuple[SegmentRef | ParquetGroup, ...]

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class Convert(SourceJob):
    """Convert what one store holds into another."""

    layout: str
    target: StoreSpec
    target_layout: str
    host: Host
    codec: Codec | None = None
    """None: batches that are copied keep theirs; what is encoded has the default of its format."""
    level: int | None = None
    block_bytes: int | None = None
    """Of a batch, or of an STRM block, before compression."""
    segment_bytes: int | None = None
    """About how large segments become. None: they keep their bounds."""
    lose: frozenset[str] = frozenset()

    verb = "convert"

    def __post_init__(self) -> None:
        known = (*LAYOUTS, PARQUET)
        for layout in (self.layout, self.target_layout):
            if layout not in known:
                raise InvalidInputError(f"no layout {layout!r}; there are {', '.join(known)}")
        if self.target.url.rstrip("/") == self.source.url.rstrip("/"):
            raise InvalidInputError(f"{self.target.url} is the source: choose another target")
        carried = carries_of(self.target_layout).codecs
        if self.codec is not None and self.codec not in carried:
            names = ", ".join(sorted(codec.name.lower() for codec in carried))
            raise InvalidInputError(
                f"{self.target_layout} does not know {self.codec.name.lower()}: choose from {names}"
            )
        for name in ("block_bytes", "segment_bytes"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise InvalidInputError(f"{name} is {value}: use 1 or more")

    @property
    def stores(self) -> Mapping[str, StoreSpec]:
        return {SOURCE: self.source, TARGET: self.target}

    @property
    def copies(self) -> bool:
        """Whether batches are copied as they are."""
        kept = self.codec is None and self.block_bytes is None
        return kept and {self.layout, self.target_layout} <= BATCHED

    def plan(self, connect: Connect) -> Plan:
        """List the source, and decide what is converted together."""
        perform, url, layout = connect(SOURCE), self.source.url, self.layout
        found = list_pieces(perform, layout, self.selection, self.host)
        topics = {piece.topic for piece in found}
        missing = missing_results(url, layout, self.selection, topics, perform=perform)
        unsealed = unsealed_results(url, layout, self.selection, perform, self.host, UNSEALED_NEXT)
        units = [Conversion(pieces=pieces) for pieces in _runs(found, self.segment_bytes)]
        objects, reads = expected_reads(found)
        made = len(units) if self.target_layout == PARQUET else len(units) * self._objects_each
        return Plan(
            units=units,
            objects_read=objects,
            objects_written=made,
            expected=reads + Usage(requests={"put": made} if made else {}),
            results=missing + unsealed,
        )

    @property
    def _objects_each(self) -> int:
        """Objects of one segment."""
        return {"kafka": 3, "kafs": 2, "strm": 1, "rustlog": 2}[self.target_layout]

    def step(self, unit: Conversion) -> Step[Result]:
        """Convert some neighbours."""
        first = unit.pieces[0]
        subject, target = subject_of(first), self._target(first)
        guard = LossGuard(
            target=self.target_layout,
            carries=carries_of(self.target_layout),
            allowed=self.lose,
        )
        try:
            for piece in unit.pieces:
                if isinstance(target, BatchTarget):
                    assert isinstance(piece, SegmentRef)
                    yield from target.copy(piece)
                else:
                    yield from self._convert(piece, target, guard)
            yield from target.close()
        except (CorruptError, UnsupportedError, InvalidInputError, ConflictError) as error:
            return subject.failed(error)
        outcome = "written" if target.created else "present" if target.present else "empty"
        return subject.result(outcome, records=target.records, batches=target.batches)

    def _target(self, first: SegmentRef | ParquetGroup) -> BatchTarget | RecordTarget | DayTarget:
        place = first.topic, first.partition, first.base_offset
        size = self.segment_bytes or SEGMENT_BYTES_MAX
        if self.target_layout == PARQUET:
            return DayTarget(*place, self.codec)
        if self.copies:
            return BatchTarget(*place, size, self.target_layout)
        return RecordTarget(
            *place,
            size,
            self.target_layout,
            codec=self.codec,
            level=self.level,
            block_bytes=self.block_bytes,
        )

    def _convert(
        self,
        piece: SegmentRef | ParquetGroup,
        target: RecordTarget | DayTarget,
        guard: LossGuard,
    ) -> Step[None]:
        settings: dict[str, Any] = {}
        if self.layout in BATCHED and guard.minds_headers:
            settings["saw"] = lambda data: _look(data, guard)
        found = Items(read_piece(piece, SOURCE, COLUMNS, **settings), StoreRequest, asked_for)
        while (batch := (yield from found.next())) is not None:
            yield from target.add(guard.columns(batch))


def _look(data: memoryview, guard: LossGuard) -> None:
    """Show the guard every batch of a piece."""
    at = 0
    while len(data) - at >= HEADER_BYTES:
        header = decode_header(data, at)
        guard.header(header)
        at += header.size


def _runs(
    found: Iterable[Any], segment_bytes: int | None
) -> Iterator[tuple[SegmentRef | ParquetGroup, ...]]:
    """Yield what is converted together: neighbours of a partition, up to a segment's size."""
    if segment_bytes is None:
        yield from ((piece,) for piece in found)
        return
    for _, pieces in groupby(found, key=lambda piece: (piece.topic, piece.partition)):
        yield from (task.units for task in pack(pieces, segment_bytes))
