"""Logs: a listing of a store, as the segments that make up each partition.

Several directories of one partition are copies in the layout of a Kafka broker, where one log is
made of them. In other layouts they are what they are: segments of one partition.

Where manifests lie beside segments, what they name counts. Where none does, each offset is read
from one segment: one that reaches into the next is read up to there, and two that begin at the same
offset are refused, because nothing says which one replaced the other.

    beside a manifest                        it names
    segment-00000000000000000000.kfs         no: merged into the next one, and not yet swept
    segment-00000000000000000000-6f1c….kfs   yes
    segment-00000000000000000400.kfs         no: a sealer was killed before it could commit

Objects are listed first, and manifests read afterwards. So an object that no manifest names is not
part of the log, and one that was made since it was listed is named: it is taken as the manifest has
it, without the indexes, which only save time. If it is not there after all, whoever reads it meets
that. What a manifest names and nobody finds is lost, never skipped.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any

from lakelog.errors import CorruptError, InvalidInputError, NotFoundError, UnsupportedError
from lakelog.formats import kafs
from lakelog.manifests import (
    Manifest,
    PartitionPath,
    SegmentRow,
    decode_manifest,
    read_rows,
)
from lakelog.segments.copies import choose_copies, note_roots, read_log_starts
from lakelog.segments.layout import MANIFEST, Directory, find_directories, layout_named
from lakelog.segments.segments import SegmentRef
from lakelog.segments.select import Selection
from lakelog.store import Work, each_object, read_cell, run, together

__all__ = ["each_directory", "each_segment", "find_logs", "is_named", "read_named"]

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
    topic_partition = attrgetter("topic", "partition")
    segments.sort(key=topic_partition)  # Stores do not agree on the order of folders.
    partitions = {key: list(group) for key, group in groupby(segments, key=topic_partition)}
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


# ---------------------------------------------------------------------------- what manifests name


def read_named(directories: Sequence[Directory]) -> Work[list[Directory]]:
    """Return directories with the segments that count: all, or those that a manifest names.

    A manifest that cannot be read is the fault of its directory.
    """
    return (yield from together(_read(one) for one in directories))


def is_named(segment: SegmentRef) -> Work[bool]:
    """Return whether the manifest beside a segment names it now.

    Raises:
        CorruptError, UnsupportedError: it cannot be read.
    """
    path = segment.directory
    found = yield from _rows(path, segment.partition)
    name = segment.stem.removeprefix(f"{path}/")
    return found is not None and any(row.name == name for row in found[1])


def _read(directory: Directory) -> Work[Directory]:
    if not directory.has_manifest:
        return directory
    try:
        found = yield from _rows(directory.path, directory.partition)
    except (CorruptError, UnsupportedError) as error:
        key = f"{directory.path}/{MANIFEST}"
        where = error.where if error.where.startswith(directory.path) else key
        fault = type(error)(error.what, at=error.at, where=where)
        return replace(directory, segments=(), fault=fault)
    if found is None:
        return replace(directory, has_manifest=False)
    manifest, rows = found
    listed = {one.stem: one for one in directory.segments}
    segments = tuple(_segment(directory, manifest, row, listed) for row in rows)
    return replace(directory, segments=segments)


def _rows(path: str, partition: int) -> Work[tuple[Manifest, list[SegmentRow]] | None]:
    """Return a manifest and the rows of what may be read; None where there is none.

    Raises:
        CorruptError, UnsupportedError: it is no manifest, or of another partition, or lacks a page.
    """
    seen = -1
    while True:
        cell = yield from read_cell(f"{path}/{MANIFEST}")
        if cell is None:
            return None
        manifest = decode_manifest(cell.body)
        if manifest.partition != partition:
            raise CorruptError(f"it is of partition {manifest.partition}", at=0, where=MANIFEST)
        if manifest.deleted:
            return manifest, []
        where = PartitionPath(manifest.topic, path.rpartition("/")[0], partition)
        try:
            return manifest, (yield from read_rows(where, manifest, manifest.log_start))
        except NotFoundError as error:
            if manifest.generation == seen:
                what = f"a page that it names is not there: {error}"
                raise CorruptError(what, at=0, where=MANIFEST) from error
            seen = manifest.generation  # It may have moved on. What it names now counts.


def _segment(
    directory: Directory, manifest: Manifest, row: SegmentRow, listed: dict[str, SegmentRef]
) -> SegmentRef:
    stem = f"{directory.path}/{row.name}"
    base = kafs.FORMAT.base_offset(row.name)
    found = listed.get(stem)
    return SegmentRef(
        topic=directory.topic,
        partition=directory.partition,
        base_offset=row.base_offset if base is None else base,
        next_offset_max=row.next_offset,
        format=kafs.FORMAT.name,
        stem=stem,
        sizes={kafs.FORMAT.suffix: row.length} if found is None else found.sizes,
        offset_min=manifest.log_start if row.base_offset < manifest.log_start else 0,
        has_row=True,
    )
