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
from typing import Any

from lakelog.errors import (
    InvalidInputError,
    LakelogError,
    NotFoundError,
    TooLargeError,
    UnavailableError,
)
from lakelog.store import Exists, LocalStore, Many, MemoryStore, Op, PutIfAbsent, Read, Wait, Work
from lakelog.testing.disk import DiskProcess, Gone
from lakelog.testing.machine import DISK_KINDS, DiskView, Machine

__all__ = [
    "EPOCH_MS",
    "KINDS",
    "SURPRISE",
    "Faults",
    "Process",
    "RefusedError",
    "Retried",
    "World",
]

EPOCH_MS = 1_700_000_000_000
TIMEOUT_MS = 2_000

BUNDLE_BYTES = (450, 700)
"""Where a store that refuses large bundles, or is slow with them, draws the line. Every single
request fits in less, and most bundles of several do not."""
STORED_ALL_THE_SAME = 0.1
"""How many of the puts that took too long are stored later."""

CUT_AFTER_KILL = 0.4
"""How often the power is cut a moment after a process on files was killed."""

SURPRISE = 0.06
"""How often a process falls asleep just when it is told that a key exists, or does not."""

Retried = Read
"""What drivers try again by themselves: reads, and nothing else."""

YEAR_MS = 365 * 24 * 3_600_000

DRAWN = (
    "request_lost", "answer_lost", "failed_after", "failed_before", "late", "twice", "pause",
    "crash", "refused", "clock",
)  # fmt: skip
"""What is drawn for each request."""

DRAWN_ON_DISK = ("failed_before", "pause", "crash", "clock", "killed", "power_cut")

KINDS = (*DRAWN, "too_large", "slow", "outage", *DISK_KINDS)
"""Everything that goes wrong."""


class RefusedError(InvalidInputError):
    """A 4xx of this world: whoever gets one has made no mistake."""


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
    refused: int = 5
    clock: int = 0
    limited_towns: int = 0
    """Of a thousand towns, those whose store refuses bundles above some size."""
    slow_towns: int = 0
    """Those in which bundles above some size take longer than their time-out."""
    outages: int = 300
    """Those in which nothing gets through for a while."""
    disk_towns: int = 80
    """Those on files."""
    killed: int = 20
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


class World:
    """Time, chance and the store."""

    def __init__(self, seed: int, faults: Faults) -> None:
        self.random = Random(seed)  # noqa: S311
        self.faults = faults
        self.now = 0
        self.healed = False
        self.counts: Counter[str] = Counter()
        self.processes: list[Process] = []
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


class Process:
    """One process: its clock, and a flow that it runs again when it ends or dies."""

    def __init__(self, world: World, name: str, begin: Callable[["Process"], Work[None]]) -> None:
        self.world = world
        self.name = name
        self.begin = begin
        self.skew_ms = world.some(-3_000, 3_000)
        self.ended: Callable[[], None] = lambda: None
        """Called when it has died."""
        self.asleep_ms = 0
        """How long it has been suspended in all, which a bad clock does not count."""
        self.lives = 0
        self._awake_at = 0
        self._jump_ms = 0
        self._right_at = 0
        """When its wall clock, which has jumped, is set right."""
        self._flow: Work[None] | None = None
        self._on_disk: tuple[DiskProcess, LocalStore] | None = None
        world.processes.append(self)

    def now_ms(self) -> int:
        """Its wall clock."""
        jump_ms = self._jump_ms if self.world.now < self._right_at else 0
        return EPOCH_MS + self.world.now + self.skew_ms + jump_ms

    def boot_ms(self) -> int:
        return self.world.now

    @property
    def is_alive(self) -> bool:
        return self._flow is not None

    def start(self) -> None:
        self.lives += 1
        if self.world.machine is not None:
            self._on_disk = self.world.machine.store()
        self._flow = self.begin(self)
        self._step(self.lives, None)

    def stop(self) -> None:
        """End it for good."""
        self.lives += 1
        if self._on_disk is not None:
            self._on_disk[0].kill()
        if self._flow is not None:
            self._flow.close()
            self._flow = None

    def crash(self) -> None:
        """Lose all memory, and begin again after a while."""
        self.stop()
        self.ended()
        life = self.lives
        delay_ms = self.world.some(10, 2_000)
        self.world.at(delay_ms, lambda: self.start() if self.lives == life else None)

    # ------------------------------------------------------------------------ running

    def _step(self, life: int, answer: Any) -> None:
        """Give the flow an answer, unless it sleeps or is gone, and perform what it asks next."""
        world = self.world
        if life != self.lives or self._flow is None:
            return
        if world.now < self._awake_at:
            world.at(self._awake_at - world.now, lambda: self._step(life, answer))
            return
        try:
            if isinstance(answer, LakelogError):
                wish = self._flow.throw(answer)
            else:
                wish = self._flow.send(answer)
        except StopIteration:
            self._flow = None
            return
        match wish:
            case Wait():
                world.at(wish.ms, lambda: self._step(life, None))
            case Many():
                self._ask_many(wish, life)
            case _:
                self._ask(wish, life, lambda found: self._step(life, found))

    def _ask_many(self, wish: Many, life: int) -> None:
        answers: list[Any] = [None] * len(wish.ops)
        left = [len(wish.ops)]

        def take(at: int, answer: Any) -> None:
            answers[at] = answer
            left[0] -= 1
            if not left[0]:
                self._step(life, tuple(answers))

        for at, op in enumerate(wish.ops):
            self._ask(op, life, lambda answer, at=at: take(at, answer))  # type: ignore[misc]
        if not wish.ops:
            self._step(life, ())

    def _ask(self, op: Op, life: int, done: Callable[[Any], None], tries: int = 0) -> None:
        world, random = self.world, self.world.random
        fault = world.fault()
        if fault and fault not in DISK_KINDS:
            world.counts[fault] += 1
        there, back = world.some(1, 40), world.some(1, 40)
        if fault == "crash":
            if random.random() < 0.5 and world.machine is None:
                world.at(there, lambda: world.perform(op))
            self.crash()
            return
        if fault == "pause":
            sleep_ms = world.long_ms() if random.random() < 0.7 else world.some(0, 5_000)
            self.asleep_ms += sleep_ms
            if random.random() < 0.6:
                there += sleep_ms  # Before it sends: the dangerous place.
            self._awake_at = max(self._awake_at, world.now + sleep_ms)
        if fault == "clock":
            self._jump_ms = random.choice((-1, 1)) * world.some(YEAR_MS, 80 * YEAR_MS)
            self._right_at = world.now + world.some(1_000, 40_000)
        if world.machine is not None:
            world.at(there, lambda: self._perform(op, life, back, done, fault))
            return
        tell = self._again(op, life, done, tries) if isinstance(op, Retried) else done
        fault = world.fault_of_size(op) or fault
        lost = UnavailableError(f"no answer to {type(op).__name__}: retry")
        match fault:
            case "request_lost":
                world.at(TIMEOUT_MS, lambda: tell(lost))
            case "answer_lost":
                world.at(there, lambda: world.perform(op))
                world.at(there + TIMEOUT_MS, lambda: tell(lost))
            case "failed_after":
                world.at(there, lambda: world.perform(op))
                world.at(there + back, lambda: tell(lost))
            case "failed_before":
                world.at(there + back, lambda: tell(lost))
            case "late":
                world.at(world.long_ms(), lambda: world.perform(op))
                world.at(TIMEOUT_MS, lambda: tell(lost))
            case "refused":
                world.at(there + back, lambda: tell(RefusedError("400: nothing was stored")))
            case "too_large":
                world.at(there + back, lambda: tell(TooLargeError("413: nothing was stored")))
            case "slow":
                if random.random() < STORED_ALL_THE_SAME:
                    world.at(TIMEOUT_MS + world.some(0, 5_000), lambda: world.perform(op))
                world.at(TIMEOUT_MS, lambda: tell(lost))
            case _:
                if fault == "twice" and not isinstance(op, Read):
                    world.at(there + world.long_ms(), lambda: world.perform(op))
                world.at(there, lambda: self._arrive(op, back, tell))

    def _perform(
        self, op: Op, life: int, back_ms: int, done: Callable[[Any], None], fault: str
    ) -> None:
        """Perform an operation on files: by this process, if it lives."""
        world, machine = self.world, self.world.machine
        if life != self.lives or self._on_disk is None or machine is None:
            return
        if fault == "failed_before":
            world.at(back_ms, lambda: done(UnavailableError("no space is left: retry")))
            return
        # Who is killed while reading is as good as crashed, and has left nothing behind.
        harmless = world.has_lied if fault == "power_cut" else isinstance(op, Read)
        blow = fault if fault in ("killed", "power_cut") and not harmless else ""
        if blow:
            world.counts[blow] += 1
        answer = machine.perform(*self._on_disk, op, world.watch, blow)
        if self._on_disk[0].said and not machine.was_cut:
            world.counts["fsync_failed"] += 1
            machine.cut()
        if machine.was_cut:
            world.end_all()
        elif isinstance(answer, Gone):
            self.crash()
            if world.random.random() < CUT_AFTER_KILL:
                world.at(world.some(10, 10_000), world.cut)
        else:
            world.at(back_ms, lambda: done(answer))

    def _arrive(self, op: Op, back_ms: int, tell: Callable[[Any], None]) -> None:
        world = self.world
        answer = world.perform(op)
        surprise = isinstance(answer, Exists | NotFoundError) and not world.healed
        if surprise and world.random.random() < SURPRISE:
            world.counts["pause"] += 1
            sleep_ms = world.long_ms()
            self.asleep_ms += sleep_ms
            self._awake_at = max(self._awake_at, world.now + sleep_ms)
        world.at(back_ms, lambda: tell(answer))

    def _again(
        self, op: Op, life: int, done: Callable[[Any], None], tries: int
    ) -> Callable[[Any], None]:
        """Reads are tried a few times, as every driver does."""

        def tell(answer: Any) -> None:
            if isinstance(answer, UnavailableError) and tries + 1 < self.world.faults.reads_tried:
                if life == self.lives:
                    self.world.at(50, lambda: self._ask(op, life, done, tries + 1))
            else:
                done(answer)

        return tell
