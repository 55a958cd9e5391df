"""inspect: one line per segment: what is inside, and is it whole.

Every byte is checked, as `dump` would. With --quick the records inside batches are left out; the
earliest time is then that of the first record of some batch, since only the records tell whether a
later one was earlier.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import click

from lakelog.cli.arguments import json_option
from lakelog.cli.dump.files import OpenSegment, SegmentFile, open_segment, recognize_file
from lakelog.cli.dump.find import find
from lakelog.cli.dump.jsonl import as_json as json_line
from lakelog.cli.dump.reading import Fault, Shown, Wanted, read_segment
from lakelog.cli.dump.streams import Report, format_option, paths_argument, readable, streams
from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats import Format, Range, batches, run, strm
from lakelog.model import TimestampType

__all__ = ["Summary", "inspect"]

_STRM_HEADER_BYTES = 64
_RUSTLOG_ENTRY_BYTES = 16

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


@click.command()
@paths_argument
@json_option
@click.option("--quick", is_flag=True, help="Do not look inside batches.")
@format_option
def inspect(
    paths: tuple[str, ...], as_json: bool, quick: bool, given_format: Format | None
) -> None:
    """Show what segments hold, one line each: offsets, records, times, and whether they are whole.

    PATH is a file, or a directory of which every segment is looked at; a line with the total
    follows. Ends with 0 if all is valid, 1 if something is damaged, 2 if something could not be
    read at all.
    """
    with streams() as (output, report):
        totals: dict[str, Summary] = {}
        if not as_json:
            output.write(_row(*(name for name, _ in _COLUMNS)))
        for found in find(paths, refuse=report.refuse, say=report.say):
            with readable(found.path, report):
                file = recognize_file(found.path, given_format)
                # Side files are looked at together with their segment.
                if isinstance(file, SegmentFile):
                    summary = _summarize(file, report, quick)
                    output.write(summary.as_json() if as_json else summary.as_text())
                    total = totals.setdefault(found.root, Summary(name=found.root, format=TOTAL))
                    total.add(summary)
        for total in totals.values():
            if total.segments > 1:
                output.write(total.as_json() if as_json else total.as_text())
        report.close(paths, ["lakelog", "dump", *list(report.damaged)[:1]])


def _summarize(file: SegmentFile, report: Report, quick: bool) -> "Summary":
    report.begin_file()
    with open_segment(file) as opened:
        summary = Summary(
            name=file.path,
            format=file.format.name,
            base_offset=file.base_offset,
            segments=1,
            size=opened.size,
        )
        for found in read_segment(opened, Wanted(records=not quick)):
            if isinstance(found, Fault):
                summary.damage += 1
                report.fault(found)
            elif not found.is_damaged:
                summary.saw(found)
                done = found.position + found.size
                report.progress(file.path, done, opened.size, summary.records)
        _look_at_index(opened, summary)
    return summary


def _look_at_index(opened: OpenSegment, summary: "Summary") -> None:
    """Count index entries, and find the codec of a format whose blocks do not tell."""
    row = opened.file.format
    if row.name == "rustlog":
        summary.codecs.add("none")
        summary.index_entries = opened.files.sizes.get(".index", 0) // _RUSTLOG_ENTRY_BYTES
        return
    # Whatever is wrong here has been reported by the walk.
    with suppress(CorruptError, UnsupportedError):
        if row.name == "strm":
            head = opened.give(Range(row.suffix, 0, _STRM_HEADER_BYTES))
            summary.codecs.add(strm.decode_header(head).codec.name.lower())
        segment = run(row.open(opened.files), opened.give)
        if isinstance(segment, batches.BatchSegment):
            summary.index_entries = 0 if segment.index is None else len(segment.index)
        elif isinstance(segment, strm.StrmSegment):
            summary.index_entries = len(segment.entries)


# ---------------------------------------------------------------------------- summaries


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
        return json_line(fields)


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
