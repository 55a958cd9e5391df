"""Segments in a namespace: what a manifest names is the log, and nothing else is.

    beside a manifest                        it names
    segment-00000000000000000000.kfs         no: merged into the next one, and not yet swept
    segment-00000000000000000000-6f1c….kfs   yes
    segment-00000000000000000400.kfs         no: a sealer was killed before it could commit

Objects are listed first, and manifests read afterwards. So an object that no manifest names is not
part of the log, and one that was made since it was listed is named: it is taken as the manifest has
it, without the indexes, which only save time. If it is not there after all, whoever reads it meets
that. What a manifest names and nobody finds is lost, never skipped.
"""

from collections.abc import Sequence
from dataclasses import replace

from lakelog.errors import CorruptError, NotFoundError, UnsupportedError
from lakelog.formats import kafs
from lakelog.manifests import (
    Manifest,
    PartitionPath,
    SegmentRow,
    decode_manifest,
    read_rows,
)
from lakelog.segments.layout import MANIFEST, Directory
from lakelog.segments.segments import SegmentRef
from lakelog.store import Work, read_cell, together

__all__ = ["is_named", "read_named"]


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
