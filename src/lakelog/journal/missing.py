"""Batches that were not stored, by what this broker did, and those that stand behind them.

    R1, R2, R3 of a producer are on their way; R1 is let go, because it has waited for too long
    R2 is judged without R1: out of order

Kafka's clients take that for an error of their own. librdkafka then gives everything that was not
acknowledged a new epoch; what of it was stored without an answer, in any partition, is stored a
second time. So R2 is answered like R1: its outcome is unknown, and it is sent again behind R1.

It is remembered for a minute. Whatever is in order is stored, remembered or not; but of a producer
that the lane does not know any number is in order, and there R2 waits for R1 as well.

R1 may also have been sent to another broker, and R2 to this one, which leads by now. Nobody here
knows of R1; but a number above 0 says that there was something before. If R2 were stored,
librdkafka would take it that R1 is stored as well, and tell its application so. So the first that
is seen of a producer waits for a minute for what is before it. Only if nothing comes it is of one
that the lane has forgotten, after a day without a record.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from lakelog.journal.fold import Fold
from lakelog.journal.requests import Append, Outcome, Refusal, Refused, Request, Stored, Unknown

__all__ = ["MISSING_MAX", "Missing"]

MISSING_MS = 60_000
"""By then every client has been told that the batch has gone, or has given up."""
MISSING_MAX = 20_000
"""The oldest are forgotten beyond that, and what stands behind them is out of order."""

W = TypeVar("W")
"""Who waits for a request."""

_Producer = tuple[bytes, int, int, int]
"""A partition, a producer id, and its epoch."""

_OUT_OF_ORDER = Refused(Refusal.OUT_OF_ORDER)


class Missing:
    """Those of one lane."""

    def __init__(self) -> None:
        self._since: dict[_Producer, tuple[int, int]] = {}
        """Of each producer: the number of its first record that is missing, and when it went."""
        self._strangers: dict[_Producer, int] = {}
        """Producers that the lane did not know when something in the middle came: since when."""

    def note(self, request: Request, now_ms: int) -> None:
        """Remember a batch that was not stored, or may not be."""
        found = _numbered(request)
        if found is None:
            return
        producer, sequence = found
        known = self._since.pop(producer, None)
        if known is not None and now_ms - known[1] < MISSING_MS and _follows(sequence, known[0]):
            sequence = known[0]
        self._since[producer] = sequence, now_ms
        if len(self._since) > MISSING_MAX:
            del self._since[next(iter(self._since))]

    def judged(self, request: Request, outcome: Outcome, now_ms: int) -> Outcome:
        """Return what a request is told: one that stands behind a missing one is missing, too."""
        if type(outcome) is Stored or not (
            type(outcome) is Unknown
            or (outcome == _OUT_OF_ORDER and self._is_behind(_numbered(request), now_ms))
        ):
            return outcome
        self.note(request, now_ms)
        return Unknown()

    def sift(
        self,
        taken: Iterable[tuple[Request, W]],
        is_late: Callable[[W], bool],
        fold: Fold | None,
        now_ms: int,
    ) -> tuple[list[tuple[Request, W]], list[W]]:
        """Return requests that still wait, and who waits behind a missing one that nobody knows."""
        waiting: list[tuple[Request, W]] = []
        behind: list[W] = []
        begun: set[_Producer] = set()
        for request, waiter in taken:
            if is_late(waiter):
                self.note(request, now_ms)
            elif self._is_first(request, fold, begun, now_ms):
                self.note(request, now_ms)
                behind.append(waiter)
            else:
                waiting.append((request, waiter))
        return waiting, behind

    def _is_first(
        self, request: Request, fold: Fold | None, begun: set[_Producer], now_ms: int
    ) -> bool:
        """Whether the lane would take a batch for the first of its producer, and it is not."""
        found = _numbered(request)
        if found is None or fold is None:
            return False
        producer, sequence = found
        if fold.producer(producer[:2], producer[2]) is not None:
            return False
        if self._is_behind(found, now_ms):
            return True
        if sequence and producer not in begun and self._is_strange(producer, now_ms):
            return True
        begun.add(producer)
        return False

    def _is_strange(self, producer: _Producer, now_ms: int) -> bool:
        """Whether what comes before may still come."""
        since_ms = self._strangers.setdefault(producer, now_ms)
        if len(self._strangers) > MISSING_MAX:
            del self._strangers[next(iter(self._strangers))]
        return now_ms - since_ms < MISSING_MS

    def _is_behind(self, found: tuple[_Producer, int] | None, now_ms: int) -> bool:
        if found is None:
            return False
        before, since_ms = self._since.get(found[0], (0, -MISSING_MS))
        return now_ms - since_ms < MISSING_MS and _follows(found[1], before)


def _numbered(request: Request) -> tuple[_Producer, int] | None:
    """Return the producer of a batch, and the number of its first record; None: it has none."""
    if type(request) is not Append or request.is_plain:
        return None
    row = request.rows[0]
    return (*request.topic_partition, row.producer_id, row.producer_epoch), row.base_sequence


def _follows(sequence: int, before: int) -> bool:
    """Whether a number comes after another; behind the last one they begin at 0 again."""
    return 0 < (sequence - before) & 0x7FFFFFFF < 1 << 30
