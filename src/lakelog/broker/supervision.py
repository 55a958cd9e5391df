"""The owner of the tasks of a broker: none dies unnoticed, and what can begin again does.

    keep      a task that lives as long as the broker: when it dies it begins again, later each time
    every     the same, for work that is done every so many seconds
    once      work whose end is not waited for, the answer to a request for instance
    awaited   work whose error is raised where it is awaited

    call      a callback: when it raises, the caller goes on

Every death is logged with its name, its cause and its traceback, and is counted. A task that lives
for ever and returns has ended because it was told to.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import Any, ParamSpec, TypeVar

import structlog
from structlog.typing import FilteringBoundLogger

from lakelog.broker.meters import task_context, timed
from lakelog.broker.metrics.counters import Metrics

__all__ = ["Supervisor", "awaited"]

DELAY_S_MIN = 0.1
DELAY_S_MAX = 30.0
"""From a death to the next start; the shortest again for a task that has lived for as long."""

T = TypeVar("T")
P = ParamSpec("P")


def awaited(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """Start work that is awaited elsewhere: its error is raised there."""
    return asyncio.create_task(timed(work), context=task_context())


class Supervisor:
    """The tasks of one broker."""

    def __init__(
        self, log: FilteringBoundLogger | None = None, metrics: Metrics | None = None
    ) -> None:
        self._log: FilteringBoundLogger = log or structlog.get_logger()
        self._metrics = metrics or Metrics()
        self._tasks: set[asyncio.Task[None]] = set()
        self._dead: dict[str, str] = {}
        """Tasks that wait for their next life, and what they died of."""

    def keep(self, name: str, work: Callable[[], Awaitable[None]]) -> "asyncio.Task[None]":
        """Let a task live until it returns or is cancelled; whatever else ends it, it goes on."""
        # It is nobody's request, also if one had it begin.
        return self._own(self._kept(name, work), Context())

    def every(
        self, name: str, every_s: float, work: Callable[[], Awaitable[None]]
    ) -> "asyncio.Task[None]":
        """Keep a task that does some work again and again, and waits for so long before each."""

        async def again() -> None:
            while True:
                await asyncio.sleep(every_s)
                await work()

        return self.keep(name, again)

    def once(self, name: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start work that is not awaited."""
        task = self._own(timed(work), task_context())
        task.add_done_callback(lambda one: self._ended(name, one))
        return task

    def call(
        self, name: str, function: Callable[P, object], *args: P.args, **more: P.kwargs
    ) -> None:
        """Call a function that may raise: that is counted and logged, and no more."""
        try:
            function(*args, **more)
        except Exception as error:  # noqa: BLE001 (whatever it is, the caller goes on)
            self.failed(name, error)

    def failed(self, name: str, error: BaseException) -> None:
        """Count and log that a callback has raised."""
        self._metrics.callback_failures[name] += 1
        self._log.error("a callback failed", callback=name, error=repr(error), exc_info=error)

    def unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:  # noqa: ARG002
        """Take note of what the loop itself has caught: timers, transports, forgotten tasks."""
        error = context.get("exception")
        what = str(context.get("message", ""))[:512]
        self._metrics.callback_failures["loop"] += 1
        self._log.error("a callback failed", callback="loop", error=what, exc_info=error)

    def troubles(self) -> list[str]:
        """Say which tasks are dead now; each begins again."""
        return [f"{name} died: {why}: see the log" for name, why in sorted(self._dead.items())]

    async def close(self) -> None:
        """End every task that lives."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ------------------------------------------------------------------------ tasks

    def _own(
        self, work: Coroutine[Any, Any, None], context: Context | None = None
    ) -> "asyncio.Task[None]":
        task = asyncio.create_task(work, context=context)
        self._tasks.add(task)  # The loop itself would forget it.
        task.add_done_callback(self._tasks.discard)
        return task

    async def _kept(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        loop, delay_s = asyncio.get_running_loop(), DELAY_S_MIN
        try:
            while True:
                begun_s = loop.time()
                try:
                    await work()
                except (Exception, asyncio.CancelledError) as error:
                    task = asyncio.current_task()
                    if task is None or task.cancelling():
                        raise  # It is this task that was told to end.
                    if loop.time() - begun_s >= DELAY_S_MAX:
                        delay_s = DELAY_S_MIN
                    self._died(name, error, f"it begins again in {delay_s:g} s")
                    self._dead[name] = repr(error)[:256]
                else:
                    return
                await asyncio.sleep(delay_s)
                self._dead.pop(name, None)
                delay_s = min(2 * delay_s, DELAY_S_MAX)
        finally:
            self._dead.pop(name, None)

    def _ended(self, name: str, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._died(name, error, "it does not begin again")

    def _died(self, name: str, error: BaseException, what_next: str) -> None:
        self._metrics.task_deaths[name] += 1
        self._log.error("a task died", task=name, error=repr(error), next=what_next, exc_info=error)
