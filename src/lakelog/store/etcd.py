"""Cells in etcd: small objects that are changed by compare-and-swap, several at once if need be.

    etcd://host:2379,host:2379/folder

    key     {folder}/{key of the object}
    value   milliseconds since 1970, a space, and the body: etcd itself keeps no time
    etag    {revision of its last change}.{mark of the place}

**The place** is the cell ``_lakelog/metadata.json``, which says whose metadata these are. Every
request is a transaction that compares it as well. An etcd that was lost and made anew counts its
revisions from 1, and the etag of an object of the former one could fit an object of the new one;
and one that is empty would tell that there are no brokers. Where there is no such cell nothing is
known, and nothing is written but that cell. Whoever has seen it once goes on with that one alone:
where another stands now, the metadata were moved or restored, and nothing is done or told.

A transaction whose answer is lost may have been stored: UnavailableError, as for any store.
"""

import hashlib
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from lakelog.errors import InvalidInputError, NotFoundError, UnavailableError
from lakelog.flows import run, run_async
from lakelog.names import METADATA_KEY
from lakelog.store.etcd_calls import (
    Answer,
    Caller,
    Failure,
    Read,
    Remove,
    Request,
    Row,
    Step,
    Write,
    check_options,
)
from lakelog.store.keys import check_key
from lakelog.store.operations import (
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

__all__ = ["ETCD_BYTES_MAX", "ETCD_CHANGES_MAX", "EtcdStore"]

ETCD_BYTES_MAX = 1 << 20
"""Of one request; etcd takes 1.5 MiB, and names and numbers need some of it."""
ETCD_CHANGES_MAX = 100
"""Of one request; etcd takes 128 of what a transaction does and compares."""


class _Place(NamedTuple):
    """The value of the cell that says whose metadata these are, and its mark in etags."""

    value: bytes
    mark: str


class _Told(NamedTuple):
    """An answer, and the mark of the place that it is of."""

    answer: Answer
    mark: str

    def etag(self, revision: int) -> str:
        return f"{revision}.{self.mark}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class EtcdStore:
    """The cells below a folder of etcd."""

    def __init__(
        self,
        url: str,
        options: Mapping[str, str] | None = None,
        *,
        now_ms: Callable[[], int] = _now_ms,
    ) -> None:
        self.url = url.rstrip("/")
        self._options = dict(options or {})
        check_options(self.url, self._options)
        parts = urlsplit(self.url)
        folder = parts.path.strip("/")
        endpoints = parts.netloc.split(",")
        if parts.scheme != "etcd" or not all(endpoints) or "@" in parts.netloc or not folder:
            raise InvalidInputError(
                f"{url!r} is no address of etcd: use etcd://host:2379,host:2379/folder"
            )
        check_key(folder)
        self._folder = folder + "/"
        self._now_ms = now_ms
        self._caller = Caller(endpoints, self._options)
        self._place: _Place | None = None

    def __repr__(self) -> str:
        return f"EtcdStore({self.url!r})"  # Options may be secrets.

    def __reduce__(self) -> tuple[object, ...]:
        return (EtcdStore, (self.url, self._options))

    def perform(self, op: Op) -> Any:
        """Perform one operation and wait for it."""
        return run(self._perform(op), self._caller.call)

    async def perform_async(self, op: Op) -> Any:
        """Perform one operation on the running loop."""
        return await run_async(self._perform(op), self._caller.call_async)

    async def close(self) -> None:
        """Close what the running loop has opened."""
        await self._caller.close()

    # ------------------------------------------------------------------------ operations

    def _perform(self, op: Op) -> Generator[Request, Any, Any]:
        match op:
            case ListPage():
                return (yield from self._list(op))
            case Head():
                return (yield from self._find(op.key)).info
            case Get() | GetRange() | GetSuffix():
                return (yield from self._fetch(op))
            case PutIfAbsent():
                change = (op.key, join_body(op.body))
                done = yield from self._change(op.key, 0, (change,))
                return Exists() if done is None else Created(etag=done)
            case PutIfMatch() | PutTogether():
                return (yield from self._replace(op))
            case Delete():
                yield from self._change("", 0, ((op.key, None),))
                return None

    def _fetch(self, op: Get | GetRange | GetSuffix) -> Generator[Request, Any, Fetched]:
        found = yield from self._find(op.key)
        check_size(op, found.info)
        start, end = byte_range(op, found.info.size)
        return Fetched(info=found.info, start=start, body=found.body[start:end])

    def _find(self, key: str) -> Generator[Request, Any, Fetched]:
        told = yield from self._ask(key, {}, (Read(self._folder + key),))
        rows, _ = told.answer.found[0]
        if not rows:
            raise NotFoundError(f"there is no object {key!r} in {self.url}: check the key")
        written_ms, _, body = rows[0].value.partition(b" ")
        info = ObjectInfo(
            key=key, size=len(body), etag=told.etag(rows[0].revision), modified_ms=int(written_ms)
        )
        return Fetched(info=info, start=0, body=body)

    def _list(self, op: ListPage) -> Generator[Request, Any, Page]:
        """List keys and etags. Sizes and times stand in the values, which are not asked for."""
        first = self._folder + (op.after + "\0" if op.after > op.prefix else op.prefix)
        wanted = Read(first, below=self._folder + op.prefix, limit=op.limit)
        told = yield from self._ask("", {}, (wanted,))
        rows, more = told.answer.found[0]
        objects = tuple(
            ObjectInfo(
                key=row.key.removeprefix(self._folder),
                size=0,
                etag=told.etag(row.revision),
                modified_ms=-1,
            )
            for row in rows
        )
        return Page(objects=objects, more=more)

    def _replace(self, op: PutIfMatch | PutTogether) -> Generator[Request, Any, Replaced | Changed]:
        revision, _, mark = op.etag.partition(".")
        others = op.others if isinstance(op, PutTogether) else ()
        if len(others) >= ETCD_CHANGES_MAX or op.size > ETCD_BYTES_MAX:
            raise InvalidInputError(
                f"{op.key}: {len(others)} objects and {op.size} bytes at once: etcd takes fewer "
                f"than {ETCD_CHANGES_MAX}, and {ETCD_BYTES_MAX} bytes"
            )
        if op.key != METADATA_KEY and mark != (yield from self._known_place()).mark:
            return Changed()
        changes = ((op.key, op.body), *others)
        done = yield from self._change(op.key, int(revision), changes)
        return Changed() if done is None else Replaced(etag=done)

    def _change(
        self, key: str, revision: int, changes: Sequence[tuple[str, bytes | None]]
    ) -> Generator[Request, Any, str | None]:
        """Change objects if that of ``key`` has this revision, 0 for none; its etag, or None."""
        written = f"{self._now_ms()} ".encode()
        steps: list[Step] = [
            Remove(self._folder + name)
            if body is None
            else Write(self._folder + name, written + body)
            for name, body in changes
        ]
        compared = {self._folder + key: revision} if key else {}
        told = yield from self._ask(key or changes[0][0], compared, steps)
        return told.etag(told.answer.revision) if told.answer.done else None

    # ------------------------------------------------------------------------ the place

    def _ask(
        self, key: str, revisions: Mapping[str, int], steps: Sequence[Step]
    ) -> Generator[Request, Any, _Told]:
        """Perform a transaction, if the place is the one that is known."""
        if key == METADATA_KEY:
            # It is the place itself: whoever writes it compares it by its revision.
            answer = yield from self._call(Request(revisions, {}, steps))
            self._place = None
            return _Told(answer, "")
        place_key = self._folder + METADATA_KEY
        place = yield from self._known_place()
        request = Request(revisions, {place_key: place.value}, steps, (Read(place_key),))
        answer = yield from self._call(request)
        if answer.done or _only(answer) == place.value:
            return _Told(answer, place.mark)
        raise UnavailableError(
            f"{self.url}: its metadata were lost, moved or restored: a broker finds out where they "
            "are by itself; run a command again"
        )

    def _call(self, request: Request) -> Generator[Request, Any, Answer]:
        answer: Answer | Failure = yield request
        if isinstance(answer, Failure):
            raise answer.explained(self.url)
        return answer

    def _known_place(self) -> Generator[Request, Any, _Place]:
        if self._place is None:
            key = self._folder + METADATA_KEY
            value = _only((yield from self._call(Request({}, {}, (Read(key),)))))
            if value is None:
                raise UnavailableError(
                    f"{self.url} has no metadata of a namespace: check its address; if it has lost "
                    "them, lakelog meta restore brings back what the bucket has of them"
                )
            self._place = _Place(value, hashlib.sha256(value).hexdigest()[:16])
        return self._place


def _only(answer: Answer) -> bytes | None:
    """Return the value of the one key that was read; None: there is no such key."""
    rows: Sequence[Row]
    ((rows, _),) = answer.found
    return rows[0].value if rows else None
