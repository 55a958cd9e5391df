"""What is there to work on: the segments of a store, and the topics of a namespace.

In a place where manifests lie beside segments, the segments are those that manifests name. A topic
or a partition that cannot be read is a result, and stops no other.
"""

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, TypeVar

from lakelog.catalog import Topic, news_of_topics, open_namespace
from lakelog.errors import LakelogError, NotFoundError
from lakelog.flows import through
from lakelog.formats import Range
from lakelog.manifests import PartitionPath
from lakelog.pipeline.absent import missing_results
from lakelog.pipeline.frame import SOURCE, Result, Step, StoreRequest, Subject, at_store, failed
from lakelog.records import OFFSET_MAX
from lakelog.segments import (
    Directory,
    SegmentRange,
    SegmentRef,
    Selection,
    each_directory,
    find_logs,
)
from lakelog.store import Op, run

__all__ = [
    "failed_partition",
    "feed",
    "list_copies",
    "list_segments",
    "list_wanted",
    "whole",
]

T = TypeVar("T")


def list_segments(
    perform: Callable[[Any], Any], layout: str, selection: Selection
) -> list[SegmentRef]:
    """Return every segment that is wanted, partition by partition: one copy of each record."""
    logs = find_logs(perform, layout, selection)
    return [segment for segments in logs.values() for segment in segments]


def list_copies(
    perform: Callable[[Any], Any], url: str, layout: str, selection: Selection, *, closed: bool
) -> tuple[list[SegmentRef], tuple[Result, ...]]:
    """Return every segment that is wanted, with all copies of it; and what is known by then.

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
    results += missing_results(url, layout, selection, topics, perform=perform)
    return segments, tuple(results)


def _without_segments(directory: Directory) -> Result:
    """Return how it is with a directory whose manifest names nothing, or cannot be read."""
    key = f"{directory.path}/manifest"
    subject = Subject(directory.topic, directory.partition, 0, key)
    return subject.failed(directory.fault) if directory.fault else subject.result("empty")


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


# ---------------------------------------------------------------------------- a namespace


def list_wanted(
    selection: Selection, perform: Callable[[Any], Any]
) -> tuple[list[Topic], list[Result]]:
    """Return the topics that are wanted, also deleted ones, and results of those that are damaged.

    Raises:
        NotFoundError: there is no namespace, or a topic that is named is not there.
        LakelogError: the topics cannot be listed.
    """
    run(open_namespace(), perform)
    news = run(news_of_topics({}, selection.wants_some), perform)
    missing = sorted((selection.topics or frozenset()) - {*news.topics, *news.damaged})
    if missing:
        raise NotFoundError(f"there is no topic {', '.join(missing)}: check the name")
    bad = [failed(f"topic {name}", error, topic=name) for name, error in news.damaged.items()]
    return [*news.topics.values()], bad


def failed_partition(topic: Topic, where: PartitionPath, error: LakelogError) -> Result:
    """Return the result of a partition that stopped only itself."""
    what = f"{where.prefix}manifest"
    return failed(what, error, topic=topic.name, partition=where.partition)
