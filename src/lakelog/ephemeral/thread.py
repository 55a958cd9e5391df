"""A broker on a loop of its own, in a thread of the process that tests.

The thread is a daemon: a process that ends without stopping it is not kept. Everything that the
broker does is done on its loop; ``call`` is how others have something done there.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import uvloop

from lakelog.broker import Broker, BrokerSettings, run_broker
from lakelog.errors import UnavailableError
from lakelog.store import Store

__all__ = ["BrokerThread"]

T = TypeVar("T")

START_S = STOP_S = CALL_S = 30.0
"""Far longer than it takes: what does not end then never does."""


class BrokerThread:
    """A broker that runs, from here until it is stopped."""

    def __init__(
        self, store: Store, settings: BrokerSettings, log: Any, began: Callable[[Broker], None]
    ) -> None:
        """Start it; ``began`` is called on its loop before clients are told of it.

        Raises:
            LakelogError: it cannot start.
        """
        self._owner = os.getpid()
        self._ready: Future[tuple[Broker, asyncio.AbstractEventLoop]] = Future()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(
            target=self._run,
            args=(self._serve(store, settings, log, began),),
            name="lakelog-broker",
            daemon=True,
        )
        self._thread.start()
        self.broker, self._loop = self._ready.result(START_S)

    @property
    def port(self) -> int:
        return next(iter(self.broker.ports.values()))

    def stop(self) -> None:
        """Let it answer what it has accepted, and end. In a forked process there is none."""
        if os.getpid() != self._owner or not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            raise UnavailableError(f"the broker has not stopped within {STOP_S:.0f} s: try again")

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done on the loop of the broker, and return what comes of it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_S)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(work)
        except BaseException as error:  # It is raised where the broker is started.
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    async def _serve(
        self, store: Store, settings: BrokerSettings, log: Any, began: Callable[[Broker], None]
    ) -> None:
        async with run_broker(store, settings, log) as broker:
            began(broker)
            self._ready.set_result((broker, asyncio.get_running_loop()))
            await self._stop.wait()
