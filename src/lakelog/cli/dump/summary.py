"""What is known of a segment after reading it, or of all segments below a path: one line."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lakelog.cli.dump.jsonl import as_json
from lakelog.cli.dump.reading import Shown
from lakelog.model import TimestampType

__all__ = ["TOTAL", "Summary", "title"]

TOTAL = "total"
"""In place of a format, where segments are summed up."""

_NAMES_WIDTH = 11
_COLUMNS = (
    ("FORMAT", "<8"),
    ("BASE", ">12"),
    ("NEXT", ">12"),
    ("RECORDS", ">11"),
    ("BATCHES", ">9"),
    ("BYTES", ">13"),
    ("CODECS", f"<{_NAMES_WIDTH}"),
    ("EARLIEST", "<24"),
    ("LATEST", "<24"),
    ("PRODUCERS", ">9"),
    ("INDEX", ">7"),
    ("DAMAGE", ">6"),
    ("FILE", "<1"),
)


@dataclass(slots=True, kw_only=True)
class Summary:
    """What was seen of a segment, or of all below a path."""

    name: str
    format: str
    base_offset: int | None = None
    next_offset: int | None = None
    segments: int = 0
    records: int = 0
    batches: int = 0
    size: int = 0
    codecs: set[str] = field(default_factory=set)
    min_timestamp: int | None = None
    max_timestamp: int | None = None
    producers: set[int] = field(default_factory=set)
    index_entries: int = 0
    damage: int = 0

    def saw(self, shown: Shown) -> None:
        self.batches += 1
        self.records += len(shown.records) or shown.count
        self.next_offset = shown.next_offset
        header = shown.header
        if header is None:
            self._saw_times(record.timestamp for record in shown.records)
            return
        self.codecs.add(header.codec.name.lower())
        if header.producer_id >= 0:
            self.producers.add(header.producer_id)
        if shown.records:
            self._saw_times(record.timestamp for record in shown.records)
        elif header.count:
            is_first = header.timestamp_type is TimestampType.CREATE_TIME
            if is_first and header.delete_horizon is None:
                self._saw_times((header.base_timestamp,))
            self._saw_times((header.max_timestamp,))

    def _saw_times(self, timestamps: Iterable[int]) -> None:
        for timestamp in timestamps:
            if timestamp < 0:
                continue
            if self.min_timestamp is None or timestamp < self.min_timestamp:
                self.min_timestamp = timestamp
            if self.max_timestamp is None or timestamp > self.max_timestamp:
                self.max_timestamp = timestamp

    def add(self, other: "Summary") -> None:
        self.segments += other.segments
        self.records += other.records
        self.batches += other.batches
        self.size += other.size
        self.codecs |= other.codecs
        self.producers |= other.producers
        self.index_entries += other.index_entries
        self.damage += other.damage
        for timestamp in (other.min_timestamp, other.max_timestamp):
            self._saw_times(() if timestamp is None else (timestamp,))

    def as_text(self) -> str:
        return _row(
            self.format,
            "-" if self.base_offset is None else self.base_offset,
            "-" if self.next_offset is None else self.next_offset,
            self.records,
            self.batches,
            self.size,
            _few(sorted(self.codecs)),
            _time(self.min_timestamp),
            _time(self.max_timestamp),
            len(self.producers),
            self.index_entries,
            self.damage,
            self.name,
        )

    def as_json(self) -> str:
        is_total = self.format == TOTAL
        fields: dict[str, object] = {"kind": TOTAL if is_total else "segment", "file": self.name}
        if is_total:
            fields["segments"] = self.segments
        else:
            fields |= {
                "format": self.format,
                "base_offset": self.base_offset,
                "next_offset": self.next_offset,
            }
        fields |= {
            "records": self.records,
            "batches": self.batches,
            "size": self.size,
            "codecs": sorted(self.codecs),
            "min_timestamp": self.min_timestamp,
            "max_timestamp": self.max_timestamp,
            "producers": len(self.producers),
            "index_entries": self.index_entries,
            "damage": self.damage,
        }
        return as_json(fields)


def title() -> str:
    """Return the line above the others."""
    return _row(*(name for name, _ in _COLUMNS))


def _few(names: list[str]) -> str:
    """As many names as the column holds; rows are printed as they come, so it cannot grow."""
    text = ",".join(names) or "-"
    return text if len(text) <= _NAMES_WIDTH else f"{names[0]}+{len(names) - 1}"


def _row(*cells: object) -> str:
    padded = (f"{cell!s:{width}}" for cell, (_, width) in zip(cells, _COLUMNS, strict=True))
    return " ".join(padded).rstrip() + "\n"


def _time(timestamp: int | None) -> str:
    if timestamp is None:
        return "-"
    with suppress(OverflowError, ValueError, OSError):
        moment = datetime.fromtimestamp(timestamp // 1000, UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp % 1000:03}Z"
    return f"{timestamp}"
