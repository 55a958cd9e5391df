"""inspect: one line per segment: what is inside, and is it whole.

Every byte is checked, as `dump` would. With --quick the records inside batches are left out; the
earliest time is then that of the first record of some batch, since only the records tell whether a
later one was earlier.
"""

from contextlib import suppress

import click

from lakelog.cli.arguments import (
    format_option,
    json_option,
    paths_argument,
    readable,
    streams,
)
from lakelog.cli.dump.files import OpenSegment, open_segment, recognize_file
from lakelog.cli.dump.find import find
from lakelog.cli.dump.reading import Fault, Wanted, read_segment
from lakelog.cli.dump.recognize import SegmentFile
from lakelog.cli.dump.summary import TOTAL, Summary, title
from lakelog.cli.report import Report
from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats import FORMATS, Range, batches, run, strm

__all__ = ["inspect"]

_STRM_HEADER_BYTES = 64
_RUSTLOG_ENTRY_BYTES = 16


@click.command()
@paths_argument
@json_option
@click.option("--quick", is_flag=True, help="Do not look inside batches.")
@format_option
def inspect(paths: tuple[str, ...], as_json: bool, quick: bool, told: str | None) -> None:
    """Say what segments hold, one line each: offsets, records, times, and whether they are whole.

    PATH is a file, or a directory of which every segment is looked at; a line with the total
    follows. Ends with 0 if all is valid, 1 if something is damaged, 2 if something could not be
    read at all.
    """
    with streams() as (output, report):
        totals: dict[str, Summary] = {}
        if not as_json:
            output.write(title())
        for found in find(paths, refuse=report.refuse, say=report.say):
            with readable(found.path, report):
                file = recognize_file(found.path, FORMATS[told] if told else None)
                # Side files are looked at together with their segment.
                if isinstance(file, SegmentFile):
                    summary = _summarize(file, report, quick)
                    output.write(summary.as_json() if as_json else summary.as_text())
                    total = totals.setdefault(found.root, Summary(name=found.root, format=TOTAL))
                    total.add(summary)
        for total in totals.values():
            if total.segments > 1:
                output.write(total.as_json() if as_json else total.as_text())
        if not report.files and not report.unread:
            report.refuse(f"no segments in {', '.join(paths)}")
        report.close(["lakelog", "dump", *list(report.damaged)[:1]])


def _summarize(file: SegmentFile, report: Report, quick: bool) -> Summary:
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


def _look_at_index(opened: OpenSegment, summary: Summary) -> None:
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
