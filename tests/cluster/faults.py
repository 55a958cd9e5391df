"""What befalls the brokers of a cluster, by a seed.

    none     nothing at all
    kill     kill -9, and started again under its id: at once, or when the others know it is dead
    freeze   SIGSTOP, for a moment or for longer than the others wait, and SIGCONT
    leave    SIGTERM, and started again when it has ended
    mixed    all of these, two at a time now and then, and once in a while all brokers are killed

Brokers die with the thread that started them, so everything here is done on the caller's.
"""

import signal
import time
from collections import Counter
from collections.abc import Callable
from random import Random  # noqa: TID251 (seeded)

from tests.cluster.history import Diary
from tests.parts.cluster import Cluster
from tests.patience import LateError

__all__ = ["SETS", "Storm"]

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


class Storm:
    """Faults of some kinds, one after another, and sometimes two at once."""

    def __init__(self, cluster: Cluster, faults: str, seed: int, interval_s: float) -> None:
        self._cluster, self._kinds = cluster, SETS[faults]
        self._chance, self._interval_s = Random(f"{faults} {seed}"), interval_s
        self._due: list[tuple[float, int, Callable[[int], None]]] = []
        """When what is done to which broker."""
        self._leaving: dict[int, float] = {}
        """When one that was asked to leave is started again, counted from its end."""
        self._early: set[int] = set()
        """Those that were asked to leave before they served: the signal may have ended them."""
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
        while self._due or self._leaving:
            self._step()
            if time.monotonic() > deadline:
                raise LateError(f"brokers {list(self._leaving)} do not end")
            time.sleep(STEP_S)  # noqa: TID251 (nothing to wait on but other processes)
        for broker in self._cluster.brokers.values():
            broker.wait()
        return Diary.now()

    def _strike(self) -> None:
        busy = {node for _, node, _ in self._due} | self._leaving.keys()
        calm = [node for node in self._cluster.brokers if node not in busy]
        if self._chance.random() < READY:  # The others are struck while they start.
            calm = [node for node in calm if self._cluster.brokers[node].is_ready()]
        if not self._kinds or not calm or (len(calm) == 1 and self._chance.random() < 0.8):
            return
        node, kind = self._chance.choice(calm), self._chance.choice(self._kinds)
        if kind == "kill all" and (len(busy) > 0 or self._chance.random() < 0.5):
            kind = "kill"
        self.done[kind] += 1
        self.troubled.append((Diary.now(), kind, node))
        intervals = self._chance.choice((0.5, 2.0, 2.0 * DEAD_INTERVALS))
        for_s = self._chance.uniform(0.0, intervals) * self._interval_s
        if kind == "leave":
            if not self._cluster.brokers[node].is_ready():
                self._early.add(node)
            self._cluster.leave(node)
            self._leaving[node] = for_s
        elif kind == "freeze":
            self._cluster.freeze(node)
            self._due.append((Diary.now() + for_s + 0.1, node, self._cluster.thaw))
        else:
            for one in calm if kind == "kill all" else [node]:
                self._cluster.kill(one)
                self._due.append((Diary.now() + for_s, one, self._cluster.launch))

    def _step(self) -> None:
        """Do what is due, and see that whoever should run does."""
        now = Diary.now()
        for row in [row for row in self._due if row[0] <= now]:
            self._due.remove(row)
            _, node, action = row
            action(node)
        for node, for_s in list(self._leaving.items()):
            status = self._cluster.brokers[node].ended()
            if status is not None:
                is_right = status == 0 or (node in self._early and status == -signal.SIGTERM)
                assert is_right, f"broker {node} left with {status}: {self._words(node)}"
                del self._leaving[node]
                self._early.discard(node)
                self._due.append((now + for_s, node, self._cluster.launch))
        down = {node for _, node, action in self._due if action != self._cluster.thaw}
        for node in self._cluster.brokers.keys() - down - self._leaving.keys():
            if not self._cluster.brokers[node].is_running:
                raise AssertionError(f"broker {node} ended by itself: {self._words(node)}")

    def _words(self, node: int) -> str:
        return self._cluster.log(node).read_text(errors="replace")[-2000:]
