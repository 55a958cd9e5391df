"""Health and metrics with TLS: who sees what, with a certificate, a token, both, or nothing.

Every story is told on both loops: each has its own implementation of TLS.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lakelog.broker import BrokerStatus, HttpServer, ListenerTls, Metrics, TlsSettings, TokenFile
from lakelog.broker.limits import HTTP_CONNECTIONS_MAX
from lakelog.security import ClientAuth
from tests.certificates import Authority, Signed
from tests.patience import HANGS_S
from tests.unit.broker.test_tls import loops

OURS, THEIRS = Authority("ours"), Authority("theirs")
WRONG = "topic secret is damaged"


class Place:
    """A server, and clients of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys = OURS.sign().write(folder / "http.pem")
        self.ca = OURS.write_certificate(folder / "ca.pem")

    def tls(self, *, asks: bool = False) -> ListenerTls:
        auth = ClientAuth.REQUESTED if asks else ClientAuth.NONE
        settings = TlsSettings(
            key_store=str(self.keys), trust_store=str(self.ca) if asks else "", client_auth=auth
        )
        return ListenerTls("HTTP", settings)

    def client(self, signed: Signed | None = None, trusts: Authority = OURS) -> ssl.SSLContext:
        return trusts.client(signed, self.folder)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def tell(run: Any, story: Callable[[HttpServer], Awaitable[None]], **more: Any) -> None:
    async def told() -> None:
        status = BrokerStatus(Metrics(), lambda: (False, WRONG))
        async with HttpServer(status, **more) as server, asyncio.timeout(HANGS_S):
            await story(server)

    run(told())


async def ask(
    server: HttpServer, context: ssl.SSLContext, path: str, header: str = ""
) -> tuple[int, str]:
    """Return the status and the text of an answer; 0 of none."""
    try:
        reader, writer = await asyncio.open_connection(
            *server.address, ssl=context, server_hostname="localhost"
        )
        try:
            writer.write(f"GET {path} HTTP/1.1\r\n{header}\r\n".encode())
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    except OSError:
        return 0, ""
    return int(head.split()[1]) if head else 0, body.decode()


@loops
def test_metrics_come_over_tls_and_not_without_it(run: Any, place: Place) -> None:
    async def story(server: HttpServer) -> None:
        status, text = await ask(server, place.client(), "/metrics")
        assert status == 200
        assert "lakelog_" in text
        assert await ask(server, place.client(), "/readyz") == (503, f"{WRONG}\n")
        assert await ask(server, place.client(trusts=THEIRS), "/metrics") == (0, "")
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            assert b"HTTP" not in await reader.read()
        writer.close()

    tell(run, story, tls=place.tls())


@loops
def test_only_who_shows_a_certificate_sees_metrics_and_what_is_wrong(
    run: Any, place: Place
) -> None:
    async def story(server: HttpServer) -> None:
        known = place.client(OURS.sign("CN=prometheus"))
        assert (await ask(server, known, "/metrics"))[0] == 200
        assert await ask(server, known, "/readyz") == (503, f"{WRONG}\n")
        # A probe has none.
        assert await ask(server, place.client(), "/metrics") == (403, "show a certificate\n")
        assert await ask(server, place.client(), "/readyz") == (503, "no\n")
        stranger = place.client(THEIRS.sign("CN=prometheus"))
        assert await ask(server, stranger, "/readyz") == (0, "")

    tell(run, story, tls=place.tls(asks=True))


@loops
def test_who_is_asked_for_both_shows_both(run: Any, place: Place, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("word")
    bearer = "Authorization: Bearer word\r\n"

    async def story(server: HttpServer) -> None:
        known = place.client(OURS.sign("CN=prometheus"))
        assert (await ask(server, known, "/metrics", bearer))[0] == 200
        assert (await ask(server, known, "/metrics"))[0] == 401
        assert (await ask(server, place.client(), "/metrics", bearer))[0] == 403
        assert await ask(server, place.client(), "/readyz", bearer) == (503, "no\n")

    tell(run, story, tls=place.tls(asks=True), token=TokenFile(tmp_path / "token"))


@loops
def test_a_new_certificate_is_shown_to_the_next_client(
    run: Any, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.broker.http.CERTIFICATES_S", 0.01)
    new = Authority("new")

    async def story(server: HttpServer) -> None:
        assert (await ask(server, place.client(), "/metrics"))[0] == 200
        new.sign().write(place.keys)
        context = place.client(trusts=new)
        while (await ask(server, context, "/metrics"))[0] != 200:
            await asyncio.sleep(0)
        assert (await ask(server, place.client(), "/metrics"))[0] == 0

    tell(run, story, tls=place.tls())


@loops
def test_handshakes_that_are_not_finished_keep_no_probe_away(run: Any, place: Place) -> None:
    """Those of one address are a part of all; the probe is of another one."""

    async def story(server: HttpServer) -> None:
        silent = []
        for _ in range(2 * HTTP_CONNECTIONS_MAX):
            one = socket.create_connection(server.address, source_address=("127.0.0.9", 0))
            silent.append(one)
        try:
            assert (await ask(server, place.client(), "/healthz"))[0] == 200
        finally:
            for one in silent:
                one.close()

    tell(run, story, tls=place.tls(), deadline_s=HANGS_S)
