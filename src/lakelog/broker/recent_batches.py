"""What was just written, kept in memory: most consumers read nothing else.

    partition -> batches in the order of their offsets, without a gap

Batches stand here as producers sent them. A batch gets its offset and its leader epoch when it is
handed out, as sixteen bytes in front of the rest of it, so that nothing is copied or changed. The
oldest go first when there is no room, whatever partition they are of.
"""

from bisect import bisect_right
from collections import deque

from lakelog.formats import Bytes
from lakelog.journal import Append, Stored, TopicIdPartition
from lakelog.records import START_BYTES, placed_start

__all__ = ["RecentBatches"]

SPARSE = 8
"""A view of a buffer so many times larger is copied, so as not to hold all of it."""

COMPACT_AT = 256


_Batch = tuple[int, int, Bytes]
"""Base offset, leader epoch, and the batch as it was sent."""


class _Tail:
    """The newest batches of one partition."""

    __slots__ = ("bases", "batches", "first", "next_offset")

    def __init__(self, next_offset: int) -> None:
        self.bases: list[int] = []
        self.batches: list[_Batch | None] = []
        self.first = 0
        """How many of them are gone."""
        self.next_offset = next_offset

    def drop(self) -> int:
        """Forget the oldest; return its bytes."""
        gone = self.batches[self.first]
        assert gone is not None
        self.batches[self.first] = None
        self.first += 1
        if self.first >= COMPACT_AT and self.first * 2 > len(self.batches):
            del self.bases[: self.first], self.batches[: self.first]
            self.first = 0
        return len(gone[2])


class RecentBatches:
    """Batches of all partitions, up to so many bytes."""

    def __init__(self, size_bytes_max: int) -> None:
        self._size_bytes_max = size_bytes_max
        self._tails: dict[TopicIdPartition, _Tail] = {}
        self._order: deque[_Tail] = deque()
        """Whose batch is the oldest, the next one, and so on."""
        self.size_bytes = 0

    def add(self, request: Append, outcome: Stored) -> None:
        """Take in what was stored."""
        partition = request.topic_partition
        tail = self._tails.get(partition)
        if tail is None or tail.next_offset != outcome.base_offset:
            # The first of it, or others have written between: what was there stays in the order
            # until its turn to go comes, but is not found any more.
            tail = self._tails[partition] = _Tail(outcome.base_offset)
        body, at, offset = request.body, 0, outcome.base_offset
        if type(body) is memoryview and len(body) * SPARSE < len(body.obj):  # type: ignore[arg-type]
            body = bytes(body)
        rows = request.rows
        for row in rows:
            one = body if len(rows) == 1 else body[at : at + row.length]
            tail.bases.append(offset)
            tail.batches.append((offset, outcome.epoch, one))
            self._order.append(tail)
            at, offset = at + row.length, offset + row.last_offset_delta + 1
        tail.next_offset = offset
        self.size_bytes += len(body)
        while self.size_bytes > self._size_bytes_max:
            self.size_bytes -= self._order.popleft().drop()

    def read(
        self, partition: TopicIdPartition, offset: int, most: int
    ) -> tuple[list[Bytes], int] | None:
        """Return pieces of the batch that holds ``offset`` and of those behind it, and their size.

        At least one batch, however large. None: it is not here.
        """
        tail = self._tails.get(partition)
        if tail is None:
            return None
        at = bisect_right(tail.bases, offset, tail.first) - 1
        if at < tail.first or offset >= tail.next_offset:
            return None
        pieces: list[Bytes] = []
        size = 0
        for batch in tail.batches[at : at + 4096]:
            assert batch is not None
            base, epoch, body = batch
            if pieces and size + len(body) > most:
                break
            pieces.append(placed_start(base, len(body), epoch))
            pieces.append(memoryview(body)[START_BYTES:])
            size += len(body)
        return pieces, size

    def forget(self, topic: bytes) -> None:
        """Forget a topic; its bytes go when their turn comes."""
        for partition in [one for one in self._tails if one[0] == topic]:
            del self._tails[partition]
