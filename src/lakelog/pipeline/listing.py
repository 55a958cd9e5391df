"""What there is to work on, the segments of a store and the topics of a namespace, and what not.

In a place where manifests lie beside segments, the segments are those that manifests name. A topic
or a partition that cannot be read is a result, and stops no other.

What was asked for and is not there is a result of its own, never a run without rows. A wrong
address, a wrong layout and a topic that is spelled wrong all look like an empty place. So who finds
nothing says what was looked for, where, and what lies there instead. Whoever looks at the segments
of a namespace says what of it is not sealed.
"""

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from lakelog.catalog import Topic, news_of_topics, open_namespace
from lakelog.errors import LakelogError, NotFoundError
from lakelog.flows import through
from lakelog.formats import Range
from lakelog.log import tell_unsealed
from lakelog.manifests import PartitionPath
from lakelog.names import CLUSTER_KEY
from lakelog.pipeline.frame import (
    MISSING,
    SOURCE,
    UNSEALED,
    Result,
    Step,
    StoreRequest,
    Subject,
    at_store,
    failed,
)
from lakelog.ports import Host
from lakelog.records import OFFSET_MAX
from lakelog.segments import (
    HISTORY,
    LAYOUTS,
    NAMESPACE,
    Directory,
    SegmentRange,
    SegmentRef,
    Selection,
    each_directory,
    find_directories,
    find_logs,
    is_named,
)
from lakelog.store import ListPage, Op, Page, head, run

__all__ = [
    "failed_partition",
    "feed",
    "list_copies",
    "list_segments",
    "list_wanted",
    "missing_results",
    "result_of_absent",
    "unsealed_results",
    "whole",
]

SHOWN = 5
"""Names of topics in a sentence."""


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


# ---------------------------------------------------------------------------- what is not there


def missing_results(
    url: str,
    layout: str,
    selection: Selection,
    found: Iterable[str],
    *,
    perform: Callable[[Any], Any] | None = None,
    others: Iterable[str] = (),
) -> tuple[Result, ...]:
    """Return a result for each topic that was named and not found, or one if nothing was found.

    ``found`` are the topics that were, ``others`` those that were not asked for, if they are known.
    ``perform`` lists the store, for a guess at what to try; a live Kafka lists nothing.
    """
    topics = set(found)
    named = selection.topics
    absent = [None] if named is None and not topics else sorted((named or set()) - topics)
    if not absent:
        return ()
    hint = _topics_there(sorted(others)) or _hint(layout, perform)
    return tuple(_missing(url, layout, selection, topic, hint) for topic in absent)


def _missing(url: str, layout: str, selection: Selection, topic: str | None, hint: str) -> Result:
    wanted = f" of topic {topic}" if topic is not None else ""
    if selection.pattern is not None:
        wanted = f" of a topic like {selection.pattern}"
    if selection.partitions is not None:
        wanted = f" of the {len(selection.partitions)} partitions that were named"
    if layout in LAYOUTS:
        row = LAYOUTS[layout]
        what = f"no segment{wanted} in the layout {layout} ({row.pattern}) was found below {url}"
    else:
        what = f"nothing{wanted} in the layout {layout} was found at {url}"
    return Subject(topic or "", -1, 0, url).found(MISSING, f"{what}: {hint}", at=-1)


def _topics_there(topics: list[str]) -> str:
    shown = ", ".join(topics[:SHOWN]) + (", ..." if topics[SHOWN:] else "")
    return f"check the names of topics; there are {shown}" if topics else ""


def _hint(layout: str, perform: Callable[[Any], Any] | None) -> str:
    """Return what to try, by the first names that are there."""
    if perform is None:
        return "check the address and the names of topics"
    page: Page = perform(ListPage())
    objects = [(info.key, info.size) for info in page.objects]
    if not objects:
        return "no object at all is there; check the address"
    held = {
        name: sorted({one.topic for one in find_directories(row, objects)})
        for name, row in LAYOUTS.items()
    }
    if topics := held.get(layout):
        return _topics_there(topics)
    if layout == NAMESPACE:
        return "check the names of topics"
    if any(key == CLUSTER_KEY for key, _ in objects):
        return "it is a namespace, and --layout lakelog looks at all of it, its journal too"
    others = [name for name, topics in held.items() if topics]
    if others:
        return f"there are segments in the layout {' and '.join(others)}: try --layout {others[0]}"
    return f"other objects are there, {objects[0][0]} for one; check the address and the layout"


def unsealed_results(
    url: str,
    layout: str,
    selection: Selection,
    perform: Callable[[Any], Any],
    host: Host,
    what_next: str,
) -> tuple[Result, ...]:
    """Return a result that tells of the records of a namespace that no segment holds yet, if any.

    ``what_next`` says how they are looked at.
    """
    if layout != HISTORY:
        return ()
    told = run(tell_unsealed(selection, host.clock, host.ids), perform)
    if not told:
        return ()
    return (Subject("", -1, 0, url).found(UNSEALED, f"{url}: {told}: {what_next}", at=-1),)


def result_of_absent(segment: SegmentRef, subject: Subject) -> Step[Result]:
    """Return how it is with a segment one of whose objects was not found when it was read.

    Raises:
        NotFoundError: its data is there, and only a file beside it has gone meanwhile.
    """
    key = segment.key(segment.fmt.suffix)
    try:
        yield from at_store(SOURCE, head(key))
    except NotFoundError:
        named = segment.has_row and (yield from at_store(SOURCE, is_named(segment)))
        if not named:
            return subject.result("gone")
        what = "it is missing, and the manifest beside it names it: restore it"
        return subject.found("damaged", what, key=key, size=segment.size)
    raise NotFoundError(f"a file beside {key} has gone while it was read: try again")
