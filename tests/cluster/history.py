"""What clients of a cluster did and were told, as one history.

Each worker writes a diary, a JSON array in each line, by one write, so that a kill cuts none:

    ["sent", at, producer, number, partition]
    ["acked", at, producer, number, partition, offset]
    ["refused", at, producer, number, error]         the application was told that it failed
    ["polled", begun, at, reader, {partition: [[offset, "producer:number"]]}]
    ["read", at, reader, partition, offset, "producer:number"]       a poll of one record
    ["committed", begun, at, group, {partition: offset}]     a commit that was acknowledged
    ["fetched", begun, at, group, {partition: offset}]       what the coordinator said; -1: nothing
    ["scanned", begun, at, who, {partition: [[offset, text]]}]   all that Spark reads of a topic
    ["starts", begun, at, who, {partition: offset}]  where partitions begin, as ListOffsets says
    ["ends", begun, at, who, {partition: offset}]    where they end
    ["assigned", at, reader, [partition]]            ["revoked", at, reader, [partition]]
    ["error", at, who, what]                         anything else that reaches an application
    ["quiet", at, who]                               it sends no more, and all is answered

Times are seconds of the machine's monotonic clock, which is the same in all processes. A reader is
called ``group/name``, and ``/name`` if it is in none. A partition is a number that nothing else has
in this history: whoever makes a topic anew gives its partitions new numbers. ``operations`` writes
all of it in Jepsen's shape.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

__all__ = [
    "Acked",
    "Bound",
    "Committed",
    "Diary",
    "Fetched",
    "History",
    "Read",
    "Scan",
    "Sent",
    "producer_of",
    "value_of",
]

STORE = "/store"
"""Who reads the store at the end, without a broker."""

DEFINITE = frozenset(
    {"INVALID_RECORD", "MSG_SIZE_TOO_LARGE", "RecordTooLargeException", "InvalidRecordException"}
)
"""Errors after which a record is not stored, and never will be. Of all others that is not known."""


def value_of(producer: str, number: int) -> str:
    """Return what a record says: no two say the same."""
    return f"{producer}:{number}"


def producer_of(value: str) -> str:
    """Return who has sent a record."""
    return value.rpartition(":")[0]


class Sent(NamedTuple):
    at: float
    partition: int


class Acked(NamedTuple):
    at: float
    partition: int
    offset: int | None
    """None: librdkafka was told of a later batch, and takes it that this one is stored as well."""


class Read(NamedTuple):
    at: float
    reader: str
    partition: int
    offset: int
    value: str
    poll: int = 0
    """Records of one poll have the same number, later polls of a reader a higher one."""
    stint: int = 0
    """Rises when the reader is given the partition, or has it taken: it may go back then."""
    begun: float = 0.0
    """When the poll began."""

    @property
    def group(self) -> str:
        """The group of the reader; empty: it is in none."""
        return self.reader.partition("/")[0]


class Committed(NamedTuple):
    """An acknowledged commit of one partition."""

    begun: float
    at: float
    group: str
    partition: int
    offset: int


class Fetched(NamedTuple):
    """What a coordinator said of one partition; -1: nothing is committed."""

    begun: float
    at: float
    group: str
    partition: int
    offset: int


class Bound(NamedTuple):
    """Where a partition begins, or ends, as somebody was told."""

    begun: float
    at: float
    who: str
    partition: int
    offset: int


class Scan(NamedTuple):
    """All that somebody read of a topic at once, without a broker."""

    begun: float
    at: float
    who: str
    rows: Mapping[int, list[tuple[int, str]]]
    """By partition: offsets and what records say, in order."""


@dataclass
class History:
    """What all of them saw."""

    sent: dict[str, Sent] = field(default_factory=dict)
    """By what a record says."""
    acked: dict[str, Acked] = field(default_factory=dict)
    acked_twice: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """Why, by what a record says."""
    reads: list[Read] = field(default_factory=list)
    scans: list[Scan] = field(default_factory=list)
    commits: list[Committed] = field(default_factory=list)
    fetches: list[Fetched] = field(default_factory=list)
    starts: list[Bound] = field(default_factory=list)
    ends: list[Bound] = field(default_factory=list)
    assignments: list[tuple[float, str, tuple[int, ...]]] = field(default_factory=list)
    errors: list[tuple[float, str, str]] = field(default_factory=list)
    quiet: set[str] = field(default_factory=set)
    polls: int = 0
    _stints: Counter[tuple[str, int]] = field(default_factory=Counter)

    @property
    def failed(self) -> set[str]:
        """What was refused in a way that says that it is not stored."""
        return {value for value, why in self.refused.items() if why in DEFINITE}

    def take(self, line: list[Any]) -> None:
        """Note one line of a diary."""
        match line:
            case ["sent", at, producer, number, partition]:
                self.sent[value_of(producer, number)] = Sent(at, partition)
            case ["acked", at, producer, number, partition, offset]:
                value = value_of(producer, number)
                if value in self.acked:
                    self.acked_twice.append(value)
                self.acked[value] = Acked(at, partition, offset)
            case ["refused", at, producer, number, why]:
                self.refused[value_of(producer, number)] = why
                self.errors.append((at, producer, why))
            case ["polled", begun, at, reader, rows]:
                self.polls += 1
                for key, records in rows.items():
                    self._read(begun, at, reader, int(key), records)
            case ["read", at, reader, partition, offset, value]:
                self.polls += 1
                self._read(at, at, reader, partition, [[offset, value]])
            case ["scanned", begun, at, who, partitions]:
                scanned = {int(key): [(o, text) for o, text in r] for key, r in partitions.items()}
                self.scans.append(Scan(begun, at, who, scanned))
            case ["committed", begun, at, group, offsets]:
                rows = _offsets(offsets)
                self.commits += [Committed(begun, at, group, *row) for row in rows]
            case ["fetched", begun, at, group, offsets]:
                self.fetches += [Fetched(begun, at, group, *row) for row in _offsets(offsets)]
            case ["starts", begun, at, who, offsets]:
                self.starts += [Bound(begun, at, who, *row) for row in _offsets(offsets)]
            case ["ends", begun, at, who, offsets]:
                self.ends += [Bound(begun, at, who, *row) for row in _offsets(offsets)]
            case ["assigned", at, reader, partitions]:
                self.assignments.append((at, reader, tuple(partitions)))
                self._stints.update((reader, one) for one in partitions)
            case ["revoked", _, reader, partitions]:
                self._stints.update((reader, one) for one in partitions)
            case ["error", at, who, what]:
                self.errors.append((at, who, what))
            case ["quiet", _, who]:
                self.quiet.add(who)
            case _:
                raise ValueError(f"no line of a diary: {line!r}")

    def _read(
        self, begun: float, at: float, reader: str, partition: int, rows: list[list[Any]]
    ) -> None:
        stint = self._stints[reader, partition]
        self.reads += [
            Read(at, reader, partition, offset, value, self.polls, stint, begun)
            for offset, value in rows
        ]

    def seen_by(self, group: str) -> set[str]:
        """Return what the members of a group have read so far."""
        return {one.value for one in self.reads if one.group == group}

    def error_kinds(self) -> dict[str, int]:
        """Return how often each error has reached an application."""
        return dict(Counter(what for _, _, what in self.errors))


def _offsets(offsets: Mapping[str, int]) -> list[tuple[int, int]]:
    return [(int(partition), offset) for partition, offset in offsets.items()]


class Diary:
    """Where a worker writes what it sees, and whoever reads it while it is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None
        self._read_to = 0

    @staticmethod
    def now() -> float:
        """Return the time, as all diaries tell it."""
        return time.monotonic()

    def write(self, *line: object) -> None:
        """Write a line."""
        self.write_all([line])

    def write_all(self, lines: Iterable[tuple[object, ...]]) -> None:
        """Write some lines, all of them or none."""
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        os.write(self._file, text.encode())

    def read_into(self, history: History) -> None:
        """Note what was written since the last time."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read_to)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read_to += len(whole)
        for line in whole.splitlines():
            history.take(json.loads(line))

    def lines(self) -> Iterator[list[Any]]:
        """Yield all that was written."""
        if self.path.exists():
            yield from map(json.loads, self.path.read_bytes().splitlines())
