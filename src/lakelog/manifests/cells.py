"""Reading and changing manifests in a store."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from lakelog.errors import CorruptError, LakelogError, UnsupportedError
from lakelog.manifests import changes
from lakelog.manifests.manifest import (
    ROWS_GOAL,
    ROWS_MAX,
    Intent,
    Manifest,
    PageRow,
    SegmentRow,
    decode_manifest,
    decode_page,
    encode_manifest,
    encode_page,
)
from lakelog.names import manifest_key, page_stem, partition_prefix
from lakelog.store import (
    CELL_BYTES_MAX,
    Get,
    Work,
    ask,
    change_cell,
    put_named,
    read_cell,
    together,
    tried,
)

__all__ = [
    "PartitionPath",
    "change_manifest",
    "find_row",
    "read_manifest",
    "read_manifests",
    "read_page",
    "read_rows",
    "try_manifests",
    "turn_page",
]

Alter = Callable[[Manifest], Manifest | None]


@dataclass(frozen=True, slots=True)
class PartitionPath:
    """A partition of one incarnation of a topic."""

    topic: bytes
    path: str
    partition: int

    @property
    def prefix(self) -> str:
        return partition_prefix(self.path, self.partition)

    @property
    def manifest_key(self) -> str:
        return manifest_key(self.path, self.partition)

    @property
    def topic_partition(self) -> tuple[bytes, int]:
        return self.topic, self.partition

    def __str__(self) -> str:
        return f"{self.path}/{self.partition}"

    def new(self) -> Manifest:
        """Return the manifest of an empty history."""
        return Manifest(topic=self.topic, partition=self.partition)

    def decoded(self, body: bytes | None) -> Manifest:
        """Return the manifest in a cell.

        Raises:
            CorruptError: it is of another partition, or none.
        """
        if body is None:
            return self.new()
        try:
            manifest = decode_manifest(body)
        except (CorruptError, UnsupportedError) as error:
            raise type(error)(error.what, at=error.at, where=self.manifest_key) from error
        if (manifest.topic, manifest.partition) != self.topic_partition:
            what = f"it is of partition {manifest.partition} of topic {manifest.topic.hex()}"
            raise CorruptError(what, at=0, where=self.manifest_key)
        return manifest


def read_manifest(path: PartitionPath) -> Work[Manifest]:
    """Return the manifest of a partition; of one that has none, that of an empty history."""
    found = yield from read_cell(path.manifest_key)
    return path.decoded(None if found is None else found.body)


def read_manifests(paths: Sequence[PartitionPath]) -> Work[list[Manifest]]:
    """Return the manifests of some partitions, in their order: many are asked for at once."""
    return (yield from together(map(read_manifest, paths)))


def try_manifests(paths: Sequence[PartitionPath]) -> Work[list[Manifest | LakelogError]]:
    """The same; of one that cannot be read, why: it stops no other."""
    return (yield from together(tried(read_manifest(path)) for path in paths))


def change_manifest(path: PartitionPath, write: str, alter: Alter) -> Work[Manifest]:
    """Change a manifest and return it as it is then; ``alter`` returns None to leave it.

    ``write`` names this change among the manifest's writers.
    """

    def altered(body: bytes | None) -> bytes | None:
        after = alter(path.decoded(body))
        return None if after is None else encode_manifest(after)

    body = yield from change_cell(
        path.manifest_key,
        altered,
        lambda found: write in decode_manifest(found).writers,
    )
    return path.decoded(body)


def read_page(path: PartitionPath, page: PageRow) -> Work[tuple[SegmentRow, ...]]:
    """Return the rows on a page.

    Raises:
        NotFoundError: it is gone; the manifest that named it is old, read that again.
        CorruptError: it is another page.
    """
    key = f"{path.prefix}{page.name}.json"
    found = yield from ask(Get(key, CELL_BYTES_MAX))
    rows = decode_page(found.body)
    held = (rows[0].base_offset, rows[-1].next_offset, len(rows)) if rows else (0, 0, 0)
    if held != page[1:4]:
        what = f"first offset, end and rows are {held}, and its manifest says {page[1:4]}"
        raise CorruptError(what, at=0, where=key)
    return rows


def find_row(path: PartitionPath, manifest: Manifest, offset: int) -> Work[SegmentRow]:
    """Return the row that holds ``offset``, which is before the sealed end; one page is read.

    Raises:
        NotFoundError: the page is gone; read the manifest again.
    """
    rows = manifest.segments
    for page in manifest.pages:
        if page.next_offset > offset:
            rows = yield from read_page(path, page)
            break
    return next(row for row in rows if row.next_offset > offset)


def read_rows(path: PartitionPath, manifest: Manifest, offset: int = 0) -> Work[list[SegmentRow]]:
    """Return the row that holds ``offset`` and all that follow, also those on pages.

    Raises:
        NotFoundError: a page is gone; read the manifest again.
    """
    pages = (page for page in manifest.pages if page.next_offset > offset)
    paged = yield from together(read_page(path, page) for page in pages)
    rows = chain(*paged, manifest.segments)
    return [row for row in rows if row.next_offset > offset]


def turn_page(
    path: PartitionPath, write: bytes, since_ms: int, manifest: Manifest | None = None
) -> Work[bool]:
    """Move older rows onto a page, if the manifest has grown long.

    ``manifest`` is what somebody has just read.
    """
    if manifest is None:
        manifest = yield from read_manifest(path)
    if len(manifest.segments) <= ROWS_MAX or manifest.deleted:
        return False
    rows, id_ = manifest.segments[:-ROWS_GOAL], write.hex()
    if any(one.next_offset != two.base_offset for one, two in pairwise(rows)):
        return False  # The start has passed the gap; what lies before it is dropped first.
    row = PageRow(
        page_stem(write),
        rows[0].base_offset,
        rows[-1].next_offset,
        len(rows),
        sum(one.length for one in rows),
        min(one.min_timestamp for one in rows),
        max(one.max_timestamp for one in rows),
        max(one.appended_ms for one in rows),
    )
    intent = Intent(id_, "page", row.base_offset, row.next_offset, since_ms)
    yield from change_manifest(path, id_ + ":begin", lambda now: changes.begin(now, intent))
    yield from put_named(f"{path.prefix}{row.name}.json", encode_page(rows))
    after = yield from change_manifest(path, id_, lambda now: changes.page(now, id_, row, rows))
    return row in after.pages
