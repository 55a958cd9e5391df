"""kafka-dump-log: what is in the files of a log, those of Kafka and those of lakelog.

Kafka's files are printed as Apache prints them. Segments of the other formats that ``lakelog dump``
reads get the same lines, and any of them may be the address of an object.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from lakelog.cli.dump.files import (
    HEAD_BYTES,
    SIDE_BYTES_MAX,
    SegmentFile,
    SideFile,
    recognize,
)
from lakelog.cli.dump.find import display_path
from lakelog.cli.dump.reading import Fault, Wanted, read_segment
from lakelog.cli.dump.side import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    Row,
    offset_entries,
    read_side_file,
    time_entries,
)
from lakelog.cli.dump.sources import Sources, is_remote
from lakelog.cli.dump.text import TextLines
from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats import kafkalog
from lakelog.records import HEADER_BYTES, BatchHeader, decode_header
from lakelog_kafka_tools.grammar import Options
from lakelog_kafka_tools.java import hash_order, parse_int, split, text_hash
from lakelog_kafka_tools.running import Console, check_required, start
from lakelog_kafka_tools.thrown import RUNTIME, Thrown, number_error

__all__ = ["run"]

_ABOUT = "Print what is in segments and their "
_DECODERS = (
    "offsets-decoder", "transaction-log-decoder", "cluster-metadata-decoder",
    "remote-log-metadata-decoder", "share-group-state-decoder",
)  # fmt: skip
_CLASSES = ("value-decoder-class", "key-decoder-class")
_STRINGS = "org.apache.kafka.tools.api.StringDecoder"
_EVERYTHING = (1 << 31) - 1
_CHECKPOINT = re.compile(r"(\d+)-(\d+)\.checkpoint")
_CORRUPT = "org.apache.kafka.storage.internals.log.CorruptIndexException"
_KAFKA = {".log", ".checkpoint", ".index", ".timeindex", ".snapshot", ".txnindex"}


def run(arguments: Sequence[str], console: Console) -> int:
    """Run the tool."""
    options = start("kafka-dump-log", arguments, console, _ABOUT)
    check_required(options, console, "files")
    dumping = _Dumping(options, console)
    for path in split(options.text("files"), ","):
        dumping.file(path if is_remote(path) else display_path(path))
    dumping.report()
    return 0


class _TimeTrouble(NamedTuple):
    """Something that is wrong with an entry of a time index."""

    kind: str
    """mismatch, order or missing."""
    entry: int
    found: int


@dataclass(slots=True)
class _Dumping:
    """Prints files, and remembers what is to be reported at the end."""

    options: Options
    console: Console
    sources: Sources = field(default_factory=Sources)
    mismatches: dict[str, dict[int, int]] = field(default_factory=dict)
    times: dict[str, list[_TimeTrouble]] = field(default_factory=dict)
    gaps: dict[str, dict[int, int]] = field(default_factory=dict)

    def file(self, path: str) -> None:
        """Print a file."""
        self.console.say(f"Dumping {path}")
        name = path.rpartition("/")[2]
        suffix = f".{name.rpartition('.')[2]}" if "." in name else ""
        if suffix in (".log", ".checkpoint"):
            self._log(path, name)
        elif suffix in (".index", ".timeindex") and not self._is_other(path):
            self._index(path, by_time=suffix == ".timeindex")
        elif suffix in _KAFKA or (suffix and self._is_other(path)):
            self._recognized(path)
        else:
            self.console.say_error(f"Ignoring unknown file {path}")

    def _is_other(self, path: str) -> bool:
        """Say whether a file is of a format that Kafka does not know."""
        try:
            return self._recognize(path).format is not kafkalog.FORMAT
        except (InvalidInputError, Thrown):
            return False

    def _recognize(self, path: str) -> SegmentFile | SideFile:
        log_head = b""
        with suppress(Thrown):
            log_head = self.sources.read(f"{path.rpartition('.')[0]}.log", 0, HEAD_BYTES)
        return recognize(path, self.sources.read(path, 0, HEAD_BYTES), log_head=log_head)

    # ------------------------------------------------------------------------ logs

    def _log(self, path: str, name: str) -> None:
        most = self.options.number("max-bytes", _EVERYTHING)
        assert most is not None
        self._check_decoders()
        if name.endswith(".log"):
            self.console.say(f"Log starting offset: {_base_offset(name)}")
        elif name == "bootstrap.checkpoint":
            self.console.say("KRaft bootstrap snapshot")
        elif found := _CHECKPOINT.fullmatch(name):
            end, epoch = int(found[1]), int(found[2])
            self.console.say(f"Snapshot end offset: {end}, epoch: {epoch}")
        head = self.sources.read(path, 0, HEAD_BYTES)
        if not head:
            return
        given = kafkalog.FORMAT if name.endswith(".checkpoint") else None
        file = recognize(path, head, given=given)
        assert isinstance(file, SegmentFile)
        self._segment(file, most)

    def _segment(self, file: SegmentFile, most: int) -> None:
        contents = self.options.has("print-data-log", *_DECODERS, *_CLASSES)
        deep = contents or self.options.has("deep-iteration")
        metadata = not self.options.has("skip-record-metadata")
        lines = TextLines(contents=contents, metadata=metadata)
        last, end = -1, 0
        opened = self.sources.segment(file)
        for found in read_segment(opened, Wanted(records=deep)):
            if isinstance(found, Fault):
                if not found.is_end:
                    end = max(end, found.position + found.size)
                    self.console.log("WARN", f"{found.path} at byte {found.position}: {found.what}")
                continue
            if found.position + found.size > most:
                break
            end = found.position + found.size
            self.console.put(lines.batch(found))
            if deep:
                self.console.put(lines.records(found))
                for record in found.records:
                    if record.offset != last + 1:
                        self.gaps.setdefault(_absolute(file.path), {})[last] = record.offset
                    last = record.offset
        # A tail of zeros is none that lakelog minds: a broker may have made room ahead of time.
        if end < opened.size and most == _EVERYTHING and file.format is kafkalog.FORMAT:
            name = file.path.rpartition("/")[2]
            self.console.put(lines.trailing(opened.size - end, name))

    def _check_decoders(self) -> None:
        for name in _DECODERS:
            if self.options.has(name):
                raise Thrown(
                    "java.lang.UnsupportedOperationException",
                    f"--{name} is not supported here: use --print-data-log, or Apache's own tool",
                )
        for name in _CLASSES:
            kind = self.options.value(name, _STRINGS)
            if kind != _STRINGS:
                cause = Thrown("java.lang.ClassNotFoundException", kind)
                raise Thrown(RUNTIME, "Failed to load decoder class", cause=cause)

    def _recognized(self, path: str) -> None:
        found = self._recognize(path)
        if isinstance(found, SegmentFile):
            self.console.say(f"Log starting offset: {found.base_offset}")
            self._segment(found, self.options.number("max-bytes", _EVERYTHING) or 0)
            return
        for entry in read_side_file(found, self.sources.read(path, 0, SIDE_BYTES_MAX + 1)):
            if isinstance(entry, Fault):
                self.console.say_error(entry.what)
            elif entry.text:
                self.console.say(entry.text)

    # ------------------------------------------------------------------------ indexes

    def _index(self, path: str, *, by_time: bool) -> None:
        folder, slash, name = path.rpartition("/")
        base = _base_offset(name)
        stem = f"{folder}{slash}{name.partition('.')[0]}"
        log, absolute = f"{stem}.log", _absolute(path)
        self.sources.size(_absolute(log))
        data = self.sources.read(path, 0, SIDE_BYTES_MAX)
        if not by_time and len(data) < OFFSET_ENTRY_BYTES:
            self.console.say(f"{path} is empty.")
            return
        if self.options.has("index-sanity-check"):
            _check_sanity(data, absolute, by_time=by_time)
            self.console.say(f"{path} passed sanity check.")
            return
        if by_time:
            times = list(time_entries(data, base))
            index = self.sources.read(f"{stem}.index", 0, SIDE_BYTES_MAX)
            offsets = list(offset_entries(index, base))
            for trouble in _time_trouble(self.sources, log, times, offsets):
                self.times.setdefault(absolute, []).append(trouble)
            text = [f"timestamp: {timestamp} offset: {offset}" for _, timestamp, offset in times]
        else:
            text = []
            for _, offset, position in offset_entries(data, base):
                text.append(f"offset: {offset} position: {position}")
                found = next(_batches(self.sources, log, position), None)
                last = -1 if found is None else found.next_offset - 1
                if last != offset:
                    self.mismatches.setdefault(absolute, {})[offset] = last
        if not self.options.has("verify-index-only"):
            for line in text:
                self.console.say(line)

    # ------------------------------------------------------------------------ the end

    def report(self) -> None:
        """Report what was found to be wrong."""
        say = self.console.say_error
        for path in hash_order(self.mismatches, text_hash):
            say(f"Mismatches in :{path}")
            for offset, last in sorted(self.mismatches[path].items(), reverse=True):
                say(f"  Index offset: {offset}, log offset: {last}")
        for kind, title, line in (
            (
                "mismatch",
                "Found timestamp mismatch in :",
                "  Index timestamp: {}, log timestamp: {}",
            ),
            (
                "order",
                "Found out of order timestamp in :",
                "  Index timestamp: {}, Previously indexed timestamp: {}",
            ),
            (
                "missing",
                "The following indexed offsets are not found in :",
                "Indexed offset: {}, found log offset: {}",
            ),
        ):
            for path in hash_order(self.times, text_hash):
                found = [one for one in self.times[path] if one.kind == kind]
                if found:
                    say(f"{title}{path}")
                for one in found:
                    say(line.format(one.entry, one.found))
        for path in hash_order(self.gaps, text_hash):
            say(f"Non-consecutive offsets in {path}")
            for before, after in sorted(self.gaps[path].items()):
                say(f"  {before} is followed by {after}")


def _base_offset(name: str) -> int:
    stem = name.partition(".")[0]
    number = parse_int(stem, 64)
    if number is None:
        raise number_error(stem)
    return number


def _absolute(path: str) -> str:
    return path if is_remote(path) else os.path.abspath(path)  # noqa: PTH100 (as Java does it)


# ---------------------------------------------------------------------------- indexes and logs


def _check_sanity(data: bytes, path: str, *, by_time: bool) -> None:
    """Check what a broker checks when it starts.

    Raises:
        Thrown: it would rebuild the index.
    """
    size = TIME_ENTRY_BYTES if by_time else OFFSET_ENTRY_BYTES
    name = f"Time index file {path}" if by_time else f"Index file {path}"
    if by_time and len(data) >= size:
        # Those that are not filled yet count as well, in Kafka's own check.
        at = len(data) // size * size - size
        first, last = int.from_bytes(data[:8]), int.from_bytes(data[at : at + 8])
        if last < first:
            raise Thrown(
                _CORRUPT,
                f"Corrupt time index found, time index file ({path}) has non-zero size but the last"
                f" timestamp is {last} which is less than the first timestamp {first}",
            )
    if len(data) % size:
        raise Thrown(
            _CORRUPT,
            f"{name} is corrupt, found {len(data)} bytes which is neither positive nor a multiple"
            f" of {size}",
        )


def _batches(sources: Sources, log: str, position: int) -> Iterator[BatchHeader]:
    """Yield the headers of the batches from a position on, as far as they can be read."""
    while True:
        try:
            header = decode_header(sources.read(log, position, position + HEADER_BYTES))
        except (CorruptError, UnsupportedError):
            return
        yield header
        position += header.size


def _time_trouble(
    sources: Sources, log: str, entries: list[Row], offsets: list[Row]
) -> Iterator[_TimeTrouble]:
    """Yield what is wrong with the entries of a time index, in their order."""
    previous = -1
    for _, timestamp, offset in entries:
        known = (at for _, before, at in offsets if before <= offset and at > 0)
        position = max(known, default=0)
        found = next(
            (one for one in _batches(sources, log, position) if one.next_offset > offset), None
        )
        last = -1 if found is None else found.next_offset - 1
        if found is None or last != offset:
            yield _TimeTrouble("missing", offset, last)
        else:
            if found.max_timestamp != timestamp:
                yield _TimeTrouble("mismatch", timestamp, found.max_timestamp)
            if previous >= timestamp:
                yield _TimeTrouble("order", timestamp, previous)
        previous = timestamp
