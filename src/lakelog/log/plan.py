"""The history of whole topics at once: which segments there are, and how many bytes they take.

Manifests are asked for many at a time, and then the pages that they name. A million segments over
ten thousand partitions are ten thousand requests and some seconds; a plan holds a row a segment.

What lies in the journal is added up from directories in memory and from the slice indexes of
checkpoints, which are kept for readers anyway. Of a backlog of more than ``RUNS_MAX`` of them the
rest is estimated, because whoever asks for sizes does so every minute.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakelog.errors import NotFoundError
from lakelog.journal import Lane, locate_run
from lakelog.manifests import (
    Manifest,
    PartitionPath,
    SegmentRow,
    read_manifest,
    read_manifests,
    read_rows,
)
from lakelog.store import Work

__all__ = ["Planned", "history_bytes", "journal_bytes", "plan_partitions"]

STARTS_MAX = 5
RUNS_MAX = 16
EVERYTHING_BYTES = 1 << 62


@dataclass(frozen=True, slots=True)
class Planned:
    """The history of one partition, as it was when it was looked at."""

    where: PartitionPath
    log_start: int
    sealed_end: int
    rows: tuple[SegmentRow, ...]
    """The segments that hold something from the start of the log on."""
    deleted: bool = False
    cleaned_end: int = 0


def plan_partitions(paths: Sequence[PartitionPath]) -> Work[list[Planned]]:
    """Return the history of some partitions, in their order."""
    manifests = yield from read_manifests(paths)
    planned: list[Planned] = []
    for path, found in zip(paths, manifests, strict=True):
        manifest, rows = yield from _rows(path, found)
        start, end, cleaned_end = manifest.log_start, manifest.sealed_end, manifest.cleaned_end
        planned.append(Planned(path, start, end, tuple(rows), manifest.deleted, cleaned_end))
    return planned


def _rows(path: PartitionPath, manifest: Manifest) -> Work[tuple[Manifest, list[SegmentRow]]]:
    """Return the rows of what may be read, and the manifest that they belong to."""
    for _ in range(STARTS_MAX):
        try:
            return manifest, (yield from read_rows(path, manifest, manifest.log_start))
        except NotFoundError:  # A page is gone: the manifest has moved on.
            manifest = yield from read_manifest(path)
    raise NotFoundError(f"{path.prefix}: pages that its manifest names are missing: verify it")


# ---------------------------------------------------------------------------- sizes


def history_bytes(manifest: Manifest) -> int:
    """Return the bytes of the segments of a partition."""
    pages = sum(row.length for row in manifest.pages)
    return pages + sum(row.length for row in manifest.segments)


def journal_bytes(lane: Lane, topic_partition: tuple[bytes, int], start: int) -> Work[int]:
    """Return about how many bytes of a partition lie in the journal, from an offset on."""
    offset, end, size = start, lane.known.fold.end(topic_partition), 0
    for _ in range(RUNS_MAX):
        run = yield from locate_run(lane, topic_partition, offset, EVERYTHING_BYTES)
        size += sum(one.slice.length for one in run)
        if not run:
            break  # The end, or what has fallen below the floor meanwhile.
        offset = run[-1].slice.next_offset
    if start < offset < end:
        size += size * (end - offset) // (offset - start)
    return size
