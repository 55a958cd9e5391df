"""What is there to work on: the segments of a store, and the reads of a flow over one of them."""

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, TypeVar

from lakelog.formats import Range
from lakelog.history import Part, SegmentRef, Selection, each_segment, find_logs
from lakelog.pipeline.frame import Step, Wish
from lakelog.records import OFFSET_MAX
from lakelog.store import Fetched, GetRange, Op

__all__ = ["SOURCE", "feed", "list_copies", "list_segments", "whole"]

T = TypeVar("T")

SOURCE = "source"
"""The name of the store that is read."""


def list_segments(
    perform: Callable[[Any], Any], layout: str, selection: Selection
) -> list[SegmentRef]:
    """Return every segment that is wanted, partition by partition: one copy of each record."""
    logs = find_logs(perform, layout, selection)
    return [segment for segments in logs.values() for segment in segments]


def list_copies(
    perform: Callable[[Any], Any], layout: str, selection: Selection, *, closed: bool
) -> list[SegmentRef]:
    """Return every segment that is wanted, with all copies of it.

    ``closed`` says that nobody writes, to the last one of a partition neither.
    """
    found = each_segment(perform, layout, selection)
    return [replace(segment, active=False) if closed else segment for segment in found]


def whole(segment: SegmentRef, offset_from: int = 0, offset_to: int = OFFSET_MAX) -> Part:
    """Return a segment as one part, for the offsets that are wanted."""
    return Part(
        segment=segment,
        byte_from=0,
        byte_to=segment.size,
        offset_from=max(offset_from, segment.base_offset, segment.offset_min),
        offset_to=min(offset_to, segment.next_offset_max),
    )


def feed(
    segment: SegmentRef,
    flow: Generator[Any, Any, T],
    take: Callable[[Any], Step[None] | None] | None = None,
) -> Step[T]:
    """Run a flow over a segment of the source: give it bytes, and hand on what it finds.

    ``take`` may be a step itself, for what it does with a finding.
    """
    answer: Any = None
    while True:
        try:
            item = flow.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result
        answer = None
        if isinstance(item, Range):
            op = GetRange(segment.key(item.suffix), item.start, item.end)
            fetched: Fetched = yield Wish(SOURCE, op)
            answer = fetched.body
        elif isinstance(item, Op):
            answer = yield Wish(SOURCE, item)
        elif take is not None and (more := take(item)) is not None:
            yield from more
