"""Processes of the world: flows, the real ones, that ask for things, and what becomes of that.

A process has a clock that may jump, memory that it loses when it dies, and one or several flows. On
files it has a store of its own, and its operations end where it ends.
"""

from collections.abc import Callable
from typing import Any

from lakelog.errors import (
    InvalidInputError,
    LakelogError,
    NotFoundError,
    TooLargeError,
    UnavailableError,
)
from lakelog.store import Exists, LocalStore, Many, Op, Read, Wait, Work
from lakelog.testing.disk import DiskProcess, Gone
from lakelog.testing.machine import DISK_KINDS
from lakelog.testing.truth import Anomaly
from lakelog.testing.world import EPOCH_MS, REFUSED, TIMEOUT_MS, World

__all__ = ["Process", "Retried"]

STORED_ALL_THE_SAME = 0.1
"""How many of the puts that took too long are stored later."""

CUT_AFTER_KILL = 0.5
"""How often the power is cut a moment after a process on files was killed."""

SURPRISE = 0.06
"""How often a process falls asleep just when it is told that a key exists, or does not."""

Retried = Read
"""What drivers try again by themselves: reads, and nothing else."""

YEAR_MS = 365 * 24 * 3_600_000

_Mine = tuple[int, Work[None]]
"""A flow, and in which life of its process it was begun."""


class Process:
    """One process: its clock, and the flow that it begins with, again when it has died."""

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
        self._flows: list[Work[None]] = []
        """What it runs, the first of them since it began."""
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
        return bool(self._flows)

    def start(self) -> None:
        self.lives += 1
        if self.world.machine is not None:
            self._on_disk = self.world.machine.store()
        self.spawn(self.begin(self))

    def spawn(self, flow: Work[None]) -> None:
        """Run one more flow, side by side with the others."""
        self._flows.append(flow)
        self._step((self.lives, flow), None)

    def stop(self) -> None:
        """End it for good."""
        self.lives += 1
        if self._on_disk is not None:
            self._on_disk[0].kill()
        flows, self._flows = self._flows, []
        for flow in flows:
            flow.close()

    def crash(self) -> None:
        """Lose all memory, and begin again after a while."""
        self.stop()
        self.ended()
        life = self.lives
        delay_ms = self.world.some(10, 2_000)
        self.world.at(delay_ms, lambda: self.start() if self.lives == life else None)

    # ------------------------------------------------------------------------ running

    def _step(self, mine: _Mine, answer: Any) -> None:
        """Give a flow an answer, unless it sleeps or is gone, and perform what it asks next."""
        world, flow = self.world, mine[1]
        if mine[0] != self.lives:
            return
        if world.now < self._awake_at:
            world.at(self._awake_at - world.now, lambda: self._step(mine, answer))
            return
        try:
            request = flow.throw(answer) if isinstance(answer, LakelogError) else flow.send(answer)
        except StopIteration:
            self._flows.remove(flow)
            return
        except Anomaly:
            raise
        except (AssertionError, LakelogError) as error:
            # Anything else is a mistake of the simulator, or of a bug that was planted badly.
            raise Anomaly(f"{self.name} died of {error!r}") from error
        match request:
            case Wait():
                world.at(request.ms, lambda: self._step(mine, None))
            case Many():
                self._ask_many(request, mine)
            case _:
                self._ask(request, mine, lambda found: self._step(mine, found))

    def _ask_many(self, request: Many, mine: _Mine) -> None:
        answers: list[Any] = [None] * len(request.ops)
        left = [len(request.ops)]

        def take(at: int, answer: Any) -> None:
            answers[at] = answer
            left[0] -= 1
            if not left[0]:
                self._step(mine, tuple(answers))

        for at, op in enumerate(request.ops):
            self._ask(op, mine, lambda answer, at=at: take(at, answer))  # type: ignore[misc]
        if not request.ops:
            self._step(mine, ())

    def _ask(self, op: Op, mine: _Mine, done: Callable[[Any], None], tries: int = 0) -> None:
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
            self._sleep(sleep_ms)
            if random.random() < 0.6:
                there += sleep_ms  # Before it sends: the dangerous place.
        if fault == "clock":
            self._jump_ms = random.choice((-1, 1)) * world.some(YEAR_MS, 80 * YEAR_MS)
            self._right_at = world.now + world.some(1_000, 40_000)
        if world.machine is not None:
            world.at(there, lambda: self._perform(op, mine, back, done, fault))
            return
        tell = self._again(op, mine, done, tries) if isinstance(op, Retried) else done
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
                world.at(there + back, lambda: tell(InvalidInputError(REFUSED)))
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
        self, op: Op, mine: _Mine, back_ms: int, done: Callable[[Any], None], fault: str
    ) -> None:
        """Perform an operation on files: by this process, if it lives."""
        world, machine = self.world, self.world.machine
        if mine[0] != self.lives or self._on_disk is None or machine is None:
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
            self._sleep(world.long_ms())
        world.at(back_ms, lambda: tell(answer))

    def _sleep(self, ms: int) -> None:
        self.asleep_ms += ms
        self._awake_at = max(self._awake_at, self.world.now + ms)

    def _again(
        self, op: Op, mine: _Mine, done: Callable[[Any], None], tries: int
    ) -> Callable[[Any], None]:
        """Reads are tried a few times, as every driver does."""

        def tell(answer: Any) -> None:
            if isinstance(answer, UnavailableError) and tries + 1 < self.world.faults.reads_tried:
                if mine[0] == self.lives:
                    self.world.at(50, lambda: self._ask(op, mine, done, tries + 1))
            else:
                done(answer)

        return tell
