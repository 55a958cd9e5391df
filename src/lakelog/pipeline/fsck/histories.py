"""The history of partitions: manifests and their pages, and the segments that they name.

    plan   list a folder, then read its manifest, then its pages: as the sweep does, so that what
           was listed is named, or announced, or nobody's
    step   one segment: its bytes against its own checks, against its row, and its indexes

A row and a segment hold one another: the row has the CRC of every byte, and the segment a header, a
footer and batches that the row repeats. Where a segment is sound by itself and the row says
something else, one of the two is wrong, and both are named.

What looks wrong counts only if the manifest, read afterwards, still names it so: a row that is gone
is not missing. Nobody deletes what a manifest names.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lakelog.catalog import Topic, read_topic
from lakelog.errors import CorruptError, NotFoundError, UnsupportedError
from lakelog.maintenance import HistoryObject
from lakelog.manifests import (
    Manifest,
    PageRow,
    PartitionPath,
    SegmentRow,
    decode_manifest,
    decode_page,
    read_manifest,
)
from lakelog.names import topic_key
from lakelog.pipeline.frame import FindingCollector, Result, Subject
from lakelog.pipeline.fsck.census import Folder
from lakelog.store import CELL_BYTES_MAX, Get, Work, ask, is_there, read_cell

__all__ = ["History", "NamedSegment", "Row", "find_row_again", "look_at_folder"]

STARTS_MAX = 5


@dataclass(frozen=True, slots=True)
class Row:
    """A row, and the object it stands in."""

    row: SegmentRow
    holder: str
    """The name of a page, or ``manifest``."""


@dataclass(frozen=True, slots=True)
class NamedSegment:
    """A unit: a segment that a manifest names."""

    where: PartitionPath
    found: Row

    @property
    def size(self) -> int:
        return max(1, self.found.row.length)

    @property
    def key(self) -> str:
        """Of its objects, without suffix."""
        return self.where.prefix + self.found.row.name


@dataclass(slots=True)
class History:
    """What is known of a folder, and what there is to read."""

    segments: list[NamedSegment] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)


def look_at_folder(folder: Folder, topic: Topic | None) -> Work[History]:
    """Judge the manifest of a folder that was listed; ``topic`` is who has this path, if known."""
    looked = History()
    name = folder.path.partition("~")[0]
    if topic is None or folder.partition >= topic.partitions:
        # It may be younger than what we know.
        topic = yield from _owner(name, folder)
    subject = Subject(folder.path, folder.partition, 0, f"{folder.prefix}manifest")
    findings = FindingCollector()
    judged = yield from _judge(folder, topic, findings)
    if findings.count:
        looked.results.append(subject.result("damaged", findings))
        return looked
    if judged is None:
        if topic is None:
            folder.strangers += [key for key, _ in _unnamed(folder, set())]
        return looked
    manifest, rows = judged
    outcome = "good"
    if topic is not None and topic.deleted and not manifest.deleted:
        outcome = "undeleted"
        findings.add(subject.object, "its topic is deleted, and it does not say so yet: run keep")
    looked.results.append(subject.result(outcome, findings))
    where = PartitionPath(manifest.topic, folder.path, folder.partition)
    looked.segments += [NamedSegment(where, row) for row in rows]
    if topic is None or topic.deleted or not topic.closed:
        orphans = yield from _orphans(folder, manifest, rows)
        if orphans.count:
            looked.results.append(subject.result("orphan", orphans))
    return looked


def _owner(name: str, folder: Folder) -> Work[Topic | None]:
    """Return the incarnation of a topic that has a path and so many partitions, by its cell."""
    try:
        topic = yield from read_topic(name)
    except (NotFoundError, CorruptError, UnsupportedError):
        return None
    return next(
        (
            one
            for one in topic.incarnations()
            if one.path == folder.path and folder.partition < one.partitions
        ),
        None,
    )


# ---------------------------------------------------------------------------- manifests


Judged = tuple[Manifest, list[Row]]


def _judge(folder: Folder, topic: Topic | None, findings: FindingCollector) -> Work[Judged | None]:
    """Return a manifest and all its rows; None: there is none, or findings say what is wrong."""
    key = f"{folder.prefix}manifest"
    cell = yield from read_cell(key)
    if cell is None:
        # Segments are written behind an intent; but for those of a topic that is being imported.
        if folder.objects and topic is not None and topic.is_open:
            findings.add(
                key, f"it is missing, and {len(folder.objects)} objects lie beside it: restore it"
            )
        return None
    try:
        manifest = decode_manifest(cell.body)
    except (CorruptError, UnsupportedError) as error:
        findings.add(key, error.what, at=error.at)
        return None
    if _is_anothers(manifest, folder, topic):
        findings.add(
            key, f"it is of partition {manifest.partition} of topic {manifest.topic.hex()}"
        )
        if topic is not None and manifest.partition == folder.partition:
            findings.add(
                topic_key(topic.name),
                f"its id is {topic.id.hex()}, and {key} is of topic {manifest.topic.hex()}",
            )
        return None
    if topic is None and not manifest.deleted:
        name = folder.path.partition("~")[0]
        findings.add(
            topic_key(name),
            f"it has no topic with path {folder.path} and partition {folder.partition}: "
            "it is missing, or wrong",
        )
        findings.add(key, "no topic has this path and partition")
        return None
    if topic is not None and manifest.deleted and not topic.deleted:
        now = yield from _owner(topic.name, folder)
        if now is not None and now.id == topic.id and not now.deleted:
            what = "the manifest says that the topic is deleted, and the topic does not"
            findings.add(key, what)
            findings.add(topic_key(topic.name), what)
            return None
    return (yield from _all_rows(manifest, folder, findings))


def _is_anothers(manifest: Manifest, folder: Folder, topic: Topic | None) -> bool:
    if manifest.partition != folder.partition:
        return True
    return topic is not None and manifest.topic != topic.id


# ---------------------------------------------------------------------------- pages


def _all_rows(
    manifest: Manifest, folder: Folder, findings: FindingCollector
) -> Work[Judged | None]:
    """Return the manifest with every row, also those on pages."""
    while True:
        found = FindingCollector()
        rows: list[Row] = []
        for page in manifest.pages:
            rows += yield from _page(folder, page, found)
        rows += [Row(row, "manifest") for row in manifest.segments]
        if not found.count:
            return manifest, rows
        cell = yield from read_cell(f"{folder.prefix}manifest")
        try:
            now = manifest if cell is None else decode_manifest(cell.body)
        except (CorruptError, UnsupportedError):
            now = manifest
        if now.pages == manifest.pages:
            break
        manifest = now  # It has moved on. What it names now counts.
    findings.kept += found.kept
    findings.count += found.count
    return None


def _page(folder: Folder, page: PageRow, findings: FindingCollector) -> Work[list[Row]]:
    """Return the rows of a page, held against the row that names it."""
    key = f"{folder.prefix}{page.name}.json"
    try:
        found = yield from ask(Get(key, CELL_BYTES_MAX))
        rows = decode_page(found.body)
    except NotFoundError:
        what = f"it names {page.name}, which is not there"
        findings.add(key, "it is missing, and its manifest names it: restore it")
        findings.add(f"{folder.prefix}manifest", what)
        return []
    except (CorruptError, UnsupportedError) as error:
        findings.add(key, error.what, at=error.at)
        return []
    held = (
        PageRow(
            page.name,
            rows[0].base_offset,
            rows[-1].next_offset,
            len(rows),
            sum(one.length for one in rows),
            min(one.min_timestamp for one in rows),
            max(one.max_timestamp for one in rows),
            max(one.appended_ms for one in rows),
        )
        if rows
        else None
    )
    if held != page:
        what = f"its rows amount to {held and held[1:]}, the manifest says {page[1:]}"
        findings.add(key, what)
        findings.add(f"{folder.prefix}manifest", f"{page.name}: {what}")
        return []
    return [Row(row, f"{page.name}.json") for row in rows]


# ---------------------------------------------------------------------------- orphans


def _orphans(folder: Folder, manifest: Manifest, rows: Sequence[Row]) -> Work[FindingCollector]:
    """Note what nobody names and nobody has announced: what a sweep removes in time."""
    named = manifest.names() | {one.row.name for one in rows}
    findings = FindingCollector()
    for key, one in _unnamed(folder, named):
        announced = any(one.is_of(intent) for intent in manifest.intents)
        # A sweep may have been faster.
        if not announced and (yield from is_there(key)):
            findings.add(key, "no manifest names it, and nobody has announced it")
    return findings


def _unnamed(folder: Folder, named: set[str]) -> Iterator[tuple[str, HistoryObject]]:
    for one, suffixes in folder.objects.items():
        if one.stem not in named:
            for suffix in suffixes:
                yield f"{folder.prefix}{one.stem}{suffix}", one


# ---------------------------------------------------------------------------- looking again


def find_row_again(unit: NamedSegment) -> Work[Row | None]:
    """Return the row of a segment as it is now; None: no manifest names it any more."""
    where, row = unit.where, unit.found.row
    for _ in range(STARTS_MAX):
        try:
            manifest = yield from read_manifest(where)
        except (CorruptError, UnsupportedError):
            return unit.found  # That is told where manifests are judged.
        for one in manifest.segments:
            if one.name == row.name:
                return Row(one, "manifest")
        page = next((page for page in manifest.pages if page.next_offset > row.base_offset), None)
        if page is None:
            return None
        try:
            found = yield from ask(Get(f"{where.prefix}{page.name}.json", CELL_BYTES_MAX))
            for one in decode_page(found.body):
                if one.name == row.name:
                    return Row(one, f"{page.name}.json")
            return None
        except NotFoundError:
            continue  # The manifest has moved on.
        except (CorruptError, UnsupportedError):
            return unit.found
    return unit.found
