"""Cold reads, shared: what was fetched for one consumer is there for the next one.

    read of some bytes --> cached? --> on its way already? --> collected until the loop turns
                                                               `--> neighbours in one request

Ranges of the same object that are asked for in the same turn of the loop, which is what a fetch of
many partitions does, become one request where they are close together. Only objects that never
change are kept: bundles, segments and what belongs to them. Cells always go to the store.
"""

import asyncio
from collections import OrderedDict
from typing import Any

from lakelog.broker.metrics.counters import Metrics
from lakelog.broker.supervision import awaited
from lakelog.errors import LakelogError
from lakelog.store import Fetched, GetRange, ObjectInfo, Op, PerformAsync

__all__ = ["ColdCache"]

GAP_BYTES_MAX = 64 << 10
"""A gap of so many bytes between two ranges is fetched rather than making a second request."""

REQUEST_BYTES_MAX = 16 << 20

_IMMUTABLE = (".bundle", ".kfs", ".index", ".timeindex", ".batches", ".json")

_Asked = list[tuple[GetRange, asyncio.Future[Fetched]]]


class ColdCache:
    """Performs operations, ranges of immutable objects from memory where it can."""

    def __init__(
        self, perform: PerformAsync, size_bytes_max: int, metrics: Metrics | None = None
    ) -> None:
        self._perform = perform
        self._size_bytes_max = size_bytes_max
        self._kept: OrderedDict[GetRange, Fetched] = OrderedDict()
        self._coming: dict[GetRange, asyncio.Future[Fetched]] = {}
        self._asked: dict[str, _Asked] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.size_bytes = 0
        self._metrics = metrics or Metrics()
        self.fetched_bytes = 0

    async def perform(self, op: Op) -> Any:
        """Perform an operation."""
        if not isinstance(op, GetRange) or not op.key.endswith(_IMMUTABLE):
            return await self._perform(op)
        kept = self._kept.get(op)
        if kept is not None:
            self._metrics.cache_hits += 1
            self._kept.move_to_end(op)
            return kept
        coming = self._coming.get(op)
        if coming is None:
            self._metrics.cache_misses += 1
            coming = asyncio.get_running_loop().create_future()
            self._coming[op] = coming
            asked = self._asked.setdefault(op.key, [])
            asked.append((op, coming))
            if len(asked) == 1:
                asyncio.get_running_loop().call_soon(self._send, op.key)
        else:
            self._metrics.cache_hits += 1
        # A caller that gives up does not cancel it for the others that wait for it.
        return await asyncio.shield(coming)

    def _send(self, key: str) -> None:
        asked = self._asked.pop(key)
        asked.sort(key=lambda one: one[0].start)
        group: _Asked = []
        end = 0
        for op, answer in asked:
            near = op.start - end <= GAP_BYTES_MAX
            if group and not (near and op.end - group[0][0].start <= REQUEST_BYTES_MAX):
                self._start(group)
                group = []
            end = max(end, op.end) if group else op.end
            group.append((op, answer))
        self._start(group)

    def _start(self, group: _Asked) -> None:
        task = awaited(self._fetch(group))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _fetch(self, group: _Asked) -> None:
        start = group[0][0].start
        whole = GetRange(group[0][0].key, start, max(op.end for op, _ in group))
        try:
            found: Fetched = await self._perform(whole)
        except BaseException as error:
            for op, answer in group:
                del self._coming[op]
                if not answer.done():
                    answer.set_exception(error)
                    answer.exception()  # Retrieved, in case all callers have given up.
            if not isinstance(error, LakelogError):
                raise
            return
        self.fetched_bytes += len(found.body)
        for op, answer in group:
            del self._coming[op]
            if not answer.done():
                answer.set_result(self._keep(op, found, start))

    def _keep(self, op: GetRange, found: Fetched, start: int) -> Fetched:
        body = found.body[op.start - start : op.end - start]
        info: ObjectInfo = found.info
        one = Fetched(info=info, start=min(op.start, info.size), body=body)
        self._kept[op] = one
        self.size_bytes += len(body)
        while self.size_bytes > self._size_bytes_max and self._kept:
            _, gone = self._kept.popitem(last=False)
            self.size_bytes -= len(gone.body)
        return one
