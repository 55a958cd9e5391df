"""An S3 that can be told to lie: a small server in memory, on loopback, with a log of the wire.

    with running_lying_s3() as s3:
        s3.lie(STORED_THEN_500, "PUT", "a/1")      the next PUT of this key, and only that
        ...
        s3.requests("PUT", "a/1")                   what came over the wire, with what was done

Without a lie it tells the truth: conditional writes are atomic, ranges, suffixes and listings are
right. No real store can be made to lose an answer at will, nor be wrong at will; so this one also
comes in the ways in which stores have been wrong (``Word``).

It speaks what lakelog asks for and no more. It does not check signatures: SeaweedFS does.
"""

import contextlib
import hashlib
import http.server
import os
import re
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from enum import Enum, auto
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

from tests.parts.process import LOOPBACK

_WINDOW_S = 0.2
_SILENCE_S_MAX = 30.0
_BACKLOG = 1024


class Word(Enum):
    """How the server keeps the word of S3."""

    KEPT = auto()
    IGNORES_IF_NONE_MATCH = auto()
    IGNORES_IF_MATCH = auto()
    LOOKS_THEN_WRITES = auto()
    """Two that look before one of them writes both find the condition fulfilled."""


class End(Enum):
    """How an answer ends."""

    WHOLE = auto()
    CLOSED = auto()
    """The connection is closed before a byte is sent."""
    SILENT = auto()
    """Nothing is sent, and nothing is closed."""
    RESET = auto()
    """The connection is reset in the middle of the request's body."""
    CUT = auto()
    """The connection is closed in the middle of the answer's body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lie:
    """What the server does instead of what it should."""

    name: str
    acts: bool = True
    """Whether it does what it was asked for."""
    status: int | None = None
    """What it says; the truth, unless given."""
    code: str = ""
    end: End = End.WHOLE
    delay_s: float = 0.0
    flips: bool = False
    """Whether one bit of the answer's body is another."""


STORED_THEN_500 = Lie(name="stored, then 500", status=500, code="InternalError")
STORED_THEN_CLOSED = Lie(name="stored, then closed", end=End.CLOSED)
STORED_THEN_SILENCE = Lie(name="stored, then silence", end=End.SILENT)
RESET_IN_MID_BODY = Lie(name="reset in mid body", acts=False, end=End.RESET)
NOT_STORED_503 = Lie(name="503, not stored", acts=False, status=503, code="SlowDown")
NOT_STORED_500 = Lie(name="500, not stored", acts=False, status=500, code="InternalError")
NOT_STORED_409 = Lie(
    name="409, not stored", acts=False, status=409, code="ConditionalRequestConflict"
)
SLOW = Lie(name="slow", delay_s=0.3)
TRUNCATED = Lie(name="truncated", end=End.CUT)
FLIPPED = Lie(name="flipped bit", flips=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that came over the wire."""

    method: str
    key: str
    condition: str
    """If-None-Match or If-Match, as it was sent."""
    told: str
    """The status that was sent, or the name of the lie."""


@dataclass(frozen=True, slots=True)
class _Object:
    body: bytes
    etag: str
    modified: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    headers: dict[str, str]
    body: bytes = b""


class LyingS3(http.server.ThreadingHTTPServer):
    """One bucket, whatever it is called."""

    daemon_threads = True
    request_queue_size = _BACKLOG

    def __init__(self, word: Word = Word.KEPT) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.word = word
        self.ahead = timedelta()
        """How far its clock is ahead of this machine's."""
        self.lifecycle = b""
        """The rules of the bucket; none if empty."""
        self.released = threading.Event()
        self._lock = threading.Lock()
        self._objects: dict[str, _Object] = {}
        self._versions = 0
        self._lies: list[tuple[Lie, str, str]] = []
        self._log: list[Request] = []

    @property
    def options(self) -> dict[str, str]:
        """What lakelog's store needs to know to work with it."""
        return {
            "endpoint": f"http://{LOOPBACK}:{self.server_port}",
            "access_key_id": "key",
            "secret_access_key": "hidden",
            "region": "us-east-1",
            "allow_http": "true",
        }

    def lie(self, lie: Lie, method: str, key: str) -> None:
        """Tell this lie to the next request that matches, once."""
        with self._lock:
            self._lies.append((lie, method, key))

    def requests(self, method: str, key: str) -> list[Request]:
        """Return what came over the wire, in order."""
        with self._lock:
            return [one for one in self._log if (one.method, one.key) == (method, key)]

    def holds(self, key: str) -> bytes | None:
        """Return what is really stored."""
        with self._lock:
            return self._objects[key].body if key in self._objects else None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""

    # ------------------------------------------------------------------------ for the handler

    def take_lie(self, method: str, key: str) -> Lie | None:
        with self._lock:
            for planned in self._lies:
                if planned[1:] == (method, key):
                    self._lies.remove(planned)
                    return planned[0]
        return None

    def note(self, request: Request) -> None:
        with self._lock:
            self._log.append(request)

    def put(self, key: str, body: bytes, absent: bool, etag: str | None) -> _Answer:
        absent = absent and self.word is not Word.IGNORES_IF_NONE_MATCH
        etag = None if self.word is Word.IGNORES_IF_MATCH else etag

        def refused() -> bool:
            held = self._objects.get(key)
            return (absent and held is not None) or (
                etag is not None and (held is None or held.etag != etag)
            )

        if self.word is Word.LOOKS_THEN_WRITES:
            if refused():
                return _error(412, "PreconditionFailed")
            self.released.wait(_WINDOW_S)  # The window in which another one looks.
            absent, etag = False, None
        with self._lock:
            if refused():
                return _error(412, "PreconditionFailed")
            self._versions += 1
            # Like that of S3, an etag that depends on the bytes, and like ours, one of a kind.
            made = f'"{hashlib.sha256(body).hexdigest()[:24]}-{self._versions}"'
            self._objects[key] = _Object(body, made, datetime.now(UTC) + self.ahead)
        return _Answer(status=200, headers={"ETag": made})

    def get(self, key: str, wanted: str) -> _Answer:
        with self._lock:
            held = self._objects.get(key)
        if held is None:
            return _error(404, "NoSuchKey")
        headers = {"ETag": held.etag, "Last-Modified": format_datetime(held.modified, usegmt=True)}
        if not wanted:
            return _Answer(status=200, headers=headers, body=held.body)
        size = len(held.body)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, size - int(last))
        end = min(size, int(last) + 1) if first and last else size
        if start >= size:
            return _error(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        return _Answer(status=206, headers=headers, body=held.body[start:end])

    def delete(self, key: str) -> _Answer:
        with self._lock:
            self._objects.pop(key, None)
        text = f"<DeleteResult><Deleted><Key>{escape(key)}</Key></Deleted></DeleteResult>"
        return _Answer(status=200, headers={}, body=text.encode())

    def list(self, prefix: str, after: str, limit: int) -> _Answer:
        with self._lock:
            keys = sorted(k for k in self._objects if k.startswith(prefix) and k > after)
            rows = [(key, self._objects[key]) for key in keys[:limit]]
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(one.body)}</Size>"
            f"<LastModified>{one.modified:%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
            f"<ETag>{escape(one.etag)}</ETag></Contents>"
            for key, one in rows
        )
        cut = len(keys) > limit
        token = (
            f"<NextContinuationToken>{escape(rows[-1][0])}</NextContinuationToken>" if cut else ""
        )
        text = (
            f"<ListBucketResult><IsTruncated>{str(cut).lower()}</IsTruncated>{token}{contents}"
            "</ListBucketResult>"
        )
        return _Answer(status=200, headers={}, body=text.encode())

    def rules(self) -> _Answer:
        if not self.lifecycle:
            return _error(404, "NoSuchLifecycleConfiguration")
        return _Answer(status=200, headers={}, body=self.lifecycle)


class _Handler(http.server.BaseHTTPRequestHandler):
    """Reads a request, finds the lie that is meant for it, and answers."""

    server: LyingS3
    protocol_version = "HTTP/1.1"  # Connections are kept, as by a real store.
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        key = unquote(parts.path).partition("/")[2].partition("/")[2]
        query = {name: values[0] for name, values in parse_qs(parts.query, True).items()}
        size = int(self.headers.get("Content-Length") or 0)
        body = b""
        if self.command == "POST":
            # obstore deletes by POST, with the keys in the body.
            body = self.rfile.read(size)
            key = unescape(re.findall("<Key>(.*?)</Key>", body.decode())[0])
        lie = self.server.take_lie(self.command, key)
        if lie is not None and lie.end is End.RESET:
            self.rfile.read(size // 2)
            self._note(key, lie.name)
            self._reset()
            return
        body = body or self.rfile.read(size)
        acts = lie is None or lie.acts
        answer = self._act(key, query, body) if acts else _error(500, "InternalError")
        if lie is not None and lie.status is not None:
            answer = _error(lie.status, lie.code)
        self._note(key, lie.name if lie else str(answer.status))
        self._send(answer, lie or _TRUTH)

    do_GET = do_PUT = do_HEAD = do_POST = _serve  # noqa: N815 (its base wants them)

    def _act(self, key: str, query: dict[str, str], body: bytes) -> _Answer:
        if self.command == "PUT":
            absent = self.headers.get("If-None-Match") == "*"
            return self.server.put(key, body, absent, self.headers.get("If-Match"))
        if self.command == "POST":
            return self.server.delete(key)
        if key:
            return self.server.get(key, self.headers.get("Range") or "")
        if "lifecycle" in query:
            return self.server.rules()
        after = query.get("continuation-token") or query.get("start-after", "")
        return self.server.list(query.get("prefix", ""), after, int(query.get("max-keys", 1000)))

    def _note(self, key: str, told: str) -> None:
        condition = self.headers.get("If-None-Match") or self.headers.get("If-Match") or ""
        self.server.note(Request(method=self.command, key=key, condition=condition, told=told))

    def _send(self, answer: _Answer, lie: Lie) -> None:
        if lie.delay_s:
            self.server.released.wait(lie.delay_s)
        if lie.end is End.SILENT:
            self.server.released.wait(_SILENCE_S_MAX)
        if lie.end in (End.SILENT, End.CLOSED):
            self.close_connection = True
            return
        body = answer.body
        if lie.flips:
            at = len(body) // 2
            body = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if lie.end is End.CUT:
            body = body[: len(body) // 2]
            self.close_connection = True
        self.wfile.write(body)

    def _reset(self) -> None:
        # A linger of no time makes the kernel send RST instead of FIN. The server would send FIN
        # first if the socket were still there.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


_TRUTH = Lie(name="")


def _error(status: int, code: str) -> _Answer:
    text = f"<Error><Code>{code}</Code><Message>as told</Message></Error>"
    return _Answer(status=status, headers={}, body=text.encode())


@contextlib.contextmanager
def running_lying_s3(word: Word = Word.KEPT) -> Iterator[LyingS3]:
    """A started server, gone afterwards."""
    with LyingS3(word) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()
