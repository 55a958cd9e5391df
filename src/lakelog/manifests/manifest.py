"""The manifest of a partition: which segments are its history.

    {"format": 1, "topic": "6f1c…", "partition": 3, "generation": 17,
     "sealed_end": 91000, "log_start": 20000, "cleaned_end": 0, "deleted": false, "burnt": false,
     "pages":    [["page-…", base, next, rows, bytes, min timestamp, max timestamp, appended]],
     "segments": [["segment-…", base, next, position, length, records, min timestamp,
                   max timestamp, appended, crc, codecs, generation]],
     "intents":  [["write id", "seal", base, next, since]],
     "dropped":  [["segment-…", since]],
     "writers":  ["write id", …]}

A segment is real only when a manifest names it. Names are those of objects beside the manifest,
without a suffix. Rows are in order of offset, and pages come before them: immutable objects that
hold older rows, so that the manifest stays small enough to be rewritten.

``sealed_end`` is a field of its own and never goes down, also when every segment has expired: the
journal below it is gone, and nothing else remembers it. ``log_start`` never goes down either, and
may be ahead of it. From ``log_start`` to ``sealed_end`` there is no gap.

Before ``cleaned_end`` every key has only its newest record, of those before it: compaction goes on
from there.

An intent says that somebody is writing objects for a range: it stands here before the first of
them, and a sweep leaves them alone. ``dropped`` are segments that were taken out; they are deleted
when every reader with an older manifest has finished. ``burnt``: an object with a plain name was
swept once, so that from then on every name carries its writer's id: a request to delete may arrive
late, and must not find a new object under the old name. ``writers`` are the last who changed it, by
which a writer finds its own change when the answer was lost.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from dataclasses import fields as fields_of
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from lakelog.errors import CorruptError
from lakelog.formats import Bytes, decode_fields, decoding, fitting, flag, number
from lakelog.store import CELL_BYTES_MAX

__all__ = [
    "ROWS_GOAL",
    "ROWS_MAX",
    "Dropped",
    "Intent",
    "Manifest",
    "PageRow",
    "SegmentRow",
    "decode_manifest",
    "decode_page",
    "encode_manifest",
    "encode_page",
]

FORMAT = 1
WRITERS_MAX = 16
ROWS_MAX = 512
"""A manifest with more rows than this should put the older ones on a page."""
ROWS_GOAL = 256
"""And keep so many."""


class SegmentRow(NamedTuple):
    """One segment, or a part of an object that is shared."""

    name: str
    base_offset: int
    next_offset: int
    position: int
    length: int
    records: int
    min_timestamp: int
    max_timestamp: int
    appended_ms: int
    """When the newest of it was appended, by the journal."""
    crc: int
    """CRC-32C of these bytes."""
    codecs: int
    """A bit for each codec of its batches."""
    generation: int
    """0 as sealed; one more for each rewriting."""


class PageRow(NamedTuple):
    """A page, and what its rows amount to."""

    name: str
    base_offset: int
    next_offset: int
    rows: int
    length: int
    min_timestamp: int
    max_timestamp: int
    appended_ms: int


class Intent(NamedTuple):
    """Somebody writes objects for these offsets."""

    write: str
    verb: str
    base_offset: int
    next_offset: int
    since_ms: int
    """By the store's clock."""


class Dropped(NamedTuple):
    """A segment that is no longer part of history."""

    name: str
    since_ms: int = 0
    """By the store's clock, and not before it was dropped. 0: nobody has noticed yet. Who drops it
    cannot know: a verb takes long, and its commit may arrive when the grace of its beginning is
    over, under the eyes of those who read the manifest just before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest. Each method returns the next one."""

    topic: bytes
    partition: int
    generation: int = 0
    sealed_end: int = 0
    log_start: int = 0
    cleaned_end: int = 0
    deleted: bool = False
    burnt: bool = False
    pages: tuple[PageRow, ...] = ()
    segments: tuple[SegmentRow, ...] = ()
    intents: tuple[Intent, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    writers: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        flaw = self._flaw()
        if flaw:
            raise _bad(f"partition {self.partition}: {flaw}")

    def _flaw(self) -> str:
        least = min(self.partition, self.sealed_end, self.log_start, self.cleaned_end)
        if len(self.topic) != 16 or least < 0 or self.cleaned_end > self.sealed_end:
            return f"topic {self.topic!r}, end {self.sealed_end}, start {self.log_start}"
        rows: tuple[PageRow | SegmentRow, ...] = (*self.pages, *self.segments)
        end, start, sealed_end = 0, self.log_start, self.sealed_end
        for row in rows:
            base, next_ = row[1], row[2]
            if not end <= base < next_ <= sealed_end:
                return f"{row.name} holds [{base}, {next_}) behind {end}"
            if base > end and base > start:
                return f"a gap before {row.name}, from {end}"
            end = next_
        if end < self.sealed_end and self.sealed_end > max(end, self.log_start):
            return f"it ends at {end}, before {self.sealed_end}"
        return ""

    def next(self, write: str, **changes: Any) -> "Manifest":
        """Return it with changes, as the next generation, by this writer."""
        writers = (*self.writers, write)[-WRITERS_MAX:]
        return replace(self, generation=self.generation + 1, writers=writers, **changes)

    def names(self) -> set[str]:
        """Return every object that it names, without suffixes."""
        rows: tuple[PageRow | SegmentRow | Dropped, ...]
        rows = (*self.pages, *self.segments, *self.dropped)
        return {row.name for row in rows}


# ---------------------------------------------------------------------------- bytes


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the bytes of a manifest."""
    fields = {
        "format": FORMAT,
        "topic": manifest.topic.hex(),
        "partition": manifest.partition,
        "generation": manifest.generation,
        "sealed_end": manifest.sealed_end,
        "log_start": manifest.log_start,
        "cleaned_end": manifest.cleaned_end,
        "deleted": manifest.deleted,
        "burnt": manifest.burnt,
        "pages": manifest.pages,
        "segments": manifest.segments,
        "intents": manifest.intents,
        "dropped": manifest.dropped,
        "writers": manifest.writers,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


_FIELDS = frozenset(one.name for one in fields_of(Manifest))
"""Each has its name in the cell."""


def decode_manifest(data: Bytes) -> Manifest:
    """Return the manifest in ``data``.

    Raises:
        CorruptError: it is none.
        UnsupportedError: a later version made it.
    """
    with decoding("manifest", "manifest"):
        fields = decode_fields(data, format_=FORMAT, where="manifest", known=_FIELDS)
        return Manifest(
            topic=bytes.fromhex(fields["topic"]),
            partition=number(fields["partition"]),
            generation=number(fields["generation"]),
            sealed_end=number(fields["sealed_end"]),
            log_start=number(fields["log_start"]),
            cleaned_end=number(fields.get("cleaned_end", 0)),
            deleted=flag(fields["deleted"]),
            burnt=flag(fields["burnt"]),
            pages=_rows(PageRow, fields["pages"]),
            segments=_rows(SegmentRow, fields["segments"]),
            intents=_rows(Intent, fields["intents"]),
            dropped=_rows(Dropped, fields["dropped"]),
            writers=tuple(map(str, fields["writers"])),
        )


def encode_page(rows: Iterable[SegmentRow]) -> bytes:
    """Return the bytes of a page.

    Raises:
        InvalidInputError: they would be more than are read.
    """
    fields = {"format": FORMAT, "segments": tuple(rows)}
    body = json.dumps(fields, separators=(",", ":")).encode()
    return fitting(body, CELL_BYTES_MAX, "a page", "put fewer rows on it")


def decode_page(data: Bytes) -> tuple[SegmentRow, ...]:
    """Return the rows of a page.

    Raises:
        CorruptError: it is none.
        UnsupportedError: a later version made it.
    """
    with decoding("page", "manifest"):
        fields = decode_fields(data, format_=FORMAT, where="manifest", known=("segments",))
        rows = _rows(SegmentRow, fields["segments"])
        if any(one.next_offset != two.base_offset for one, two in pairwise(rows)):
            raise _bad("the rows of a page do not follow each other: restore it from a backup")
    return rows


def _rows(kind: Any, rows: list[list[object]]) -> tuple[Any, ...]:
    if not rows:
        return ()
    # Column by column: a plan of a million segments goes through here.
    types = tuple(kind.__annotations__.values())
    for row in rows:
        if len(row) != len(types):
            raise ValueError(f"a row of {kind.__name__} is {row!r}"[:200])
    for type_, column in zip(types, zip(*rows, strict=True), strict=False):
        if set(map(type, column)) != {type_}:
            raise ValueError(f"a row of {kind.__name__} has another type than {type_.__name__}")
    return tuple(map(partial(tuple.__new__, kind), rows))


def _bad(what: str) -> CorruptError:
    return CorruptError(what, at=0, where="manifest")
