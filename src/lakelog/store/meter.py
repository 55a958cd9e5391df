"""What the store is asked for, how many bytes that moves, and about what it costs.

Put the meter inside the retries, ``retrying(metered(store.perform, meter))``: a repeated request
is paid for as well.

What it costs is an estimate: S3 does not charge for a 5xx.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from lakelog.store.drive import Perform, PerformAsync
from lakelog.store.operations import (
    Delete,
    Fetched,
    Get,
    GetRange,
    GetSuffix,
    Head,
    ListPage,
    Op,
    PutIfAbsent,
    PutIfMatch,
    PutTogether,
)
from lakelog.store.prices import S3_PRICES, Prices

__all__ = [
    "OPERATION_KINDS",
    "Meter",
    "OperationObserver",
    "Usage",
    "metered",
    "metered_async",
]

OPERATION_KINDS: Mapping[type[Op], str] = {
    ListPage: "list",
    Head: "head",
    Get: "get",
    GetRange: "get",
    GetSuffix: "get",
    PutIfAbsent: "put",
    PutIfMatch: "put",
    PutTogether: "put",
    Delete: "delete",
}
"""What each operation is called where operations are counted and priced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Requests and bytes up to some moment. Workers send theirs home, and they add up."""

    requests: Mapping[str, int] = field(default_factory=dict)
    """By kind: list, head, get, put, delete."""
    failures: int = 0
    """Requests that ended in an error, a missing object included."""
    bytes_read: int = 0
    bytes_written: int = 0

    @property
    def price_usd(self) -> float:
        """About what these requests cost, by S3's prices."""
        return self.cost_usd(S3_PRICES)

    def cost_usd(self, prices: Prices) -> float:
        """About what these requests cost."""
        return sum(prices[kind] * n for kind, n in self.requests.items()) / 1e9

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            requests=dict(Counter(self.requests) + Counter(other.requests)),
            failures=self.failures + other.failures,
            bytes_read=self.bytes_read + other.bytes_read,
            bytes_written=self.bytes_written + other.bytes_written,
        )

    def __sub__(self, earlier: "Usage") -> "Usage":
        """Return what came since ``earlier``."""
        return Usage(
            requests=dict(Counter(self.requests) - Counter(earlier.requests)),
            failures=self.failures - earlier.failures,
            bytes_read=self.bytes_read - earlier.bytes_read,
            bytes_written=self.bytes_written - earlier.bytes_written,
        )


class Meter:
    """Counts for all threads of a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usage = Usage()

    @property
    def usage(self) -> Usage:
        """What was counted so far."""
        return self._usage

    def begin(self, op: Op) -> Callable[[Any], None]:
        """Return what counts an operation when it has ended."""
        return partial(self._count, op)

    def _count(self, op: Op, answer: Any) -> None:
        one = Usage(
            requests={OPERATION_KINDS[type(op)]: 1},
            failures=int(isinstance(answer, BaseException)),
            bytes_read=len(answer.body) if isinstance(answer, Fetched) else 0,
            bytes_written=op.size if isinstance(op, PutIfAbsent | PutIfMatch | PutTogether) else 0,
        )
        with self._lock:
            self._usage += one


class OperationObserver(Protocol):
    """Whoever counts operations: a ``Meter``, or the metrics of a broker."""

    def begin(self, op: Op) -> Callable[[Any], None]:
        """Take note that an operation begins; what is returned is called with its answer, or with
        the error that ended it.
        """
        ...


def metered(perform: Perform, meter: OperationObserver) -> Perform:
    """Return ``perform``, counted by ``meter``."""

    def counted(op: Op) -> Any:
        ended = meter.begin(op)
        try:
            answer = perform(op)
        except BaseException as error:
            ended(error)
            raise
        ended(answer)
        return answer

    return counted


def metered_async(perform: PerformAsync, meter: OperationObserver) -> PerformAsync:
    """Return ``perform``, counted by ``meter``."""

    async def counted(op: Op) -> Any:
        ended = meter.begin(op)
        try:
            answer = await perform(op)
        except BaseException as error:
            ended(error)
            raise
        ended(answer)
        return answer

    return counted
