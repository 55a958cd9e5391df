"""verify --against: two sides that should hold the same records, compared record by record.

Work is cut along the segments of the first side. Each unit reads one of them, and of the other side
the offsets from there up to the next segment, so records that only the other side has are found as
well, before the first segment and behind the last.

Columns that one of the two sides cannot hold (RustLog has no keys) are not compared, and the plan
says which are.

Two places that hold nothing do not hold the same: a topic that neither side has is missing. One
that a namespace has, and that has no records yet, is empty.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from lakelog.catalog import list_topics
from lakelog.errors import CorruptError, UnsupportedError
from lakelog.flows import Items, asked_for
from lakelog.names import topic_key
from lakelog.pipeline.frame import (
    SOURCE,
    Connect,
    FindingCollector,
    Plan,
    Result,
    SourceJob,
    Step,
    StoreRequest,
    Subject,
)
from lakelog.pipeline.listing import missing_results
from lakelog.pipeline.sides import (
    LIVE,
    Piece,
    Stream,
    carries_of,
    expected_reads,
    list_pieces,
    object_of,
    read_piece,
)
from lakelog.ports import Host
from lakelog.records import OFFSET_MAX
from lakelog.segments import NAMESPACE
from lakelog.store import StoreSpec, run

__all__ = ["Compare", "Pair"]

AGAINST = "against"
"""The name of the other store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One piece of the first side, and the pieces of the other that reach into its offsets."""

    topic: str
    partition: int
    offset_from: int
    offset_to: int
    left: Piece | None
    right: tuple[Piece, ...]

    @property
    def size(self) -> int:
        return self.left.size if self.left else sum(piece.size for piece in self.right)

    @property
    def object(self) -> str:
        return object_of(self.left or self.right[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(SourceJob):
    """Compare the records of two sides."""

    layout: str
    against: StoreSpec
    against_layout: str
    host: Host

    verb = "compare"

    @property
    def stores(self) -> Mapping[str, StoreSpec]:
        return {SOURCE: self.source, AGAINST: self.against}

    @property
    def columns(self) -> tuple[str, ...]:
        """What is compared: what both sides can hold."""
        sides = carries_of(self.layout), carries_of(self.against_layout)
        held = {
            "offset": True,
            "value": True,
            "timestamp": True,
            "timestampType": all(side.timestamp_types for side in sides),
            "key": all(side.keys for side in sides),
            "headers": all(side.headers for side in sides),
        }
        return tuple(name for name, both in held.items() if both)

    def plan(self, connect: Connect) -> Plan:
        """List both sides and pair their pieces."""
        left, right = (
            _by_partition(list_pieces(connect(name), layout, self.selection, self.host))
            for name, layout in self._sides
        )
        pairs = [
            pair
            for topic_partition in sorted(left.keys() | right.keys())
            for pair in _pairs(
                topic_partition, left.get(topic_partition, []), right.get(topic_partition, [])
            )
        ]
        pieces = [piece for side in (left, right) for held in side.values() for piece in held]
        objects, expected = expected_reads(pieces)
        return Plan(
            units=pairs,
            objects_read=objects,
            expected=expected,
            results=self._without_records({pair.topic for pair in pairs}, connect),
        )

    @property
    def _sides(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The names of both stores, and their layouts."""
        return (SOURCE, self.layout), (AGAINST, self.against_layout)

    def _without_records(self, topics: set[str], connect: Connect) -> tuple[Result, ...]:
        """Return what is to be said of topics of which no side has a record."""
        if topics >= (self.selection.topics or set()) and topics:
            return ()
        results: list[Result] = []
        for name in (name for name, layout in self._sides if layout == NAMESPACE):
            for topic in run(list_topics(), connect(name)):
                wants = (self.selection.wants(topic.name, n) for n in range(topic.partitions))
                if any(wants) and not topic.deleted and topic.name not in topics:
                    topics.add(topic.name)
                    subject = Subject(topic.name, -1, 0, topic_key(topic.name))
                    results.append(subject.result("empty"))
        perform = None if self.layout == LIVE else connect(SOURCE)
        url = self.source.url
        absent = missing_results(url, self.layout, self.selection, topics, perform=perform)
        return (*results, *absent)

    def step(self, pair: Pair) -> Step[Result]:
        """Compare one pair."""
        findings = FindingCollector()
        left = _Cursor(self._stream(pair, SOURCE, () if pair.left is None else (pair.left,)))
        right = _Cursor(self._stream(pair, AGAINST, pair.right))
        count = 0
        try:
            count = yield from _compare(pair, left, right, findings)
        except (CorruptError, UnsupportedError) as error:
            findings.add(error.where, error.what, at=error.at)
        subject = Subject(pair.topic, pair.partition, pair.offset_from, pair.object)
        return subject.result("different" if findings.count else "good", findings, records=count)

    def _stream(self, pair: Pair, store: str, pieces: tuple[Piece, ...]) -> Stream:
        for piece in pieces:
            yield from read_piece(
                piece, store, self.columns, offset_from=pair.offset_from, offset_to=pair.offset_to
            )


def _by_partition(pieces: list[Any]) -> dict[tuple[str, int], list[Piece]]:
    return {
        topic_partition: list(held)
        for topic_partition, held in groupby(pieces, key=lambda p: (p.topic, p.partition))
    }


def _pairs(topic_partition: tuple[str, int], left: list[Piece], right: list[Piece]) -> list[Pair]:
    topic, partition = topic_partition
    starts: list[tuple[int, Piece | None]] = [(piece.base_offset, piece) for piece in left]
    starts = [(0, starts[0][1]), *starts[1:]] if starts else [(0, None)]
    pairs: list[Pair] = []
    for number, (offset, piece) in enumerate(starts):
        end = starts[number + 1][0] if number + 1 < len(starts) else OFFSET_MAX
        # The one before the first that begins behind ``offset`` may reach into it.
        first = max(0, bisect_right(right, offset, key=lambda p: p.base_offset) - 1)
        behind = bisect_left(right, end, key=lambda p: p.base_offset)
        pairs.append(
            Pair(
                topic=topic,
                partition=partition,
                offset_from=offset,
                offset_to=end,
                left=piece,
                right=tuple(right[first:behind]),
            )
        )
    return pairs


class _Cursor:
    """A stream of batches, taken a few rows at a time."""

    def __init__(self, stream: Stream) -> None:
        self._found = Items(stream, StoreRequest, asked_for)
        self._held: pa.RecordBatch | None = None

    def peek(self) -> Step[pa.RecordBatch | None]:
        """Return the rows at hand, some at least; None at the end."""
        while self._held is None or self._held.num_rows == 0:
            self._held = yield from self._found.next()
            if self._held is None:
                return None
        return self._held

    def skip(self, rows: int) -> None:
        assert self._held is not None
        self._held = self._held.slice(rows)


def _compare(pair: Pair, left: _Cursor, right: _Cursor, findings: FindingCollector) -> Step[int]:
    """Return how many records were compared."""
    count = 0
    while not findings.is_full:
        ours = yield from left.peek()
        theirs = yield from right.peek()
        if ours is None and theirs is None:
            return count
        if ours is None or theirs is None:
            held, where = (theirs, "missing here") if ours is None else (ours, "missing there")
            assert held is not None
            _tell(pair, findings, held, 0, where)
            (right if ours is None else left).skip(1)
            continue
        rows = min(ours.num_rows, theirs.num_rows)
        same = _common(ours.slice(0, rows), theirs.slice(0, rows))
        count += same
        left.skip(same)
        right.skip(same)
        if same == rows:
            continue
        a = ours.column("offset")[same].as_py()
        b = theirs.column("offset")[same].as_py()
        if a <= b:
            what = "missing there" if a < b else _difference(ours, theirs, same)
            _tell(pair, findings, ours, same, what)
            left.skip(1)
        if b <= a:
            if b < a:
                _tell(pair, findings, theirs, same, "missing here")
            right.skip(1)
    return count


def _common(ours: pa.RecordBatch, theirs: pa.RecordBatch) -> int:
    """Return how many rows are equal before the first that is not."""
    if ours.equals(theirs):
        return int(ours.num_rows)
    low, high = 0, int(ours.num_rows)
    while high - low > 1:
        middle = (low + high) // 2
        if ours.slice(low, middle - low).equals(theirs.slice(low, middle - low)):
            low = middle
        else:
            high = middle
    return low


def _difference(ours: pa.RecordBatch, theirs: pa.RecordBatch, row: int) -> str:
    names = [
        name for name in ours.schema.names if ours.column(name)[row] != theirs.column(name)[row]
    ]
    return f"other {' and '.join(names)} there"


def _tell(
    pair: Pair, findings: FindingCollector, batch: pa.RecordBatch, row: int, what: str
) -> None:
    offset = batch.column("offset")[row].as_py()
    findings.add(pair.object, f"offset {offset}: {what}", at=offset)
