"""A bucket of which etcd keeps a part: the cells of members and groups.

    _lakelog/brokers/...   _lakelog/groups/...   _lakelog/metadata.json     etcd
    all else                                                                the bucket

Who works with objects does not know which of the two keeps them. A listing from above shows what is
in the bucket.
"""

from typing import Any, Protocol

from lakelog.names import BROKERS_PREFIX, GROUPS_PREFIX, METADATA_KEY
from lakelog.store.drive import PerformAsync
from lakelog.store.meter import OperationObserver, metered_async
from lakelog.store.operations import ListPage, Op

__all__ = ["DividedStore", "is_cell", "metered_store"]

_CELLS = (BROKERS_PREFIX, GROUPS_PREFIX, METADATA_KEY)


class _Store(Protocol):
    @property
    def url(self) -> str: ...

    def perform(self, op: Op) -> Any: ...

    async def perform_async(self, op: Op) -> Any: ...


def metered_store(
    store: _Store, observer: OperationObserver, cells_observer: OperationObserver
) -> PerformAsync:
    """Return what performs operations on a loop, and counts them; those that the bucket is asked
    for by themselves, because they have a price.
    """
    if not isinstance(store, DividedStore):
        return metered_async(store.perform_async, observer)
    bucket = metered_async(store.bucket.perform_async, observer)
    cells = metered_async(store.cells.perform_async, cells_observer)

    async def perform(op: Op) -> Any:
        return await (cells(op) if is_cell(op) else bucket(op))

    return perform


def is_cell(op: Op) -> bool:
    """Whether etcd is asked, and not the bucket."""
    return (op.prefix if isinstance(op, ListPage) else op.key).startswith(_CELLS)


class DividedStore:
    """Two stores as one."""

    def __init__(self, bucket: _Store, cells: _Store) -> None:
        self.bucket, self.cells = bucket, cells

    @property
    def url(self) -> str:
        """Where the log is."""
        return self.bucket.url

    def __repr__(self) -> str:
        return f"DividedStore({self.bucket!r}, {self.cells!r})"

    def perform(self, op: Op) -> Any:
        """Perform one operation and wait for it."""
        return self._of(op).perform(op)

    async def perform_async(self, op: Op) -> Any:
        """Perform one operation on the running loop."""
        return await self._of(op).perform_async(op)

    def _of(self, op: Op) -> _Store:
        return self.cells if is_cell(op) else self.bucket
