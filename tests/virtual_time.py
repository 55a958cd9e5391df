"""An event loop on which an hour takes no time, and the clocks that go with it.

    run_virtually(story())       in it, whenever nobody can go on, time goes on
    await pass_time(30)          what is due within half a minute has happened
    VirtualClock()               the clocks of such a loop; elsewhere, those of the machine

Nothing takes time here but waiting: work, and threads, take none. So a timer comes exactly when it
is due, however busy the machine is, and what must not happen can be waited for without waiting.

Sockets of this process are as good as memory: bytes that one end has sent are there for the other
when the loop looks. The kernel may be a little late, so it gets a moment before time goes on. What
waits for another process, or for the kernel's own timers (a peer that closed its window), is told
on a loop of the machine's time, with ``until`` of ``patience``.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from lakelog.host import SystemClock

__all__ = ["VirtualClock", "pass_time", "passed_ms", "run_virtually"]

T = TypeVar("T")

STEP_S = 0.02
"""How far time goes on before the kernel gets another moment."""

MOMENT_S = 0.001
TURN_S = 1e-9
"""A loop takes its timers as early as this. Who looks at the clock then must not wait for ever."""

_BEGINS_S = 1_000.0
LIMIT_S = 3600.0
"""What has not ended after an hour on such a loop hangs."""


class _Selector(selectors.DefaultSelector):
    """A selector that moves time instead of waiting for it."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = _BEGINS_S
        self.threads = 0
        """Those that were asked for something, and have not answered."""
        self._looked_s = self.now_s

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now_s += TURN_S
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        if timeout is None or self.threads:
            return super().select(None)
        if self.now_s + timeout - self._looked_s >= STEP_S:
            self._looked_s = self.now_s + timeout
            found = super().select(MOMENT_S)
        if not found:
            self.now_s += timeout
        return found


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.virtual = _Selector()
        self.began_ms = SystemClock().now_ms(), SystemClock().boot_ms()
        super().__init__(self.virtual)

    def time(self) -> float:
        return self.virtual.now_s

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        future = super().run_in_executor(executor, func, *args)
        self.virtual.threads += 1
        future.add_done_callback(self._answered)
        return future

    def _answered(self, _: object) -> None:
        self.virtual.threads -= 1


_running: list[_Loop] = []


class VirtualClock(SystemClock):
    """The clocks of a virtual loop, if one runs; else those of this machine."""

    def now_ms(self) -> int:
        return _running[-1].began_ms[0] + passed_ms() if _running else super().now_ms()

    def boot_ms(self) -> int:
        return _running[-1].began_ms[1] + passed_ms() if _running else super().boot_ms()


def passed_ms() -> int:
    """Return how long a virtual loop has run; 0 if none does."""
    return round((_running[-1].time() - _BEGINS_S) * 1000) if _running else 0


def run_virtually(story: Coroutine[Any, Any, T]) -> T:
    """Run a story whose waiting takes no time."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, _Loop)
        _running.append(loop)
        try:
            return runner.run(asyncio.wait_for(story, LIMIT_S))
        finally:
            _running.remove(loop)


async def pass_time(seconds: float) -> None:
    """Let time pass; whatever is due by then happens."""
    assert isinstance(asyncio.get_running_loop(), _Loop), "it takes real time here: use until"
    await asyncio.sleep(seconds)
