"""dump: every batch and record of any segment, as kafka-dump-log prints them."""

from dataclasses import dataclass, replace
from pathlib import PurePath

import click

from lakelog.cli.arguments import json_option
from lakelog.cli.dump.files import (
    SegmentFile,
    SideFile,
    open_segment,
    read_side,
    recognize_file,
)
from lakelog.cli.dump.find import Found, find
from lakelog.cli.dump.jsonl import JsonLines
from lakelog.cli.dump.reading import Fault, Shown, Wanted, read_segment
from lakelog.cli.dump.side import read_side_file
from lakelog.cli.dump.streams import (
    Output,
    Report,
    format_option,
    paths_argument,
    readable,
    streams,
)
from lakelog.cli.dump.text import TextLines
from lakelog.formats import Format

__all__ = ["dump"]


@click.command()
@paths_argument
@json_option
@click.option("--no-data", is_flag=True, help="Print batches only, without their records.")
@click.option(
    "--offset-from", type=click.IntRange(min=0), default=0, help="The first offset to print."
)
@click.option(
    "--offset-to",
    type=click.IntRange(min=0),
    help="The offset at which to stop; it is not printed.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help="Print at most so many records, or batches with --no-data.",
)
@click.option("--all-files", is_flag=True, help="Print the side files in directories as well.")
@format_option
def dump(
    paths: tuple[str, ...],
    as_json: bool,
    no_data: bool,
    offset_from: int,
    offset_to: int | None,
    limit: int | None,
    all_files: bool,
    given_format: Format | None,
) -> None:
    """Print every batch and record of segments: Kafka, KAFS, STRM and RustLog.

    PATH is a file, or a directory of which every segment is printed, in order of offset. The text
    is that of kafka-dump-log --print-data-log (--no-data: that without --print-data-log).

    Damage is reported on stderr and reading goes on behind it. Ends with 0 if all is valid, 1 if
    something is damaged, 2 if something could not be read at all.
    """
    wanted = Wanted(records=not no_data, offset_from=offset_from, offset_to=offset_to)
    with streams() as (output, report):
        lines = JsonLines() if as_json else TextLines()
        dumping = _Dump(lines=lines, output=output, report=report, wanted=wanted)
        left = limit
        for found in find(paths, refuse=report.refuse, say=report.say, all_files=all_files):
            if left == 0:
                break
            if not _is_within(found, wanted):
                continue
            with readable(found.path, report):
                file = recognize_file(found.path, given_format)
                if isinstance(file, SegmentFile):
                    left = dumping.segment(file, left)
                else:
                    dumping.side(file)
        report.close(paths, ["lakelog", "inspect", *paths])


def _is_within(found: Found, wanted: Wanted) -> bool:
    """Return whether a segment can hold what is asked for, going by its neighbours' names."""
    begin, end = found.base_offset, found.next_base_offset
    # Two segments of one base offset hold the same records; then neither name says where it ends.
    if begin is not None and end is not None and begin < end <= wanted.offset_from:
        return False
    if wanted.offset_to is None or begin is None:
        return True
    return begin < wanted.offset_to


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dump:
    """Where a dump goes, and what it is of."""

    lines: TextLines | JsonLines
    output: Output
    report: Report
    wanted: Wanted

    def side(self, file: SideFile) -> None:
        self.report.begin_file()
        self.output.write(self.lines.begin(file.path))
        for found in read_side_file(file, read_side(file.path)):
            if isinstance(found, Fault):
                self.fault(found)
            else:
                self.output.write(self.lines.entry(found, file.path))

    def segment(self, file: SegmentFile, left: int | None) -> int | None:
        """Print a segment, at most ``left`` records of it; return how many may still come."""
        self.report.begin_file()
        self.output.write(self.lines.begin_segment(file))
        seen = 0
        with open_segment(file) as opened:
            for found in read_segment(opened, self.wanted):
                if isinstance(found, Fault):
                    self.fault(found)
                    if found.is_end and file.format.name == "kafkalog":
                        name = PurePath(file.path).name
                        self.output.write(self.lines.trailing(found.size, name))
                    continue
                if left is not None:
                    found, left = self._cut(found, left)
                text = self.lines.batch(found)
                self.output.write(text + self.lines.records(found) if self.wanted.records else text)
                if left == 0:
                    break
                seen += found.count
                self.report.progress(file.path, found.position + found.size, opened.size, seen)
        return left

    def _cut(self, shown: Shown, left: int) -> tuple[Shown, int]:
        if not self.wanted.records:
            return shown, left - 1
        kept = shown.records[:left]
        return replace(shown, records=kept), left - len(kept)

    def fault(self, fault: Fault) -> None:
        text = self.lines.fault(fault)
        if text:
            self.output.write(text)
        self.report.fault(fault)
