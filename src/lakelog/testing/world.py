"""A world of one thread: virtual time, a store that misbehaves, processes that pause and die.

    request --travels--> store --travels--> answer
      request lost      nothing is stored, no answer
      answer lost       stored, no answer
      failed after      stored, then a 500
      failed before     a 500, a 503 or a 409, and nothing is stored
      late              no answer; stored when nobody waits any more, perhaps an hour later
      twice             stored and answered; a copy arrives later
      refused           a 4xx: this request has stored nothing
      too large         a 413, for bundles above some size, in some towns for good
      slow              bundles above some size take longer than their time-out, in some towns for
                        good: no answer, and mostly nothing is stored
      outage            for a while no request of anybody gets through, or all are refused
      pause             the process sleeps before it sends, or before it sees the answer
      crash             the process is gone, and another one starts without its memory
      clock             its wall clock jumps by years, and is set right after a while

In some towns the store is a folder of the machine on which all of them live: see ``machine``.

Everything is drawn from one seed, so a run can be repeated exactly. Processes are flows, the real
ones; the world performs what they ask for.
"""

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from random import Random  # noqa: TID251 (seeded: this is where chance comes from)
from typing import Any, Protocol

from lakelog.errors import (
    LakelogError,
)
from lakelog.store import MemoryStore, Op, PutIfAbsent
from lakelog.testing.machine import DISK_KINDS, DiskView, Machine

__all__ = [
    "EPOCH_MS",
    "KINDS",
    "REFUSED",
    "TIMEOUT_MS",
    "Faults",
    "World",
]

EPOCH_MS = 1_700_000_000_000
TIMEOUT_MS = 2_000

BUNDLE_BYTES = (450, 700)
"""Where a store that refuses large bundles, or is slow with them, draws the line. Every single
request fits in less, and most bundles of several do not."""
SWIFT = 10
"""In every so manieth town keepers are swift: who sleeps for seconds finds that the floor has risen
over all that it knew."""

DRAWN = (
    "request_lost", "answer_lost", "failed_after", "failed_before", "late", "twice", "pause",
    "crash", "refused", "clock",
)  # fmt: skip
"""What is drawn for each request."""

DRAWN_ON_DISK = ("failed_before", "pause", "crash", "clock", "killed", "power_cut")

KINDS = (*DRAWN, "too_large", "slow", "outage", *DISK_KINDS)
"""Everything that goes wrong."""


REFUSED = "400, says this world: nothing was stored"
"""In the error of who is refused, and has made no mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How often each thing goes wrong, in a thousand requests unless it says otherwise."""

    request_lost: int = 8
    answer_lost: int = 15
    failed_after: int = 10
    failed_before: int = 15
    late: int = 8
    twice: int = 5
    pause: int = 24
    crash: int = 4
    refused: int = 3
    clock: int = 1
    limited_towns: int = 80
    """Of a thousand towns, those whose store refuses bundles above some size."""
    slow_towns: int = 80
    """Those in which bundles above some size take longer than their time-out."""
    outages: int = 200
    """Those in which nothing gets through for a while."""
    forgetful_towns: int = 100
    """Those whose lanes remember producers for less time than a process may sleep."""
    greedy_towns: int = 60
    """Those in which somebody uses up the producers that a lane remembers."""
    disk_towns: int = 80
    """Those on files."""
    killed: int = 40
    """Of the changes on files."""
    power_cut: int = 1
    fsync_failed: int = 2
    """In a thousand fsyncs, in half of the towns on files."""
    lying_towns: int = 250
    """Of a thousand towns on files, those whose fsync lies at last."""
    grace_ms: int = 10_000
    """A long pause, or a late arrival, takes up to five of these."""
    reads_tried: int = 3
    """How often a read is tried before its failure is told."""


class _Living(Protocol):
    """A process, as far as the world ends it."""

    @property
    def is_alive(self) -> bool: ...
    def crash(self) -> None: ...


class World:
    """Time, chance and the store."""

    def __init__(self, seed: int, faults: Faults) -> None:
        self.random = Random(seed)  # noqa: S311
        self.faults = faults
        self.now = 0
        self.healed = False
        self.counts: Counter[str] = Counter()
        self.processes: list[_Living] = []
        self.machine: Machine | None = None
        self.store: MemoryStore | DiskView
        """To look at what is stored, and touch nothing."""
        if self.random.random() * 1000 < faults.disk_towns:
            self.machine = Machine(self.random, self.store_ms)
            self.store = self.machine.view
            self._founder = self.machine.store()
        else:
            self.store = MemoryStore(now_ms=self.store_ms)
        self.watch: Callable[[Op, Any], None] = lambda _op, _answer: None
        """Sees every operation when it has been performed."""
        self.after_cut: Callable[[], None] = lambda: None
        """Called when the power was cut."""
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self._ids = 0
        drawn = DRAWN_ON_DISK if self.machine else DRAWN
        sizes = [getattr(faults, name) for name in drawn]
        self._bounds = list(zip(accumulate(sizes), drawn, strict=True))
        self.bundle_bytes_max = self._drawn_size(faults.limited_towns)
        """Larger bundles are refused."""
        self.bundle_bytes_slow = self._drawn_size(faults.slow_towns)
        """Larger bundles are not stored within the time-out."""
        self.is_forgetful = self.random.random() * 1000 < faults.forgetful_towns
        self.is_swift = seed % SWIFT == SWIFT - 1
        self.is_greedy = self.random.random() * 1000 < faults.greedy_towns
        self._outage, self._outage_from, self._outage_to = "", 0, 0
        if self.random.random() * 1000 < faults.outages and self.machine is None:
            self._outage = self.random.choice(("refused", "failed_before", "request_lost"))
            self._outage_from = self.some(5_000, 40_000)
            self._outage_to = self._outage_from + self.some(3_000, 25_000)
            self.counts["outage"] += 1

    def _drawn_size(self, towns: int) -> int:
        drawn = self.random.random() * 1000 < towns
        return self.some(*BUNDLE_BYTES) if drawn else 1 << 62

    def store_ms(self) -> int:
        return EPOCH_MS + self.now

    def ids(self) -> bytes:
        self._ids += 1
        return self._ids.to_bytes(16, "big")

    def at(self, delay_ms: int, do: Callable[[], None]) -> None:
        """Do something later."""
        self._number += 1
        heapq.heappush(self._queue, (self.now + delay_ms, self._number, do))

    def run(self, until_ms: int) -> None:
        """Let time pass."""
        queue = self._queue
        while queue and queue[0][0] <= until_ms:
            self.now, _, do = heapq.heappop(queue)
            do()
        self.now = max(self.now, until_ms)

    def perform(self, op: Op) -> Any:
        """Perform an operation, now."""
        if self.machine is not None:
            return self.machine.perform(*self._founder, op, self.watch)
        try:
            answer = self.store.perform(op)
        except LakelogError as error:
            answer = error
        self.watch(op, answer)
        return answer

    def begin_trouble(self) -> None:
        """Let the disk go wrong from now on, if there is one."""
        if self.machine is None:
            return
        disk = self.machine.disk
        disk.failing = self.random.choice((0, self.faults.fsync_failed / 1000))
        if self.random.random() * 1000 < self.faults.lying_towns:
            self.at(self.some(10_000, 50_000), self._lie)

    def _lie(self) -> None:
        assert self.machine is not None
        self.machine.disk.lying, self.machine.disk.failing = True, 0
        self.counts["fsync_lied"] += 1

    @property
    def has_lied(self) -> bool:
        """Whether fsync has said what is not so."""
        return self.machine is not None and self.machine.disk.lying

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self.healed = True
        if self.machine is not None:
            self.machine.disk.failing = 0

    def cut(self) -> None:
        """Cut the power, between two operations."""
        if self.machine is not None and not self.healed and not self.has_lied:
            self.counts["power_cut"] += 1
            self.machine.cut()
            self.end_all()

    def end_all(self) -> None:
        """The power was cut: everybody is gone, and begins again."""
        for process in self.processes:
            if process.is_alive:
                process.crash()
        self.after_cut()

    def long_ms(self) -> int:
        """A time in which a floor may rise and what lies below it be deleted."""
        return self.some(self.faults.grace_ms // 8, 5 * self.faults.grace_ms)

    def fault(self) -> str:
        """Draw what goes wrong with a request; mostly nothing does."""
        if self.healed:
            return ""
        if self._outage_from <= self.now < self._outage_to:
            return self._outage
        drawn = self.random.random() * 1000
        if drawn >= self._bounds[-1][0]:
            return ""
        return next(name for bound, name in self._bounds if drawn < bound)

    def fault_of_size(self, op: Op) -> str:
        """Say what happens to a bundle that is too large for this town; nothing to all else.

        History is spared: its objects have sizes of their own, and nobody makes them smaller.
        """
        if not isinstance(op, PutIfAbsent) or not op.key.endswith(".bundle"):
            return ""
        found = ""
        if op.size > self.bundle_bytes_max:
            found = "too_large"
        elif op.size > self.bundle_bytes_slow:
            found = "slow"
        if found:
            self.counts[found] += 1
        return found

    def some(self, low: int, high: int) -> int:
        """Draw a number from ``low`` to below ``high``."""
        return low + int(self.random.random() * (high - low))
