"""Logs: a listing of a store, as the segments that make up each partition.

Several directories of one partition are copies in the layout of a Kafka broker, where one log is
made of them. In other layouts they are what they are: segments of one partition.

Where manifests lie beside segments, what they name counts. Where none does, each offset is read
from one segment: one that reaches into the next is read up to there, and two that begin at the same
offset are refused, because nothing says which one replaced the other.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any

from lakelog.errors import InvalidInputError
from lakelog.segments.copies import choose_copies, note_roots, read_log_starts
from lakelog.segments.layout import Directory, find_directories, layout_named
from lakelog.segments.named import read_named
from lakelog.segments.segments import SegmentRef
from lakelog.segments.select import Selection
from lakelog.store import each_object, run

__all__ = ["each_directory", "each_segment", "find_logs"]

AT_ONCE = 256
"""Directories that are held while their manifests are read."""


def each_directory(
    perform: Callable[[Any], Any],
    layout: str,
    selection: Selection,
    folders: Iterable[str] = ("",),
    roots: set[str] | None = None,
) -> Iterator[Directory]:
    """Yield every directory of a partition that is wanted, with the segments that count.

    ``perform`` does work: many operations at once, too. Only what lies below one of the ``folders``
    is looked at; ``roots`` gathers the log directories of brokers.
    """
    row = layout_named(layout)
    prefixes = [folder and folder.rstrip("/") + "/" for folder in folders]
    listed = ((info.key, info.size) for prefix in prefixes for info in each_object(perform, prefix))
    held: list[Directory] = []
    for found in find_directories(row, note_roots(listed, set() if roots is None else roots)):
        if selection.wants(found.topic, found.partition):
            held.append(found)
        if not row.manifests or len(held) == AT_ONCE:
            yield from run(read_named(held), perform)
            held = []
    yield from run(read_named(held), perform)


def each_segment(
    perform: Callable[[Any], Any], layout: str, selection: Selection
) -> Iterator[SegmentRef]:
    """Yield every segment that is wanted, a directory at a time, copies of it included.

    Raises:
        CorruptError, UnsupportedError: a manifest beside segments cannot be read.
    """
    for found in each_directory(perform, layout, selection):
        yield from _sound(found)


def find_logs(
    perform: Callable[[Any], Any], layout: str, selection: Selection, folders: Iterable[str] = ("",)
) -> dict[tuple[str, int], list[SegmentRef]]:
    """List a store, and return what is wanted of it: by partition, in the order of offsets.

    Only what lies below one of the ``folders`` is looked at.

    Raises:
        InvalidInputError: an unknown layout, copies that cannot be of one topic, or segments of
            which nothing says which one counts.
        CorruptError, UnsupportedError: a manifest beside segments cannot be read.
    """
    roots = set[str]()
    segments = [
        segment
        for found in each_directory(perform, layout, selection, folders, roots)
        for segment in _sound(found)
    ]
    place = attrgetter("topic", "partition")
    segments.sort(key=place)  # Stores do not agree on the order of folders.
    partitions = {key: list(group) for key, group in groupby(segments, key=place)}
    if layout_named(layout).name != "kafka":
        return {key: _in_order(held) for key, held in partitions.items()}
    starts = run(read_log_starts(roots), perform)
    return run(choose_copies(partitions, starts), perform)


def _sound(directory: Directory) -> tuple[SegmentRef, ...]:
    if directory.fault is not None:
        raise directory.fault
    return directory.segments


def _in_order(segments: list[SegmentRef]) -> list[SegmentRef]:
    """Return segments of one partition so that none reaches into the next.

    Raises:
        InvalidInputError: two of them begin at the same offset.
    """
    segments.sort(key=attrgetter("base_offset"))
    for one, two in pairwise(segments):
        if one.base_offset == two.base_offset:
            suffix = one.fmt.suffix
            raise InvalidInputError(
                f"{one.key(suffix)} and {two.key(suffix)} both begin at offset {one.base_offset}, "
                "and no manifest says which one counts: read a folder that holds only one of them"
            )
    behind = (*(one.base_offset for one in segments[1:]), segments[-1].next_offset_max)
    return [
        one if one.next_offset_max <= end else replace(one, next_offset_max=end)
        for one, end in zip(segments, behind, strict=True)
    ]
