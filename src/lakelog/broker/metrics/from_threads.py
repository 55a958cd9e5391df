"""Lets threads count what they ask the store for: the counters are the loop's."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from lakelog.broker.metrics.counters import Metrics
from lakelog.store import Op

__all__ = ["CountsFromThreads"]


class CountsFromThreads:
    """An observer of operations that are performed in threads."""

    def __init__(self, metrics: Metrics, loop: asyncio.AbstractEventLoop) -> None:
        self._metrics, self._loop = metrics, loop

    def begin(self, op: Op) -> Callable[[Any], None]:
        """Return what counts an operation when it has ended."""
        ended = self._metrics.begin(op)

        def tell(answer: Any) -> None:
            self._loop.call_soon_threadsafe(partial(ended, answer))

        return tell
