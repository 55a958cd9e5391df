"""Logs: a listing of a store, as the segments that make up each partition.

Several directories of one partition are copies in the layout of a Kafka broker, where one log is
made of them. In other layouts they are what they are: segments of one partition.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from lakelog.history.copies import choose_copies
from lakelog.history.layout import find_segments, layout_named
from lakelog.history.segments import SegmentRef
from lakelog.history.select import Selection
from lakelog.history.starts import note_roots, read_log_starts
from lakelog.store import Perform, each_object, run

__all__ = ["each_segment", "find_logs"]


def each_segment(perform: Perform, layout: str, selection: Selection) -> Iterator[SegmentRef]:
    """Yield every segment that is wanted, a directory at a time, copies of it included."""
    listed = ((info.key, info.size) for info in each_object(perform))
    for segment in find_segments(layout_named(layout), listed):
        if selection.wants(segment.topic, segment.partition):
            yield segment


def find_logs(
    perform: Perform, layout: str, selection: Selection, folders: Iterable[str] = ("",)
) -> dict[tuple[str, int], list[SegmentRef]]:
    """List a store, and return what is wanted of it: by partition, in the order of offsets.

    Only what lies below one of the ``folders`` is looked at.

    Raises:
        InvalidInputError: an unknown layout, or copies that cannot be of one topic.
    """
    row, roots = layout_named(layout), set[str]()
    prefixes = [folder and folder.rstrip("/") + "/" for folder in folders]
    listed = ((info.key, info.size) for prefix in prefixes for info in each_object(perform, prefix))
    segments = [
        segment
        for segment in find_segments(row, note_roots(listed, roots))
        if selection.wants(segment.topic, segment.partition)
    ]
    place = attrgetter("topic", "partition")
    segments.sort(key=place)  # Stores do not agree on the order of folders.
    partitions = {key: list(group) for key, group in groupby(segments, key=place)}
    if row.name != "kafka":
        return partitions
    starts = run(read_log_starts(roots), perform)
    return run(choose_copies(partitions, starts), perform)
