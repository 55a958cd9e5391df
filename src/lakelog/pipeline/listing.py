"""What is there to work on: the segments of a store, and the reads of a flow over one of them.

In a place where manifests lie beside segments, the segments are those that manifests name.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lakelog.flows import through
from lakelog.formats import Range
from lakelog.pipeline.absent import missing_results
from lakelog.pipeline.frame import Finding, Result, Step, StoreRequest, at_store
from lakelog.records import OFFSET_MAX
from lakelog.segments import (
    Directory,
    SegmentRange,
    SegmentRef,
    Selection,
    each_directory,
    find_logs,
)
from lakelog.store import Op, StoreSpec

__all__ = ["SOURCE", "Listed", "feed", "list_copies", "list_segments", "whole"]

T = TypeVar("T")

SOURCE = "source"
"""The name of the store that is read."""


def list_segments(
    perform: Callable[[Any], Any], layout: str, selection: Selection
) -> list[SegmentRef]:
    """Return every segment that is wanted, partition by partition: one copy of each record."""
    logs = find_logs(perform, layout, selection)
    return [segment for segments in logs.values() for segment in segments]


@dataclass(frozen=True, slots=True)
class Listed:
    """Segments to look at, and what is known without looking at any."""

    segments: list[SegmentRef]
    results: tuple[Result, ...]


def list_copies(
    perform: Callable[[Any], Any],
    source: StoreSpec,
    layout: str,
    selection: Selection,
    *,
    closed: bool,
) -> Listed:
    """Return every segment that is wanted, with all copies of it.

    ``closed`` says that nobody writes, to the last one of a partition neither.
    """
    segments: list[SegmentRef] = []
    results: list[Result] = []
    topics: set[str] = set()
    for found in each_directory(perform, layout, selection):
        topics.add(found.topic)
        segments += (replace(one, active=False) if closed else one for one in found.segments)
        if not found.segments:
            results.append(_without_segments(found))
    results += missing_results(source.url, layout, selection, topics, perform=perform)
    return Listed(segments, tuple(results))


def _without_segments(directory: Directory) -> Result:
    """Return how it is with a directory whose manifest names nothing, or cannot be read."""
    fault = directory.fault
    key = f"{directory.path}/manifest"
    finding = () if fault is None else (Finding(fault.where, fault.at, 0, fault.what),)
    return Result(
        topic=directory.topic,
        partition=directory.partition,
        base_offset=0,
        object=key,
        outcome="damaged" if finding else "empty",
        findings=finding,
        findings_count=len(finding),
    )


def whole(segment: SegmentRef, offset_from: int = 0, offset_to: int = OFFSET_MAX) -> SegmentRange:
    """Return a segment as one part, for the offsets that are wanted."""
    return SegmentRange(
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

    def each(item: Any) -> Step[Any]:
        if isinstance(item, Range):
            return (yield from at_store(SOURCE, segment.read(item)))
        if isinstance(item, Op):
            return (yield StoreRequest(SOURCE, item))
        if take is not None and (more := take(item)) is not None:
            yield from more
        return None

    return (yield from through(flow, each))
