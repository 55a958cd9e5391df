"""Health and metrics over HTTP: three paths, GET only, an answer a connection.

    /healthz    200 while the process lives and its loop turns
    /readyz     200 if clients should come here, else 503
                both say "ok", or what is wrong
    /metrics    what Prometheus scrapes

It is no web server and wants to be none: a request line and headers of 8 KiB at most, five seconds
to send them and as many to take the answer, 32 connections at once. A client that does not keep to
it is answered shortly, or not at all; when there are more, the oldest that has not asked for
anything has to go, so that a probe always gets in. Bodies are never read.

With a token, ``Authorization: Bearer ...``, only those who send it see metrics, and what is wrong:
both name topics. Probes need none, and are told "ok" or "no". With TLS and an authority for clients
it is the same with a certificate; whoever is asked for both has to show both. Handshakes are few at
a time, and those of one address fewer, as on the listeners of Kafka.
"""

import asyncio
import hmac
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import structlog
from structlog.typing import FilteringBoundLogger

from lakelog.broker.accepting import Handshakes, TlsServer
from lakelog.broker.limits import HTTP_CONNECTIONS_MAX, Limits
from lakelog.broker.listener_security import CERTIFICATES_S
from lakelog.broker.metrics.counters import Metrics
from lakelog.broker.metrics.prometheus import encode, read_gauges
from lakelog.broker.supervision import Supervisor
from lakelog.broker.tls import ListenerTls
from lakelog.errors import InvalidInputError, UnavailableError
from lakelog.security import ClientAuth

__all__ = ["READY", "BrokerStatus", "Health", "HttpServer", "Status", "TokenFile"]

REQUEST_BYTES_MAX = 8 << 10
TOKEN_BYTES_MAX = 4 << 10
DEADLINE_S = 5.0

_WORDS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}

Health = Callable[[], tuple[bool, str]]
"""Says whether clients should come, and if not, why."""

READY = "ready"
"""What there is to say when nothing is wrong."""

_PATHS = "/healthz, /readyz, /metrics"


class Status(Protocol):
    """Whose health and metrics are served."""

    async def health(self) -> tuple[bool, str]:
        """Say whether clients should come, and if not, why."""
        ...

    async def scrape(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics in a format that is accepted, and its name."""
        ...


class BrokerStatus:
    """That of a broker in this process."""

    def __init__(self, metrics: Metrics, ready: Health) -> None:
        self._metrics, self._ready = metrics, ready
        self._scraping = asyncio.Lock()

    async def health(self) -> tuple[bool, str]:
        """Say whether clients should come, and if not, why."""
        return self._ready()

    async def scrape(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics in a format that is accepted, and its name."""
        async with self._scraping:  # One at a time: each costs a thread and its text.
            readings = await read_gauges(self._metrics)
            return await asyncio.to_thread(encode, self._metrics, readings, accept)


class TokenFile:
    """What metrics are asked for with. The file is read each time: change it, and it has changed.

    Raises:
        InvalidInputError: it holds no token.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read()

    async def admits(self, said: str) -> bool:
        """Whether this is what a header says who knows the token."""
        wanted = f"Bearer {await asyncio.to_thread(self._read)}"
        return hmac.compare_digest(said.encode("latin-1"), wanted.encode())

    def _read(self) -> str:
        try:
            with self._path.open(encoding="ascii") as file:
                token = file.read(TOKEN_BYTES_MAX + 1).strip()
        except (OSError, UnicodeError) as error:
            raise InvalidInputError(f"{self._path} cannot be read: {error}") from error
        if not token or len(token) > TOKEN_BYTES_MAX or not token.isprintable() or " " in token:
            raise InvalidInputError(
                f"{self._path} holds no token, a word of at most {TOKEN_BYTES_MAX} letters: make "
                f"one with `openssl rand -hex 32 > {self._path}`"
            )
        return token


class _Door:
    """Lets everybody begin a handshake: how many there are at a time is limited, and enough."""

    def admit(self, host: str) -> str:  # noqa: ARG002
        return ""

    def lost(self, host: str, why: str) -> None:
        pass


class HttpServer:
    """Serves health and metrics. Use it as a context."""

    def __init__(
        self,
        status: Status,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        deadline_s: float = DEADLINE_S,
        tasks: Supervisor | None = None,
        token: TokenFile | None = None,
        tls: ListenerTls | None = None,
        metrics: Metrics | None = None,
        log: FilteringBoundLogger | None = None,
    ) -> None:
        self._tasks = tasks or Supervisor()
        self._token, self._tls = token, tls
        self._metrics, self._log = metrics or Metrics(), log or structlog.get_logger()
        self._looking: asyncio.Task[None] | None = None
        self._status = status
        self._host, self._port = host, port
        self._deadline_s = deadline_s
        self._server: asyncio.Server | TlsServer | None = None
        self._open: dict[asyncio.Task[None], bool] = {}
        """Whether it has asked for something, by connection, the oldest first."""

    async def __aenter__(self) -> "HttpServer":
        try:
            if self._tls is not None:
                await self._serve_tls(self._tls)
                return self
            self._server = await asyncio.start_server(
                self._accept, self._host, self._port, limit=REQUEST_BYTES_MAX
            )
        except OSError as error:
            address = f"{self._host}:{self._port}"
            raise UnavailableError(
                f"cannot listen on {address}: {error.strerror}: choose another port with --http"
            ) from error
        return self

    async def _serve_tls(self, tls: ListenerTls) -> None:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listening = socket.create_server((self._host, self._port), family=family)
        limits = Limits(handshakes=HTTP_CONNECTIONS_MAX, handshake_ms=int(self._deadline_s * 1000))
        handshakes = Handshakes(limits, self._tasks, self._metrics)
        self._server = TlsServer(listening, tls, self._begin, _Door(), handshakes)
        await self._server.start_serving()
        look = partial(asyncio.to_thread, tls.look, self._log)
        self._looking = self._tasks.every("HTTP certificate", CERTIFICATES_S, look)

    def _begin(self) -> asyncio.StreamReaderProtocol:
        reader = asyncio.StreamReader(limit=REQUEST_BYTES_MAX)
        return asyncio.StreamReaderProtocol(reader, self._accept)

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    async def close(self) -> None:
        """Listen no more, and end what is open."""
        if self._server is None:
            return
        self._server.close()
        if self._looking is not None:
            self._looking.cancel()
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(self._server, asyncio.Server):
            await self._server.wait_closed()

    # ------------------------------------------------------------------------ one connection

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= HTTP_CONNECTIONS_MAX:
            silent = (one for one, has_asked in self._open.items() if not has_asked)
            oldest = next(silent, None) or next(iter(self._open))
            del self._open[oldest]
            oldest.cancel()
        task = self._tasks.once("HTTP", self._serve(reader, writer))
        self._open[task] = False

        def ended(task: asyncio.Task[None]) -> None:
            self._open.pop(task, None)
            writer.transport.abort()  # It may have been cancelled before it began.

        task.add_done_callback(ended)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(self._deadline_s):
                answer = await self._answer(reader, has_shown=self._has_shown(writer))
                writer.write(answer)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass  # Too slow, or gone.

    def _has_shown(self, writer: asyncio.StreamWriter) -> bool:
        """Whether a client has shown the certificate that it should have."""
        if self._tls is None or self._tls.settings.client_auth is ClientAuth.NONE:
            return True
        return writer.get_extra_info("ssl_object").getpeercert(binary_form=True) is not None

    async def _answer(self, reader: asyncio.StreamReader, *, has_shown: bool) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _response(431, f"use at most {REQUEST_BYTES_MAX} bytes\n")
        task = asyncio.current_task()
        if task in self._open:
            self._open[task] = True
        line, *fields = head[:-4].decode("latin-1").split("\r\n")
        method, _, rest = line.partition(" ")
        target, _, version = rest.partition(" ")
        if version not in ("HTTP/1.1", "HTTP/1.0") or not target.startswith("/"):
            return _response(400, "send GET /healthz HTTP/1.1\n")
        if method not in ("GET", "HEAD"):
            return _response(405, "use GET\n", extra="Allow: GET, HEAD\r\n")
        refusal = b"" if has_shown else _response(403, "show a certificate\n")
        is_known = self._token is None
        if self._token is not None and (said := _field(fields, "authorization")):
            try:
                is_known = await self._token.admits(said)
            except InvalidInputError as error:
                return _response(503, f"{error}\n")
        accept = _field(fields, "accept")
        if has_shown and not is_known:
            wanted = "WWW-Authenticate: Bearer\r\n"
            refusal = _response(401, "send Authorization: Bearer TOKEN\n", extra=wanted)
        response = await self._get(target.partition("?")[0], accept, refusal)
        return response if method == "GET" else response[: response.index(b"\r\n\r\n") + 4]

    async def _get(self, path: str, accept: str, refusal: bytes) -> bytes:
        """Answer; with the ``refusal``, if there is one, whatever not everybody may know."""
        match path:
            case "/healthz" | "/readyz":
                ok, reason = await self._status.health()
                status = 200 if ok or path == "/healthz" else 503
                if refusal:
                    return _response(status, "ok\n" if status == 200 else "no\n")
                return _response(status, "ok\n" if reason in ("", READY) else f"{reason}\n")
            case "/metrics" if refusal:
                return refusal
            case "/metrics":
                text, kind = await self._status.scrape(accept)
                return _response(200, text, kind=kind)
            case _:
                return _response(404, f"there is {_PATHS}\n")


def _field(fields: list[str], wanted: str) -> str:
    for field in fields:
        name, _, value = field.partition(":")
        if name.strip().lower() == wanted:
            return value.strip()
    return ""


def _response(
    status: int, body: str | bytes, *, kind: str = "text/plain; charset=utf-8", extra: str = ""
) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    head = (
        f"HTTP/1.1 {status} {_WORDS[status]}\r\n"
        f"Content-Type: {kind}\r\n"
        f"Content-Length: {len(data)}\r\n"
        "Cache-Control: no-store\r\n"
        f"{extra}"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + data
