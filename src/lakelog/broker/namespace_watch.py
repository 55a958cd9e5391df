"""The namespace, looked at again and again: lanes that were added, groups that were moved.

Where members and groups are is read once, when a broker starts. If that has changed since
(``catalog.moves``), nothing that this broker knows of them counts any more: it ends, and whoever
runs it starts it anew in the same process. While a move goes on the look comes more often.
"""

import asyncio

from lakelog.broker.all_lanes import AllLanes
from lakelog.catalog import Namespace, open_namespace
from lakelog.store import PerformAsync, run_async, working_async

__all__ = ["NAMESPACE_LOOK_S", "NamespaceWatch"]

NAMESPACE_LOOK_S = 5.0
MOVING_LOOK_S = 0.5


class NamespaceWatch:
    """What one broker knows of its namespace, and whether that is still so."""

    def __init__(self, namespace: Namespace, perform: PerformAsync, lanes: AllLanes) -> None:
        self._namespace, self._lanes = namespace, lanes
        self._perform = working_async(perform)
        self._moved = asyncio.Event()

    @property
    def is_moved(self) -> bool:
        """Whether members and groups are elsewhere now."""
        return self._moved.is_set()

    async def moved(self) -> None:
        """Wait until members and groups are elsewhere."""
        await self._moved.wait()

    async def watch(self) -> None:
        """Look, for as long as the broker runs.

        Raises:
            LakelogError: there was no answer; look again.
        """
        while True:
            now = await run_async(open_namespace(), self._perform)
            self._lanes.grow(now.rules.lanes)
            before = self._namespace
            if (now.metadata, now.moves) != (before.metadata, before.moves):
                self._moved.set()
            await asyncio.sleep(NAMESPACE_LOOK_S if now.moving is None else MOVING_LOOK_S)
