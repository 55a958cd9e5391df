"""A coordinator that takes every shard at once, whoever has it; one that was fenced does not again.

So a story needs no cluster to have two coordinators, one after the other or both at the same time.
Who may really take a shard, and when, is told in ``test_claims``.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from lakelog.broker.claims import Claims
from lakelog.broker.cluster import Cluster
from lakelog.broker.coordinator import Coordinator
from lakelog.coordination import SHARDS, BucketGroups, ClaimedShard
from lakelog.errors import FencedError, LakelogError
from lakelog.host import new_id
from lakelog.store import PerformAsync, run_async
from tests.virtual_time import VirtualClock

__all__ = ["NODE_ID", "GreedyClaims", "greedy_coordinator"]

NODE_ID = 3


class GreedyClaims(Claims):
    """Claims of a broker that is alone, as far as it knows."""

    def __init__(
        self, store: BucketGroups, perform: PerformAsync, on_error: Callable[[LakelogError], None]
    ) -> None:
        alone = cast("Cluster", SimpleNamespace(node=None, node_id=NODE_ID, heartbeat_ms=3_000))
        super().__init__(store, perform, cluster=alone, clock=VirtualClock(), on_error=on_error)
        self.taken: set[int] = set()
        """The shards that others have taken. A story that wants them back clears it."""

    @property
    def expects_release(self) -> bool:
        return False

    def is_due(self, shard: int, shards: int) -> bool:
        return self.is_mine(shard, shards)

    def is_mine(self, shard: int, shards: int) -> bool:  # noqa: ARG002
        return shard not in self.taken

    async def claim(self, shard: int, shards: int) -> ClaimedShard | None:
        try:
            return await run_async(self._store.claim(shard, shards), self._perform)
        except FencedError as error:
            self._on_error(error)
            return None

    def is_elsewhere(self, shard: int, shards: int) -> bool:
        return not self.is_mine(shard, shards)

    async def fenced(self, shard: int) -> None:
        self.taken.add(shard)

    async def find(self, shard: int, shards: int) -> int | None:  # noqa: ARG002
        return NODE_ID


def greedy_coordinator(
    perform: PerformAsync,
    *,
    shards: int = SHARDS,
    on_error: Callable[[LakelogError], None] = lambda _: None,
    **options: Any,
) -> Coordinator:
    """Return a coordinator of another broker each time."""
    store = BucketGroups(new_id(), shards)
    return Coordinator(
        store,
        perform,
        claims=GreedyClaims(store, perform, on_error),
        clock=VirtualClock(),
        ids=new_id,
        on_error=on_error,
        **options,
    )
