"""The history of whole topics at once: which segments there are, before anything is read.

Manifests are asked for many at a time, and then the pages that they name. A million segments over
ten thousand partitions are ten thousand requests and some seconds; a plan holds a row a segment.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakelog.errors import NotFoundError
from lakelog.manifests import (
    Manifest,
    PartitionPath,
    SegmentRow,
    decode_page,
    read_manifest,
    read_manifests,
)
from lakelog.store import CELL_BYTES_MAX, Get, Work, fetch_many

__all__ = ["Planned", "plan_partitions"]

STARTS_MAX = 5


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


def plan_partitions(wheres: Sequence[PartitionPath]) -> Work[list[Planned]]:
    """Return the history of some partitions, in their order."""
    manifests = yield from read_manifests(wheres)
    planned: list[Planned] = []
    for where, manifest in zip(wheres, manifests, strict=True):
        paged: list[SegmentRow] = []
        if manifest.pages:
            manifest, paged = yield from _paged(where, manifest)
        start = manifest.log_start
        rows = tuple([row for row in (*paged, *manifest.segments) if row.next_offset > start])
        planned.append(
            Planned(where, start, manifest.sealed_end, rows, manifest.deleted, manifest.cleaned_end)
        )
    return planned


def _paged(where: PartitionPath, manifest: Manifest) -> Work[tuple[Manifest, list[SegmentRow]]]:
    """Return the rows on pages, and the manifest that they belong to."""
    for _ in range(STARTS_MAX):
        keys = [f"{where.prefix}{page.name}.json" for page in manifest.pages]
        pages = yield from fetch_many([Get(key, CELL_BYTES_MAX) for key in keys])
        if None not in pages:
            return manifest, [row for page in pages if page for row in decode_page(page.body)]
        # A page is gone: the manifest has moved on.
        manifest = yield from read_manifest(where)
    raise NotFoundError(f"{where.prefix}: pages that its manifest names are missing: verify it")
