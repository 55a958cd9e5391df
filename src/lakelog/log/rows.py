"""Reading tasks of the log as Arrow: history and journal as one, also while they change.

    segment   the compiled scan, from the place that the index names; whole ones without an index
    slices    a range of each bundle, many at once; then the batches of each partition
    neither   ``read``, which looks at the lane and the manifest as they are now

A plan says where a range lay. If the object is gone by now, or the floor of the lane has passed the
bundle, the same offsets are looked for again, from the last one that was given. Nothing is skipped:
a range has as many records as offsets, or the read fails. Only where records were compacted away,
or say what became of a transaction, there may be fewer.

What was read from bundles counts when the floor, looked at afterwards, has not passed them.
"""

from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any

import pyarrow as pa

from lakelog.errors import CorruptError, LakelogError, NotFoundError, UnsupportedError
from lakelog.flows import Items
from lakelog.formats import Files, Range, kafs
from lakelog.formats.columns import scan_columns
from lakelog.journal import Lane, floor_holds
from lakelog.log.located import LocatedRange, SliceRef
from lakelog.log.placing import place_batches
from lakelog.log.read import Known, OutOfRange, read
from lakelog.log.survey import PartitionRef
from lakelog.manifests import SegmentRow
from lakelog.names import bundle_key
from lakelog.records.columns import TYPES, BatchDecoder
from lakelog.segments.placed import PLACED_COLUMNS, placed_schema
from lakelog.segments.read import Placing
from lakelog.store import Fetched, Flow, GetRange, Many, Op, Wait, ask_all, get_range

__all__ = ["Reads", "read_task"]

WINDOW_BYTES = 32 << 20
"""What is asked for at once, of bundles."""
GAP_BYTES = 64 << 10
"""What is read for nothing rather than ask twice."""
CHUNK_BYTES = 8 << 20

_INDEX = ".index"

Reads = Generator[Op | Many | Wait | pa.RecordBatch, Any, None]


def read_task(
    ranges: Iterable[LocatedRange],
    lanes: Callable[[int], Lane],
    columns: Iterable[str] = PLACED_COLUMNS,
    *,
    may_lose: bool = False,
) -> Reads:
    """Yield the records of some ranges as Arrow, and on the way the reads it takes.

    ``lanes`` gives what this process knows of a lane, which may be nothing. With ``may_lose``
    offsets that are no longer there are passed over.

    Raises:
        NotFoundError: offsets are no longer there, or the topic is not.
        CorruptError, UnsupportedError: something is wrong with an object; ``where`` is its key.
    """
    reading = _Reading(lanes, tuple(columns), may_lose=may_lose)
    held: list[LocatedRange] = []
    size = 0
    for located in ranges:
        if held and (not isinstance(located.location, SliceRef) or size >= WINDOW_BYTES):
            yield from reading.slices(held)
            held, size = [], 0
        if isinstance(located.location, SliceRef):
            held.append(located)
            size += located.size
        elif isinstance(located.location, SegmentRow):
            yield from reading.segment(located, located.location)
        else:
            yield from reading.again(located, located.base_offset)
    if held:
        yield from reading.slices(held)


class _Reading:
    """What is the same for all ranges of a task."""

    def __init__(
        self, lanes: Callable[[int], Lane], columns: tuple[str, ...], *, may_lose: bool
    ) -> None:
        self._lanes, self._may_lose = lanes, may_lose
        self._schema = placed_schema(columns)
        # Offsets are always decoded: they tell where to go on.
        self._columns = [*dict.fromkeys([*(c for c in columns if c in TYPES), "offset"])]
        self._placings: dict[tuple[str, int], Placing] = {}

    def _place(self, member: PartitionRef, batch: pa.RecordBatch) -> pa.RecordBatch:
        placing = self._placings.get(member.key)
        if placing is None:
            placing = self._placings[member.key] = Placing(*member.key, self._schema)
        return placing.add_to(batch)

    # ------------------------------------------------------------------------ segments

    def segment(self, located: LocatedRange, row: SegmentRow) -> Reads:
        """Read a part of a segment; what is gone is looked for again."""
        key, index = f"{located.member.where.prefix}{row.name}", b""
        if located.offsets < row.next_offset - row.base_offset:
            index = yield from _index(key + _INDEX)
        at, rows = located.base_offset, 0
        found = self._scan(row, key, index, at, located.next_offset)
        while True:
            try:
                item = yield from found.next()
                if item is None:
                    break
            except NotFoundError:
                yield from self.again(located, at)
                return
            except (CorruptError, UnsupportedError) as error:
                if not index:
                    where = key + (error.where or kafs.FORMAT.suffix)
                    raise type(error)(error.what, at=error.at, where=where) from error
                # It may have been the index that led there. If not, the next try tells.
                index = b""
                found = self._scan(row, key, index, at, located.next_offset)
                continue
            at, rows = item.column("offset")[-1].as_py() + 1, rows + item.num_rows
            yield self._place(located.member, item)
        is_dense = row.records == row.next_offset - row.base_offset
        if rows != located.offsets and not located.member.compacted and is_dense:
            # Records about transactions are not given out, but have offsets.
            rows = yield from self._count(row, key, located)
            if rows != located.offsets:
                raise _miscounted(located, rows, key + kafs.FORMAT.suffix)

    def _scan(
        self, row: SegmentRow, key: str, index: bytes, offset_from: int, offset_to: int
    ) -> Items[Op]:
        sizes = {kafs.FORMAT.suffix: row.length} | ({_INDEX: len(index)} if index else {})
        files = Files(base_offset=row.base_offset, sizes=sizes)
        scan = scan_columns(
            kafs.FORMAT, files, self._columns, offset_from=offset_from, offset_to=offset_to
        )
        return Items(scan, Range, partial(_bytes, key, row, index))

    def _count(self, row: SegmentRow, key: str, located: LocatedRange) -> Flow[int]:
        """Return how many records a segment has of a range, control records included."""
        files = Files(base_offset=row.base_offset, sizes={kafs.FORMAT.suffix: row.length})
        scan = scan_columns(
            kafs.FORMAT, files, ("offset",),
            offset_from=located.base_offset, offset_to=located.next_offset, control=True,
        )  # fmt: skip
        found, rows = Items(scan, Range, partial(_bytes, key, row, b"")), 0
        while (item := (yield from found.next())) is not None:
            rows += item.num_rows
        return rows

    # ------------------------------------------------------------------------ slices

    def slices(self, ranges: list[LocatedRange]) -> Reads:
        """Read slices of bundles, all at once, and decode them partition by partition."""
        ops, places = _byte_ranges(ranges)
        answers = yield from ask_all(ops)
        lowest: dict[int, int] = {}
        for located in ranges:
            number, seq = located.member.lane, _piece(located).seq
            lowest[number] = min(seq, lowest.get(number, seq))
        floors: dict[int, int] = {}
        for number in sorted(lowest):
            lane = self._lanes(number)
            yield from floor_holds(lane, lowest[number])
            assert lane.last_look is not None
            floors[number] = lane.last_look.head.floor
        bodies: dict[tuple[str, int], list[tuple[LocatedRange, memoryview | None]]] = {}
        for located, (number, start) in zip(ranges, places, strict=True):
            body = _body(located, answers[number], start, floors[located.member.lane])
            bodies.setdefault(located.member.key, []).append((located, body))
        del answers
        for group in bodies.values():
            yield from self._partition(group)

    def _partition(self, group: list[tuple[LocatedRange, memoryview | None]]) -> Reads:
        """Decode what was read of one partition, in the order of offsets."""
        # All ranges but the first and the last are whole slices.
        first, last = group[0][0], group[-1][0]
        decoder = BatchDecoder(
            self._columns, offset_from=first.base_offset, offset_to=last.next_offset
        )
        rows = expected = 0
        for located, body in group:
            if body is None:
                for batch in decoder.flush():
                    rows += batch.num_rows
                    yield self._place(located.member, batch)
                yield from self.again(located, located.base_offset)
                continue
            piece = _piece(located)
            key = bundle_key(located.member.lane, piece.seq)
            run = place_batches(body, piece.base_offset, piece.epoch, where=key)
            expected += located.offsets
            for batch in decoder.feed(run, where=key):
                rows += batch.num_rows
                yield self._place(located.member, batch)
        for batch in decoder.flush():
            rows += batch.num_rows
            yield self._place(first.member, batch)
        if rows != expected:
            raise _miscounted(first, rows, bundle_key(first.member.lane, _piece(first).seq))

    # ------------------------------------------------------------------------ again

    def again(self, located: LocatedRange, at: int) -> Reads:
        """Read a range from ``at`` on, wherever it lies now."""
        member, until = located.member, located.next_offset
        lane, known = self._lanes(member.lane), Known()
        while at < until:
            try:
                chunk = yield from read(lane, member.where, at, CHUNK_BYTES, known)
            except NotFoundError as error:
                if lane.snapshot is None:
                    raise  # It is the lane that is not there.
                if not self._may_lose:
                    raise _deleted(member, at, until) from error
                break
            if isinstance(chunk, OutOfRange):
                if not self._may_lose:
                    raise _expired(member, at, until, chunk.bounds.log_start)
                if chunk.bounds.log_start <= at:
                    break
                at = chunk.bounds.log_start
                continue
            if chunk.next_offset <= at:
                raise _expired(member, at, until, chunk.bounds.log_start)
            # From ``at`` on: batches may have become larger since, and begin before it.
            decoder = BatchDecoder(self._columns, offset_from=at, offset_to=until)
            for batch in (*decoder.feed(chunk.body, where=str(member)), *decoder.flush()):
                yield self._place(member, batch)
            at = chunk.next_offset


# ---------------------------------------------------------------------------- bytes


def _index(key: str) -> Flow[bytes]:
    """Return an index that can be read; nothing, if there is none."""
    try:
        index = yield from get_range(key, 0, kafs.INDEX_BYTES_MAX)
        kafs.decode_index(index)
    except (NotFoundError, CorruptError, UnsupportedError):
        return b""
    return index


def _bytes(key: str, row: SegmentRow, index: bytes, wanted: Range) -> Flow[bytes]:
    if wanted.suffix == _INDEX:
        return index[wanted.start : wanted.end]
    start, end = row.position + wanted.start, row.position + wanted.end
    return (yield from get_range(key + wanted.suffix, start, end))


def _byte_ranges(ranges: list[LocatedRange]) -> tuple[tuple[GetRange, ...], list[tuple[int, int]]]:
    """Return what to ask for, and for each range in which answer it is and from where on."""
    ops: list[GetRange] = []
    places: list[tuple[int, int]] = []
    for located in ranges:
        piece = _piece(located)
        key = bundle_key(located.member.lane, piece.seq)
        start, end = piece.position, piece.position + piece.length
        last = ops[-1] if ops else None
        if last is not None and last.key == key and 0 <= start - last.end <= GAP_BYTES:
            ops[-1] = GetRange(key, last.start, end)
        else:
            ops.append(GetRange(key, start, end))
        places.append((len(ops) - 1, start))
    return tuple(ops), places


def _body(
    located: LocatedRange, answer: Fetched | LakelogError, start: int, floor: int
) -> memoryview | None:
    """Return the bytes of a slice; None: look for it again."""
    if isinstance(answer, NotFoundError):
        return None
    if isinstance(answer, LakelogError):
        raise answer
    piece = _piece(located)
    at = start - answer.start
    body = memoryview(answer.body)[at : at + piece.length]
    return body if len(body) == piece.length and piece.seq >= floor else None


def _piece(located: LocatedRange) -> SliceRef:
    assert isinstance(located.location, SliceRef)
    return located.location


# ---------------------------------------------------------------------------- what went wrong


def _miscounted(located: LocatedRange, rows: int, where: str) -> CorruptError:
    what = f"{rows} records of {located.member} in {located.offsets} offsets: verify the topic"
    return CorruptError(what, at=0, where=where)


def _expired(member: PartitionRef, at: int, until: int, log_start: int) -> NotFoundError:
    return NotFoundError(
        f"[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Could not read records in offset "
        f"[{at}, {until}) for topic partition {member}: its log now begins at {log_start}, "
        "retention or DeleteRecords took them while they were being read; read again, or set "
        "failOnDataLoss to false"
    )


def _deleted(member: PartitionRef, at: int, until: int) -> NotFoundError:
    return NotFoundError(
        f"[KAFKA_DATA_LOSS.PARTITIONS_DELETED] Partitions {member} have been deleted: the topic "
        f"with id {member.where.topic.hex()} is gone, [{at}, {until}) was still to be read; set "
        "failOnDataLoss to false to go on"
    )
