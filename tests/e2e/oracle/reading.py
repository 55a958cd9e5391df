"""A partition's directory as lakelog sees it, in a form that can be held against other readers.

A row has the fields of the Java consumer's record in its order, so lists of rows are compared as
they are. Both codecs are here: the plain one by way of the format's walk, and the compiled one on
the pieces of the same files.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from lakelog.formats.batches import BatchSegment, Frame, Piece, frames, pieces
from lakelog.formats.contract import Damage, Files, Range, drive_items, run, walk_blocks
from lakelog.formats.kafkalog import FORMAT, parse_directory_name
from lakelog.model import Record
from lakelog.records import HEADER_BYTES, Batch, BatchHeader, decode_records
from tests.kafka_files import LogDirectory, plan_directory
from tests.parts import kafka
from tests.shorthands import decode_columns

__all__ = ["Partition", "Row", "difference", "java_rows"]

Row: TypeAlias = tuple[
    int, int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]
]
"""Partition, offset, timestamp, timestamp type, key, value, headers."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One directory; ``active`` when a broker was writing to it."""

    folder: Path
    active: bool

    @property
    def number(self) -> int:
        named = parse_directory_name(self.folder.name)
        assert named is not None, self.folder
        return named[1]

    def plan(self) -> LogDirectory:
        entries = ((path.name, path.stat().st_size) for path in self.folder.iterdir())
        return plan_directory(entries, active=self.active)

    def data(self, files: Files, suffix: str = ".log") -> bytes:
        return (self.folder / f"{files.base_offset:020}{suffix}").read_bytes()

    def give(self, files: Files) -> Callable[[Range], bytes]:
        """Bytes from the files of a segment, for whoever asks for ranges of them."""

        def give(wish: Range) -> bytes:
            with (self.folder / f"{files.base_offset:020}{wish.suffix}").open("rb") as file:
                file.seek(wish.start)
                return file.read(wish.end - wish.start)

        return give

    def open(self, files: Files) -> BatchSegment:
        segment = run(FORMAT.open(files), self.give(files))
        assert isinstance(segment, BatchSegment)
        return segment

    def blocks(self, files: Files) -> Iterator[tuple[BatchHeader, tuple[Record, ...]]]:
        """Yield every batch of a segment; damage of any kind raises."""
        for found in walk_blocks(FORMAT.walk(files), self.give(files)):
            if isinstance(found, Damage):
                raise found.error
            assert found.header is not None
            yield found.header, found.records

    def rows(self) -> list[Row]:
        """Return what a consumer sees, by the plain codec."""
        number = self.number
        return [
            (number, r.offset, r.timestamp, int(header.timestamp_type), r.key, r.value, r.headers)
            for files in self.plan().segments
            for header, records in self.blocks(files)
            if not header.is_control
            for r in records
        ]

    def compiled_rows(self) -> list[Row]:
        """Return what a consumer sees, by the compiled codec."""
        rows: list[Row] = []
        for files in self.plan().segments:
            for piece in self._pieces(files):
                for batch in decode_columns(piece.data):
                    rows += _rows(self.number, batch)
        return rows

    def _pieces(self, files: Files) -> Iterator[Piece]:
        return drive_items(pieces(self.open(files).run), self.give(files))

    def frames(self, files: Files) -> list[Frame]:
        return list(frames(self.data(files)))

    def batches(self, files: Files) -> Iterator[Batch]:
        """Yield the batches of a closed segment, with no more records than producers' state needs.

        That is, those of control batches.
        """
        data = self.data(files)
        for position, header in frames(data):
            body = data[position + HEADER_BYTES : position + header.size]
            records = decode_records(header, body) if header.is_control else ()
            yield Batch(header=header, records=records)


def _rows(partition: int, batch: pa.RecordBatch) -> Iterator[Row]:
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    columns = [
        batch.column(name).to_pylist()
        for name in ("offset", "timestampType", "key", "value", "headers")
    ]
    for time, offset, kind, key, value, headers in zip(times, *columns, strict=True):
        pairs = tuple([(pair["key"], pair["value"]) for pair in headers or ()])
        yield partition, offset, time // 1000, kind, key, value, pairs


def java_rows(seen: Sequence[kafka.Record]) -> list[Row]:
    """Return what the Java consumer saw."""
    return [
        (r.partition, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers)
        for r in seen
    ]


def difference(found: Sequence[Row], expected: Sequence[Row]) -> str | None:
    """Return the first difference, in words, because a diff of a million rows helps nobody."""
    for number, (one, other) in enumerate(zip(found, expected, strict=False)):
        if one != other:
            return f"row {number} of {len(found)} is {one}, expected {other}"
    if len(found) != len(expected):
        return f"{len(found)} rows, expected {len(expected)}"
    return None
