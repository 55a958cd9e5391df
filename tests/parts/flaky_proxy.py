"""A proxy before a real object store, that can be told to fail: by chance, or altogether.

    with running_flaky_proxy(seaweedfs.endpoint) as proxy:
        proxy.fail(0.3)      three of ten requests end badly, in all the ways of ``Trouble``
        proxy.fail(0.3, [Trouble.DONE_500])    the same in one way
        proxy.delay(0.03)    every request takes so many seconds longer
        proxy.refuse_lists() lists are answered with 503, and nothing else
        proxy.freeze()       connections are accepted, requests are read, nothing is answered
        proxy.heal()         what was frozen is reset; from now on all is well
        proxy.tally()        what went through, by method: requests, bytes of their answers

Bytes are handed on as they came. A signature of S3 covers the Host header, and clients sign for the
address that they were given, which is the proxy's; the store checks it against the header that
comes, so nothing needs to be signed again.

It has a loop and a thread of its own. What it does with a request is decided when the head of the
request has come, by a seeded generator: the order of requests is up to the broker, the share of
each trouble is not.
"""

import asyncio
import contextlib
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random  # noqa: TID251 (seeded)
from typing import NamedTuple
from urllib.parse import urlsplit

import uvloop

from tests.parts.process import LOOPBACK

HEAD_BYTES_MAX = 64 << 10
PIECE_BYTES = 256 << 10


class Trouble(Enum):
    """What becomes of a request."""

    NONE = "none"
    REFUSED_500 = "500, not handed on"
    REFUSED_503 = "503, not handed on"
    DONE_500 = "handed on, then 500"
    DROPPED = "reset in the middle of the request"
    DONE_DROPPED = "handed on, then reset"
    FROZEN = "no answer"


BY_CHANCE = (
    Trouble.REFUSED_500,
    Trouble.REFUSED_503,
    Trouble.DONE_500,
    Trouble.DROPPED,
    Trouble.DONE_DROPPED,
)


class Head(NamedTuple):
    """The head of a message of HTTP."""

    raw: bytes
    first: str
    fields: dict[str, str]

    @property
    def method(self) -> str:
        return self.first.partition(" ")[0]

    @property
    def status(self) -> int:
        return int(self.first.split(" ")[1])

    @property
    def size(self) -> int:
        return int(self.fields.get("content-length", "0"))


@dataclass
class Tally:
    """What went through."""

    requests: Counter[str] = field(default_factory=Counter)
    """By method."""
    answered_bytes: Counter[str] = field(default_factory=Counter)
    """Of the bodies of answers, by method."""
    troubles: Counter[Trouble] = field(default_factory=Counter)
    targets: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """By access key, method and path; a POST that deletes counts for each key that it names."""


class FlakyProxy:
    """One listener before one server on loopback."""

    def __init__(self, upstream: int, seed: int = 1, host: str = LOOPBACK) -> None:
        self._upstream, self._host = upstream, host
        self._chance = Random(seed)
        self._share = 0.0
        self._ways: tuple[Trouble, ...] = BY_CHANCE
        self._delay_s = 0.0
        self._lists = True
        self._thaw: asyncio.Event | None = None
        self._tally = Tally()
        self._loop = uvloop.new_event_loop()
        self._links: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def endpoint(self) -> str:
        return f"http://{self._host}:{self.port}"

    # ------------------------------------------------------------------------ telling it

    def fail(self, share: float, ways: Sequence[Trouble] = BY_CHANCE) -> None:
        """Let so large a part of requests end badly, in some of the ways."""
        self._tell(share=share, frozen=False, ways=ways)

    def delay(self, seconds: float) -> None:
        """Let every request take so much longer, whatever else becomes of it."""
        self._loop.call_soon_threadsafe(setattr, self, "_delay_s", seconds)

    def refuse_lists(self) -> None:
        """Let nobody list objects, until all is healed."""
        self._tell(share=0.0, frozen=False, lists=False)

    def freeze(self) -> None:
        """Answer nothing any more."""
        self._tell(share=0.0, frozen=True)

    def heal(self) -> None:
        """Do as a proxy should. What was frozen is reset, and never answered."""
        self._tell(share=0.0, frozen=False)

    def tally(self) -> Tally:
        """Return what went through since the last time."""

        async def take() -> Tally:
            taken, self._tally = self._tally, Tally()
            return taken

        return asyncio.run_coroutine_threadsafe(take(), self._loop).result(10)

    def _tell(
        self,
        *,
        share: float,
        frozen: bool,
        lists: bool = True,
        ways: Sequence[Trouble] = BY_CHANCE,
    ) -> None:
        async def set_() -> None:
            self._share, self._lists, self._ways = share, lists, tuple(ways)
            if self._thaw is not None:
                self._thaw.set()
            self._thaw = asyncio.Event() if frozen else None

        asyncio.run_coroutine_threadsafe(set_(), self._loop).result(10)

    # ------------------------------------------------------------------------ its thread

    def run(self, started: threading.Event, ended: asyncio.Future[None]) -> None:
        """Serve until ``ended`` is done."""
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve(started, ended))
        self._loop.close()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    async def _serve(self, started: threading.Event, ended: asyncio.Future[None]) -> None:
        server = await asyncio.start_server(self._link, self._host, 0, limit=HEAD_BYTES_MAX)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await ended
        server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, request by request."""
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        store: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        try:
            while (head := await _read_head(reader)) is not None:
                if store is None:
                    store = await asyncio.open_connection(
                        LOOPBACK, self._upstream, limit=HEAD_BYTES_MAX
                    )
                if not await self._one(head, reader, writer, *store):
                    _reset(writer)
                    return
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # One of the two went away: so does the other. Or all of it ends.
        finally:
            self._links.discard(task)
            writer.close()
            if store is not None:
                store[1].close()

    def _choose(self, head: Head) -> Trouble:
        if self._thaw is not None:
            return Trouble.FROZEN
        if not self._lists and "list-type=2" in head.first:
            return Trouble.REFUSED_503
        if self._chance.random() < self._share:
            return self._chance.choice(self._ways)
        return Trouble.NONE

    async def _held(self) -> bool:
        """Wait while all is frozen, and say whether it was."""
        thaw = self._thaw
        if thaw is not None:
            await thaw.wait()
        return thaw is not None

    async def _one(
        self,
        head: Head,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        store_reader: asyncio.StreamReader,
        store_writer: asyncio.StreamWriter,
    ) -> bool:
        """Serve one request; False: the connection is to be reset."""
        trouble = self._choose(head)
        self._tally.requests[head.method] += 1
        self._tally.troubles[trouble] += 1
        if trouble is Trouble.DROPPED:
            await reader.readexactly(head.size // 2)
            return False
        body = await reader.readexactly(head.size)
        who = _access_key(head)
        self._tally.targets.update((who, head.method, path) for path in _paths(head, body))
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        if await self._held():
            return False
        if trouble in (Trouble.REFUSED_500, Trouble.REFUSED_503):
            await _refuse(writer, 500 if trouble is Trouble.REFUSED_500 else 503)
            return True
        store_writer.write(head.raw + body)
        answer = await _read_head(store_reader)
        if answer is None:
            return False
        has_body = head.method != "HEAD" and answer.status not in (204, 304)
        pieces = _body(answer, store_reader) if has_body else None
        if trouble is Trouble.NONE:
            writer.write(answer.raw)
        size = 0
        if pieces is not None:
            async for piece, payload in pieces:
                size += payload
                if trouble is Trouble.NONE:
                    writer.write(piece)
                    await writer.drain()
        self._tally.answered_bytes[head.method] += size
        if await self._held():
            return False
        if trouble is Trouble.DONE_500:
            await _refuse(writer, 500)
        return trouble is not Trouble.DONE_DROPPED


async def _read_head(reader: asyncio.StreamReader) -> Head | None:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = raw.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    return Head(raw, first, {name.lower(): value.strip() for name, _, value in pairs})


async def _body(head: Head, reader: asyncio.StreamReader) -> AsyncIterator[tuple[bytes, int]]:
    """Yield a body as it comes, with how much of each piece is payload."""
    if head.fields.get("transfer-encoding", "").lower() != "chunked":
        left = head.size
        while left:
            piece = await reader.read(min(left, PIECE_BYTES))
            if not piece:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(piece)
            yield piece, len(piece)
        return
    size = -1
    while size:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        yield line + await reader.readexactly(size + 2), size


def _access_key(head: Head) -> str:
    found = re.search("Credential=([^/]+)/", head.fields.get("authorization", ""))
    return found[1] if found else ""


def _paths(head: Head, body: bytes) -> list[str]:
    path = head.first.split(" ")[1]
    if head.method != "POST":
        return [path]
    bucket = path.partition("?")[0].rstrip("/")
    return [f"{bucket}/{key.decode()}" for key in re.findall(rb"<Key>(.*?)</Key>", body)]


async def _refuse(writer: asyncio.StreamWriter, status: int) -> None:
    code = {500: "InternalError", 503: "SlowDown"}[status]
    text = f"<Error><Code>{code}</Code><Message>as told</Message></Error>"
    head = f"HTTP/1.1 {status} {code}\r\nContent-Type: application/xml\r\n"
    writer.write(f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode())
    await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST: what was sent and not read is gone."""
    link = writer.get_extra_info("socket")
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@contextlib.contextmanager
def running_flaky_proxy(endpoint: str, seed: int = 1, host: str = LOOPBACK) -> Iterator[FlakyProxy]:
    """A proxy before the server at an address on loopback, gone afterwards."""
    upstream = urlsplit(endpoint).port
    assert upstream, endpoint
    proxy, started = FlakyProxy(upstream, seed, host), threading.Event()
    ended: asyncio.Future[None] = proxy.loop.create_future()
    thread = threading.Thread(target=proxy.run, args=(started, ended), name="flaky-proxy")
    thread.start()
    try:
        assert started.wait(10), "the proxy did not start"
        yield proxy
    finally:
        proxy.loop.call_soon_threadsafe(ended.set_result, None)
        thread.join()
