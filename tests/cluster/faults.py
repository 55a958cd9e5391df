"""What befalls the brokers of a cluster, by a seed.

    none     nothing at all
    kill     kill -9, and started again under its id: at once, or when the others know it is dead
    freeze   SIGSTOP, for a moment or for longer than the others wait, and SIGCONT
    leave    SIGTERM, and started again when it has ended
    mixed    all of these, two at a time now and then, and once in a while all brokers are killed

Other kinds are handed in as a ``Fault``: something that begins to befall a broker, and ends. What
befalls a broker's network, store or clock may end it, or keep it from starting: it is started
again then, as a supervisor of processes would, and that is noted. One that ends by itself without
such a reason is an error.

Brokers die with the thread that started them, so everything here is done on the caller's.
"""

import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random  # noqa: TID251 (seeded)
from typing import NamedTuple

from tests.cluster.history import Diary
from tests.parts.cluster import Cluster
from tests.patience import LateError

__all__ = ["SETS", "Fault", "Span", "Storm"]

SETS: dict[str, tuple[str, ...]] = {
    "none": (),
    "kill": ("kill",),
    "freeze": ("freeze",),
    "leave": ("leave",),
    "mixed": ("kill", "freeze", "leave", "leave", "kill all"),
}

STEP_S = 0.05
HEAL_S = 120.0
READY = 0.8
"""So large a part of faults befalls brokers that serve."""
DEAD_INTERVALS = 4
"""After so many without a beat the others know."""
AGAIN_S = 1.0
"""Before a broker that has ended is started again."""


@dataclass(frozen=True)
class Fault:
    """Something that befalls a broker, or what it needs."""

    begin: Callable[[int, Random], None]
    end: Callable[[int], None]
    least_s: float = 0.1
    """It lasts for so long at least, or it would not be noticed."""
    is_shared: bool = False
    """Whether it befalls what all brokers need, and not only this one."""
    is_beside: bool = False
    """Whether it befalls somebody else than brokers, of whom there is one."""
    may_begin: Callable[[], bool] = lambda: True
    meanwhile: Callable[[int], None] | None = None
    """What is done again and again while it lasts."""


class Span(NamedTuple):
    """When a fault began and ended, which it was, and whom it befell."""

    begun: float
    ended: float
    kind: str
    node: int


class Storm:
    """Faults of some kinds, one after another, and sometimes two at once."""

    def __init__(
        self,
        cluster: Cluster,
        faults: str,
        seed: int,
        interval_s: float,
        kinds: Sequence[str] | None = None,
        more: Mapping[str, Fault] | None = None,
    ) -> None:
        self._cluster, self._kinds = cluster, SETS[faults] if kinds is None else tuple(kinds)
        self._more = dict(more or {})
        self._chance, self._interval_s = Random(f"{faults} {seed}"), interval_s
        self._due: list[tuple[float, int, Callable[[int], None]]] = []
        """When what is done to which broker."""
        self._leaving: dict[int, float] = {}
        """When one that was asked to leave is started again, counted from its end."""
        self._early: set[int] = set()
        """Those that were asked to leave before they served: the signal may have ended them."""
        self._touched: set[int] = set()
        """Those that may end by themselves: something has befallen what they need."""
        self._befallen: dict[int, Fault] = {}
        self._open: dict[int, tuple[float, str]] = {}
        """What befalls whom now, and since when."""
        self.spans: list[Span] = []
        self.exits: list[str] = []
        """The last words of brokers that ended because of what befell them."""
        self.done: Counter[str] = Counter()
        self.troubled: list[tuple[float, str, int]] = []
        """When each fault began, which, and of whom."""

    def rage(self, seconds: float, meanwhile: Callable[[], object]) -> None:
        """Let faults happen for so long."""
        end, next_at = Diary.now() + seconds, Diary.now()
        while Diary.now() < end:
            self._step()
            if Diary.now() >= next_at:
                self._strike()
                # Some come before the last one is over, others when all is well again.
                pause = self._chance.choice((1.0, 3.0, 2 * DEAD_INTERVALS))
                next_at = Diary.now() + self._chance.uniform(0.5, pause) * self._interval_s + 0.5
            meanwhile()
            time.sleep(STEP_S)  # noqa: TID251 (time has to pass)

    def heal(self) -> float:
        """End all faults, and return when every broker was serving again."""
        for node in list(self._cluster.frozen):
            self._cluster.thaw(node)
        self._due = [(0.0, *rest) for _, *rest in self._due]  # type: ignore[misc]
        self._leaving = dict.fromkeys(self._leaving, 0.0)
        deadline = time.monotonic() + HEAL_S
        while self._due or self._leaving or not self._all_ready():
            self._step()
            if time.monotonic() > deadline:
                raise LateError(f"brokers do not end or start: {self._leaving or self.exits}")
            time.sleep(STEP_S)  # noqa: TID251 (nothing to wait on but other processes)
        return Diary.now()

    def _all_ready(self) -> bool:
        return all(broker.is_ready() for broker in self._cluster.brokers.values())

    def _strike(self) -> None:
        busy = (
            {node for _, node, _ in self._due} | self._leaving.keys()
        ) & self._cluster.brokers.keys()
        calm = [node for node in self._cluster.brokers if node not in busy]
        if self._chance.random() < READY:  # The others are struck while they start.
            calm = [node for node in calm if self._cluster.brokers[node].is_ready()]
        if not self._kinds or not calm or (len(calm) == 1 and self._chance.random() < 0.8):
            return
        node, kind = self._chance.choice(calm), self._chance.choice(self._kinds)
        fault = self._more.get(kind)
        if fault is not None and fault.is_beside:
            node = -1 - self._kinds.index(kind)  # Nobody else has this number.
        if node in self._befallen or (fault is not None and not fault.may_begin()):
            return
        if kind == "kill all" and (len(busy) > 0 or self._chance.random() < 0.5):
            kind = "kill"
        self.done[kind] += 1
        self.troubled.append((Diary.now(), kind, node))
        longest = 3.0 if kind == "freeze" or kind in self._more else 2.0
        intervals = self._chance.choice((0.5, 2.0, longest * DEAD_INTERVALS))
        for_s = self._chance.uniform(0.0, intervals) * self._interval_s
        self._open[node] = (Diary.now(), kind)
        if fault is not None:
            self._befallen[node] = fault
            self._touched.add(node)
            fault.begin(node, self._chance)
            until = Diary.now() + max(for_s, fault.least_s)
            self._due.append((until, node, self._end))
        elif kind == "leave":
            if not self._cluster.brokers[node].is_ready():
                self._early.add(node)
            self._cluster.leave(node)
            self._leaving[node] = for_s
        elif kind == "freeze":
            self._cluster.freeze(node)
            self._due.append((Diary.now() + for_s + 0.1, node, self._cluster.thaw))
        else:
            for one in calm if kind == "kill all" else [node]:
                self._open[one] = (Diary.now(), kind)
                self._cluster.kill(one)
                self._due.append((Diary.now() + for_s, one, self._launch))

    def _end(self, node: int) -> None:
        fault = self._befallen.pop(node)
        fault.end(node)
        if fault.is_shared:
            self._touched.update(self._cluster.brokers)

    def _launch(self, node: int) -> None:
        if node not in self._befallen:
            self._touched.discard(node)
        self._cluster.launch(node)

    def _may_end(self, node: int) -> bool:
        """Whether a broker may end by itself, or not start."""
        return node in self._touched or any(one.is_shared for one in self._befallen.values())

    def _step(self) -> None:
        """Do what is due, and see that whoever should run does."""
        now = Diary.now()
        for node, fault in self._befallen.items():
            if fault.meanwhile is not None:
                fault.meanwhile(node)
        for row in [row for row in self._due if row[0] <= now]:
            self._due.remove(row)
            _, node, action = row
            action(node)
            if node in self._open and node not in self._befallen:
                self.spans.append(Span(self._open[node][0], now, self._open.pop(node)[1], node))
        for node, for_s in list(self._leaving.items()):
            status = self._cluster.brokers[node].ended()
            if status is not None:
                may = node in self._early and status == -signal.SIGTERM
                is_right = status == 0 or may or self._may_end(node)
                assert is_right, f"broker {node} left with {status}: {self._words(node)}"
                del self._leaving[node]
                self._early.discard(node)
                self._due.append((now + for_s, node, self._launch))
        down = {node for _, node, action in self._due if action == self._launch}
        for node in self._cluster.brokers.keys() - down - self._leaving.keys():
            if not self._cluster.brokers[node].is_running:
                words = self._words(node)
                assert self._may_end(node), f"broker {node} ended by itself: {words}"
                self.exits.append(f"broker {node}: {words[-400:]}")
                self._cluster.brokers[node].ended()
                self._due.append((now + AGAIN_S, node, self._launch))

    def _words(self, node: int) -> str:
        return self._cluster.log(node).read_text(errors="replace")[-2000:]
