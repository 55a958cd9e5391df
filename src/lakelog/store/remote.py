"""S3, Google Cloud Storage and Azure, by obstore.

obstore has a function for the caller who waits and one for the event loop, for each thing it can
do. To say once what an operation is made of, it is a flow of calls; ``run`` makes each by the
plain function, ``run_async`` by the one that ends in ``_async``.

All retries of obstore are off. Repeating a conditional PUT behind our back turns its own success
into "exists"; repeating reads is the business of ``retrying``, which the meter sees.

A request has a time-out, its body included: 30 seconds for up to 16 MiB, and for more bytes as much
longer, in doublings, so that a line which can carry a bundle can carry a segment. A long read must
besides make progress: a server that sends nothing for 30 seconds is given up. obstore has one
time-out for a client and none for a request, so there is a client for each. The option
``timeout``, where it is given, is the time-out of every request.

obstore is imported when the first operation is performed, and clients are made then. A store that
is pickled carries only its address and options, and connects where it arrives. The threads of the
library do not survive a fork, and a call in the child would wait for them for ever; so a child of
a process that has used a remote store is refused.
"""

import os
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lakelog.errors import InvalidInputError, LakelogError, UnavailableError
from lakelog.flows import run, run_async
from lakelog.store.faults import Fault
from lakelog.store.keys import check_key
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
    no_transactions,
)
from lakelog.store.pieces import byte_range, check_size

if TYPE_CHECKING:
    from obstore.store import ObjectStore

__all__ = ["SCHEMES", "RemoteStore", "timeout_s"]

SCHEMES = ("s3", "gs", "az")

_CLIENT_OPTIONS = {
    "allow_http", "allow_invalid_certificates", "connect_timeout", "http1_only", "http2_only",
    "pool_idle_timeout", "pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes",
    "proxy_url", "read_timeout", "root_certificate", "timeout", "user_agent",
}  # fmt: skip
"""Options of the HTTP client; every other one is of the store."""

CONNECT_TIMEOUT_S = 5
TIMEOUT_S = 30
TIMEOUT_BYTES = 16 << 20
"""A request that carries no more has ``TIMEOUT_S``: over half a megabyte a second."""
PUT_BYTES_MAX = 5 << 30
"""The largest object that S3 takes in one request; no time-out grows beyond what it has."""


def timeout_s(size: int) -> float:
    """Return how long a request that carries so many bytes may take."""
    carried = min(max(1, size), PUT_BYTES_MAX)
    return TIMEOUT_S * float(1 << ((carried - 1) // TIMEOUT_BYTES).bit_length())


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of obstore that waits for the network."""

    on: Any
    """The client, or something that a call returned."""
    name: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


_Calls = Generator[_Call, Any, Any]


class RemoteStore:
    """The objects of a bucket, or those below a folder of it."""

    def __init__(self, url: str, options: Mapping[str, str] | None = None) -> None:
        self.url = url.rstrip("/")
        self._options = dict(options or {})
        parts = urlsplit(self.url)
        self._scheme, self._bucket = parts.scheme, parts.netloc
        if self._scheme not in SCHEMES or not self._bucket or parts.query or parts.fragment:
            raise InvalidInputError(f"{url!r} is no address: use s3://bucket or s3://bucket/folder")
        folder = parts.path.strip("/")
        if folder:
            check_key(folder)
        self._folder = folder + "/" if folder else ""
        self._clients: dict[tuple[str, ...], ObjectStore] = {}

    def __repr__(self) -> str:
        return f"RemoteStore({self.url!r})"  # Options may be secrets.

    def __reduce__(self) -> tuple[object, ...]:
        return (RemoteStore, (self.url, self._options))

    def perform(self, op: Op) -> Any:
        """Perform one operation and wait for it."""
        return run(self._calls(op), _call)

    async def perform_async(self, op: Op) -> Any:
        """Perform one operation on the running loop."""
        return await run_async(self._calls(op), _call_async)

    @property
    def _client(self) -> "ObjectStore":
        """The client for requests that carry little."""
        return self._client_for(0, reads=False)

    def _client_for(self, size: int, *, reads: bool) -> "ObjectStore":
        """Return the client whose time-out is that of a request which carries so many bytes."""
        limit_s = timeout_s(size)
        timeouts = {
            "connect_timeout": f"{CONNECT_TIMEOUT_S}s",
            "timeout": f"{limit_s * 1000:.0f}ms",
        }
        if reads and limit_s > TIMEOUT_S:
            timeouts["read_timeout"] = f"{TIMEOUT_S * 1000:.0f}ms"
        if "timeout" in self._options:
            timeouts = {"connect_timeout": timeouts["connect_timeout"]}
        kind = tuple(timeouts.values())
        if kind not in self._clients:
            self._clients[kind] = self._connect(timeouts)
        return self._clients[kind]

    def _connect(self, timeouts: Mapping[str, str]) -> "ObjectStore":
        from obstore.store import from_url

        client = {key: value for key, value in self._options.items() if key in _CLIENT_OPTIONS}
        config = {key: value for key, value in self._options.items() if key not in _CLIENT_OPTIONS}
        make: Any = from_url  # Its overloads want literal schemes and keys.
        try:
            made: ObjectStore = make(
                f"{self._scheme}://{self._bucket}",
                config=config,
                client_options={**timeouts, **client},
                retry_config={"max_retries": 0},
            )
        except Exception as error:
            # Nothing was sent: whatever is wrong is wrong with what we were given.
            text = str(error).partition("\n")[0]
            raise InvalidInputError(f"{self.url}: {text}: check the options") from error
        return made

    # ------------------------------------------------------------------------ operations

    def _calls(self, op: Op) -> _Calls:
        if _first_process() != os.getpid():
            raise InvalidInputError(
                f"{self.url}: this process was forked from one that used a remote store: "
                "start it by spawn, or use stores in the workers only"
            )
        match op:
            case ListPage():
                return self._list(op)
            case Head():
                return self._head(op.key)
            case Get() | GetRange() | GetSuffix():
                return self._fetch(op)
            case PutIfAbsent():
                return self._put_if_absent(op)
            case PutIfMatch():
                return self._put_if_match(op)
            case PutTogether():
                raise no_transactions(self.url)
            case Delete():
                return self._delete(op)

    def _list(self, op: ListPage) -> Generator[_Call, Any, Page]:
        # The stream asks for further pages only when it is asked to go on, so one chunk of up
        # to 1,000 is one request.
        stream = self._client.list(
            (self._folder + op.prefix).rstrip("/") or None,
            offset=self._folder + op.after if op.after else None,
            chunk_size=op.limit,
        )
        found = yield _Call(stream, "__next__")
        rows = () if found is None else self._sound(found, op.prefix)
        objects = tuple(self._info(row, listed=True) for row in rows)
        return Page(objects=objects, more=len(objects) == op.limit)

    def _head(self, key: str) -> Generator[_Call, Any, ObjectInfo]:
        found = yield _Call(self._client, "head", (self._folder + key,))
        return self._info(self._sound(found, key))

    def _fetch(self, op: Get | GetRange | GetSuffix) -> Generator[_Call, Any, Fetched]:
        wanted: Mapping[str, Any] = {}
        match op:
            case GetRange(start=start, end=end) if start == end:
                return (yield from self._nothing(op))  # No store sends an empty range.
            case GetSuffix(length=0):
                return (yield from self._nothing(op))
            case GetSuffix() if self._scheme == "az":
                return (yield from self._last(op))
            case GetRange():
                wanted = {"range": (op.start, op.end)}
            case GetSuffix():
                wanted = {"range": {"suffix": op.length}}
        client = self._client_for(_wanted_bytes(op), reads=True)
        got = yield _Call(client, "get", (self._folder + op.key,), {"options": wanted})
        if isinstance(got, Fault) and got.past_the_end:
            return (yield from self._nothing(op))
        got = self._sound(got, op.key)
        info = self._info(got.meta)
        check_size(op, info)
        body = bytes(self._sound((yield _Call(got, "bytes")), op.key))
        start, end = byte_range(op, info.size)
        if len(body) != end - start or got.range[0] != start:
            raise UnavailableError(
                f"{self.url}/{op.key}: {len(body)} bytes from {got.range[0]} came for "
                f"[{start}, {end}): retry, and check what stands between here and the store"
            )
        return Fetched(info=info, start=start, body=body)

    def _nothing(self, op: Get | GetRange | GetSuffix) -> Generator[_Call, Any, Fetched]:
        info = yield from self._head(op.key)
        start, end = byte_range(op, info.size)
        if start != end:
            raise UnavailableError(f"{self.url}/{op.key}: it changed while it was read: retry")
        return Fetched(info=info, start=start, body=b"")

    def _last(self, op: GetSuffix) -> Generator[_Call, Any, Fetched]:
        """Azure has no suffixes: the size first, then a range."""
        info = yield from self._head(op.key)
        start, end = byte_range(op, info.size)
        return (yield from self._fetch(GetRange(op.key, start, end)))

    def _put_if_absent(self, op: PutIfAbsent) -> Generator[_Call, Any, Created | Exists]:
        put = yield self._put(op.key, op.body, "create")
        if isinstance(put, Fault) and put.taken:
            return Exists()
        return Created(etag=self._etag(self._sound(put, op.key)))

    def _put_if_match(self, op: PutIfMatch) -> Generator[_Call, Any, Replaced | Changed]:
        name = "version" if self._scheme == "gs" else "e_tag"
        put = yield self._put(op.key, op.body, {name: op.etag})
        if isinstance(put, Fault) and put.changed:
            return Changed()
        return Replaced(etag=self._etag(self._sound(put, op.key)))

    def _delete(self, op: Delete) -> Generator[_Call, Any, None]:
        done = yield _Call(self._client, "delete", (self._folder + op.key,))
        # S3 says nothing when there was nothing; Azure and GCS say 404.
        if not (isinstance(done, Fault) and done.kind == "FileNotFoundError"):
            self._sound(done, op.key)

    def _put(self, key: str, body: Body, mode: str | dict[str, str]) -> _Call:
        how = {"mode": mode, "use_multipart": False}
        # A view of Arrow's memory is one of signed bytes, which the library does not take.
        sent = body if isinstance(body, bytes) else [memoryview(one).cast("B") for one in body]
        size = len(sent) if isinstance(sent, bytes) else sum(one.nbytes for one in sent)
        client = self._client_for(size, reads=False)
        return _Call(client, "put", (self._folder + key, sent), how)

    # ------------------------------------------------------------------------ answers

    def _sound(self, answer: Any, key: str) -> Any:
        if isinstance(answer, Fault):
            error: LakelogError = answer.explained(f"{self.url}/{key}")
            raise error from answer.error
        return answer

    def _info(self, meta: Mapping[str, Any], *, listed: bool = False) -> ObjectInfo:
        return ObjectInfo(
            key=meta["path"].removeprefix(self._folder),
            size=meta["size"],
            etag=self._etag(meta, listed=listed),
            modified_ms=int(meta["last_modified"].timestamp() * 1000),
        )

    def _etag(self, meta: Mapping[str, Any], *, listed: bool = False) -> str:
        # GCS compares generations and not etags, and does not list them.
        if self._scheme == "gs":
            return "" if listed else meta["version"] or ""
        return meta["e_tag"] or ""


def _wanted_bytes(op: Get | GetRange | GetSuffix) -> int:
    """Return how many bytes the answer has, at most."""
    match op:
        case Get():
            return op.size_bytes_max
        case GetRange():
            return op.end - op.start
        case GetSuffix():
            return op.length


@cache
def _first_process() -> int:
    """Return the process in which the threads of obstore live."""
    return os.getpid()


def _call(call: _Call) -> Any:
    try:
        return getattr(call.on, call.name)(*call.arguments, **call.options)
    except StopIteration:
        return None
    except Exception as error:  # noqa: BLE001 (a fault is an answer; its explanation is raised)
        return Fault.of(error)


async def _call_async(call: _Call) -> Any:
    name = "__anext__" if call.name == "__next__" else call.name + "_async"
    try:
        return await getattr(call.on, name)(*call.arguments, **call.options)
    except StopAsyncIteration:
        return None
    except Exception as error:  # noqa: BLE001 (as above)
        return Fault.of(error)
