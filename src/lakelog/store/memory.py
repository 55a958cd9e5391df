"""A store in memory, for tests and trials: it is gone with its process.

One lock makes every operation atomic. Etags are numbers that only go up, so a key that was deleted
and created again never has an old one.
"""

import threading
import time
from bisect import bisect_right, insort
from collections.abc import Callable
from typing import Any, NoReturn

from lakelog.errors import InvalidInputError, NotFoundError
from lakelog.store.operations import (
    Body,
    Changed,
    Created,
    Delete,
    Exists,
    Fetched,
    Get,
    GetRange,
    GetSuffix,
    Head,
    ListPage,
    ObjectInfo,
    Op,
    Page,
    PutIfAbsent,
    PutIfMatch,
    PutTogether,
    Replaced,
    join_body,
)
from lakelog.store.pieces import byte_range, check_size

__all__ = ["MemoryStore"]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryStore:
    """Objects in a dictionary of this process."""

    url = "memory:"

    def __init__(self, *, now_ms: Callable[[], int] = _now_ms) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[ObjectInfo, Body]] = {}
        self._keys: list[str] = []
        self._versions = 0

    def perform(self, op: Op) -> Any:
        """Perform one operation."""
        with self._lock:
            match op:
                case ListPage():
                    return self._list(op)
                case Head():
                    return self._found(op.key)[0]
                case Get() | GetRange() | GetSuffix():
                    return self._fetch(op)
                case PutIfAbsent():
                    if op.key in self._objects:
                        return Exists()
                    return Created(etag=self._store(op.key, op.body, op.size))
                case PutIfMatch() | PutTogether():
                    held = self._objects.get(op.key)
                    if held is None or held[0].etag != op.etag:
                        return Changed()
                    if isinstance(op, PutTogether):
                        self._put_others(op)
                    return Replaced(etag=self._store(op.key, op.body, len(op.body)))
                case Delete():
                    return self._delete(op.key)

    async def perform_async(self, op: Op) -> Any:
        """Perform one operation; nothing here waits."""
        return self.perform(op)

    def __reduce__(self) -> NoReturn:
        raise InvalidInputError(
            "a memory store cannot leave its process: use file:// or an object store"
        )

    def _list(self, op: ListPage) -> Page:
        at = bisect_right(self._keys, max(op.after, op.prefix))
        keys = self._keys[at : at + op.limit]
        below = tuple(self._objects[key][0] for key in keys if key.startswith(op.prefix))
        return Page(objects=below, more=len(below) == op.limit)

    def _found(self, key: str) -> tuple[ObjectInfo, Body]:
        if key not in self._objects:
            raise NotFoundError(f"there is no object {key!r} in memory: check the key")
        return self._objects[key]

    def _fetch(self, op: Get | GetRange | GetSuffix) -> Fetched:
        info, body = self._found(op.key)
        check_size(op, info)
        start, end = byte_range(op, info.size)
        if not isinstance(body, bytes):
            body = join_body(body)
            self._objects[op.key] = info, body
        return Fetched(info=info, start=start, body=body[start:end])

    def _put_others(self, op: PutTogether) -> None:
        for key, body in op.others:
            if body is None:
                self._delete(key)
            else:
                self._store(key, body, len(body))

    def _delete(self, key: str) -> None:
        if self._objects.pop(key, None):
            self._keys.remove(key)

    def _store(self, key: str, body: Body, size: int) -> str:
        if key not in self._objects:
            insort(self._keys, key)
        self._versions += 1
        etag = str(self._versions)
        now_ms = self._now_ms()
        info = ObjectInfo(key=key, size=size, etag=etag, modified_ms=now_ms)
        self._objects[key] = info, body
        return etag
