"""A namespace of ours as a side of a comparison: history and journal, to the last record.

Its pieces are spans: one for each segment, and one for what of a partition is still in the journal.
Where a span lies may change while it waits to be read; it is read wherever it lies by then.
"""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakelog.log import Extent, LocatedRange, Survey, look_at, sealed_ranges
from lakelog.log.rows import read_task
from lakelog.model import Rules
from lakelog.pipeline.frame import StoreRequest, at_store
from lakelog.ports import Host
from lakelog.segments import Selection
from lakelog.store import run

__all__ = ["LogPiece", "list_namespace", "read_namespace"]


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Offsets of a partition, the rules of its namespace, and by which clocks it is read."""

    span: LocatedRange
    rules: Rules
    host: Host

    @property
    def topic(self) -> str:
        return self.span.member.topic

    @property
    def partition(self) -> int:
        return self.span.member.partition

    @property
    def base_offset(self) -> int:
        return self.span.base_offset

    @property
    def size(self) -> int:
        return self.span.size

    @property
    def object(self) -> str:
        return str(self.span.member)


def list_namespace(
    perform: Callable[[Any], Any], selection: Selection, host: Host
) -> list[LogPiece]:
    """Return the pieces of the partitions that are wanted, in the order of offsets."""
    survey, extents = run(look_at(selection, *host), perform)
    return [LogPiece(span, survey.rules, host) for extent in extents for span in _spans(extent)]


def _spans(extent: Extent) -> Iterable[LocatedRange]:
    yield from sealed_ranges(extent, extent.log_start, extent.sealed_end)
    start = max(extent.log_start, extent.sealed_end)
    if start < extent.end:
        yield LocatedRange(extent.member, start, extent.end, 0, None)


def read_namespace(
    piece: LogPiece, store: str, columns: Iterable[str], offset_from: int, offset_to: int
) -> Generator[StoreRequest | pa.RecordBatch, Any, None]:
    """Yield the records of a range of offsets."""
    span = piece.span
    base, next_ = max(span.base_offset, offset_from), min(span.next_offset, offset_to)
    if base >= next_:
        return
    survey = Survey(rules=piece.rules, clock=piece.host.clock, ids=piece.host.ids)
    wanted = span._replace(base_offset=base, next_offset=next_)
    # What is gone is looked for elsewhere.
    yield from at_store(store, read_task([wanted], survey.lane, columns))
