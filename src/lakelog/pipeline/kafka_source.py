"""Segments of a Kafka broker as an import sees them: what of each is wanted.

    Source        one segment, from where to where
    sources_of    the segments of a partition -> what is left of them behind its history
    Chosen        the batches of a segment -> those that are brought

Batches of aborted transactions are not. Which were aborted is in Kafka's transaction indexes; a
transaction is listed where its marker lies, which may be a later segment, so all indexes of a
partition are read. An abort that wrote something and is in no index means that a file is missing.
What is still open at the end of a segment is told to the driver (``adopting``).
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats import kafkalog
from lakelog.records import BatchHeader, decode_batch, frames
from lakelog.segments import SegmentRef
from lakelog.store import Flow, get

__all__ = ["Chosen", "Source", "aborted_in", "sources_of"]

_TXN_INDEX = ".txnindex"
_MARKER = struct.Struct(">hh")
_ABORT = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One segment of Kafka's, and what of it is wanted."""

    segment: SegmentRef
    offset_from: int
    offset_to: int
    aborted: tuple[kafkalog.AbortedTxn, ...] = ()
    last: bool = False
    """Whether the partition ends with it."""
    log_start: int = 0
    """Where the partition begins."""

    @property
    def size(self) -> int:
        return self.segment.size


def sources_of(
    segments: Sequence[SegmentRef], end: int, aborted: Sequence[kafkalog.AbortedTxn]
) -> Iterator[Source]:
    """Yield what is left to be brought of a partition whose history ends at ``end``."""
    log_start = max(segments[0].base_offset, segments[0].offset_min)
    for segment in segments:
        last = segment is segments[-1]
        if segment.next_offset_max <= end and not last:
            continue
        low, high = max(end, segment.offset_min), segment.next_offset_max
        yield Source(
            segment=segment,
            offset_from=low,
            offset_to=high,
            aborted=tuple(
                txn for txn in aborted if txn.first_offset < high and txn.last_offset >= low
            ),
            last=last,
            log_start=log_start,
        )


def aborted_in(segments: Sequence[SegmentRef]) -> Flow[list[kafkalog.AbortedTxn]]:
    """Return the transactions of a partition that were aborted.

    Raises:
        CorruptError, UnsupportedError: an index that Kafka did not write.
    """
    found: list[kafkalog.AbortedTxn] = []
    for segment in segments:
        if segment.sizes.get(_TXN_INDEX):
            data = yield from get(segment.key(_TXN_INDEX))
            try:
                found += kafkalog.decode_txn_index(data, base_offset=segment.base_offset)
            except (CorruptError, UnsupportedError) as error:
                raise segment.named(error) from error
    return found


class Chosen:
    """Which batches of a segment are brought."""

    def __init__(self, unit: Source) -> None:
        self._unit = unit
        self.open: dict[int, int] = {}
        """Producers with a transaction that is open at the end, and where it began."""
        self.ended: set[int] = set()
        """Producers of which a marker came."""
        self.unlisted: set[int] = set()
        """Of these, whose first marker aborts, with nothing before it here and in no index."""

    def of(self, data: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield the batches of a piece that are wanted.

        Raises:
            InvalidInputError: one reaches past the end, where another copy of the log goes on.
        """
        unit = self._unit
        for at, header in frames(data, after=None, crc=False):
            batch = data[at : at + header.size]
            if header.next_offset <= unit.offset_from or header.base_offset >= unit.offset_to:
                continue
            if header.next_offset > unit.offset_to:
                raise InvalidInputError(
                    f"the batch at offset {header.base_offset} reaches past {unit.offset_to}, "
                    "where another broker's copy goes on: name that broker's directory alone"
                )
            if header.is_control:
                self._end(header, batch)
            elif header.is_transactional:
                if self._is_aborted(header):
                    continue
                self.open.setdefault(header.producer_id, header.base_offset)
            yield header, batch

    def _end(self, header: BatchHeader, marker: memoryview) -> None:
        """Take in the end of a transaction. Only one that wrote something here is in an index."""
        producer, unlisted = header.producer_id, not self._is_aborted(header)
        if unlisted and _aborts(marker):
            if producer in self.open:
                raise InvalidInputError(
                    f"a transaction from offset {self.open[producer]} on was aborted, and no "
                    ".txnindex says so: bring all files of the directory"
                )
            if producer not in self.ended:
                self.unlisted.add(producer)
        self.open.pop(producer, None)
        self.ended.add(producer)

    def _is_aborted(self, header: BatchHeader) -> bool:
        return any(
            txn.producer_id == header.producer_id
            and txn.first_offset <= header.base_offset <= txn.last_offset
            for txn in self._unit.aborted
        )


def _aborts(marker: memoryview) -> bool:
    """Say whether the marker in a control batch aborts a transaction, and does not commit it."""
    (record,) = decode_batch(marker).records
    if record.key is None or len(record.key) != _MARKER.size:
        raise CorruptError("a transaction marker without a type", at=0)
    return bool(_MARKER.unpack(record.key)[1] == _ABORT)
