"""What was asked for and is not there: told as a result of its own, never as a run without rows.

A wrong address, a wrong layout and a topic that is spelled wrong all look like an empty place. So
who finds nothing says what was looked for, where, and what lies there instead. Whoever looks at the
segments of a namespace says what of it is not sealed.
"""

from collections.abc import Callable, Iterable
from typing import Any

from lakelog.errors import NotFoundError
from lakelog.log import tell_unsealed
from lakelog.names import CLUSTER_KEY
from lakelog.pipeline.frame import (
    MISSING,
    SOURCE,
    UNSEALED,
    Result,
    Step,
    Subject,
    at_store,
)
from lakelog.ports import Host
from lakelog.segments import (
    HISTORY,
    LAYOUTS,
    NAMESPACE,
    SegmentRef,
    Selection,
    find_directories,
    is_named,
)
from lakelog.store import ListPage, Page, head, run

__all__ = ["missing_results", "result_of_absent", "unsealed_results"]

SHOWN = 5
"""Names of topics in a sentence."""


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
