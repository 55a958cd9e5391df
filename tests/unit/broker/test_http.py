"""Health and metrics over HTTP, and what is done with whoever does not keep to it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from lakelog.broker.http import REQUEST_BYTES_MAX, BrokerStatus, HttpServer, TokenFile
from lakelog.broker.limits import HTTP_CONNECTIONS_MAX
from lakelog.broker.metrics.counters import Metrics
from lakelog.errors import InvalidInputError, UnavailableError
from tests.hostile import attacks
from tests.patience import HANGS_S
from tests.virtual_time import pass_time, run_virtually

Talk = Callable[[bytes], Awaitable[tuple[int, dict[str, str], bytes]]]


def served(
    story: Callable[[HttpServer, Talk], Awaitable[None]],
    *,
    ready: Callable[[], tuple[bool, str]] = lambda: (True, ""),
    metrics: Metrics | None = None,
    deadline_s: float = 5.0,
    token: TokenFile | None = None,
) -> None:
    """Run a story against a server of its own."""

    async def run() -> None:
        status = BrokerStatus(metrics or Metrics(), ready)
        async with HttpServer(status, deadline_s=deadline_s, token=token) as server:

            async def talk(request: bytes) -> tuple[int, dict[str, str], bytes]:
                reader, writer = await asyncio.open_connection(*server.address)
                try:
                    writer.write(request)
                    data = await reader.read()
                except ConnectionResetError:
                    data = b""
                finally:
                    await hang_up(writer)
                if not data:
                    return 0, {}, b""
                head, _, body = data.partition(b"\r\n\r\n")
                line, *fields = head.decode().split("\r\n")
                named = dict(field.split(": ", 1) for field in fields)
                return int(line.split()[1]), named, body

            await story(server, talk)

    run_virtually(run())


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def get(path: str, *fields: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: here", *fields, "", ""]).encode()


def test_a_process_that_lives_says_so() -> None:
    async def story(_: HttpServer, talk: Talk) -> None:
        status, fields, body = await talk(get("/healthz"))
        assert (status, body) == (200, b"ok\n")
        assert fields["Content-Length"] == "3"
        assert fields["Connection"] == "close"

    served(story)


def test_who_is_not_ready_says_why() -> None:
    state = [(False, "lane 3 has no head")]

    async def story(_: HttpServer, talk: Talk) -> None:
        assert await _two(talk) == (503, b"lane 3 has no head\n", 200)
        state[0] = (True, "")
        assert await _two(talk) == (200, b"ok\n", 200)

    async def _two(talk: Talk) -> tuple[int, bytes, int]:
        status, _, body = await talk(get("/readyz?verbose"))
        return status, body, (await talk(get("/healthz")))[0]

    served(story, ready=lambda: state[0])


def test_metrics_are_what_was_counted() -> None:
    metrics = Metrics()
    metrics.bytes_in += 17

    async def story(server: HttpServer, talk: Talk) -> None:
        status, fields, body = await talk(get("/metrics"))
        assert status == 200
        assert fields["Content-Type"].startswith("text/plain")
        assert b"\nlakelog_bytes_in_total 17.0\n" in body
        wanted = "application/openmetrics-text; version=1.0.0"
        status, fields, body = await talk(get("/metrics", f"ACCEPT: {wanted}"))
        assert fields["Content-Type"].startswith("application/openmetrics-text")
        status, fields, body = await talk(b"HEAD /metrics HTTP/1.1\r\n\r\n")
        assert status == 200
        assert int(fields["Content-Length"]) > 1000
        assert body == b""

    served(story, metrics=metrics)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (get("/"), 404),
        (get("/metrics/"), 404),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"GET http://elsewhere/ HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz\r\n\r\n", 400),
        (b"\x00\x00\x00\x12 a Kafka client\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nX: " + bytes(REQUEST_BYTES_MAX) + b"\r\n\r\n", 431),
        (b"GET /healthz HTTP/1.1\r\n" + b"X" * (2 * REQUEST_BYTES_MAX), 431),
    ],
)
def test_what_it_does_not_know_it_refuses_in_a_word(request_: bytes, status: int) -> None:
    async def story(server: HttpServer, talk: Talk) -> None:
        found, _, body = await talk(request_)
        assert found == status
        assert body.endswith(b"\n")
        assert (await talk(get("/healthz")))[0] == 200

    served(story)


def test_only_who_knows_the_token_sees_metrics_and_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")

    async def story(_: HttpServer, talk: Talk) -> None:
        for said in ((), ("Authorization: Bearer firs",), ("Authorization: Basic first",)):
            status, fields, body = await talk(get("/metrics", *said))
            assert (status, fields["WWW-Authenticate"]) == (401, "Bearer")
            assert b"lakelog" not in body
            assert (await talk(get("/readyz", *said)))[::2] == (503, b"no\n")
            assert (await talk(get("/healthz", *said)))[::2] == (200, b"ok\n")
        known = "Authorization: Bearer first"
        assert (await talk(get("/metrics", known)))[0] == 200
        assert (await talk(get("/readyz", known)))[::2] == (503, b"topic secret is damaged\n")
        path.write_text("second")
        assert (await talk(get("/metrics", known)))[0] == 401
        assert (await talk(get("/metrics", "authorization:  Bearer second")))[0] == 200
        path.write_text("")
        status, fields, body = await talk(get("/metrics", known))
        assert status == 503
        assert b"holds no token" in body

    served(story, ready=lambda: (False, "topic secret is damaged"), token=TokenFile(path))


@pytest.mark.parametrize("text", [None, "", " \n", "two words", "x" * 5_000, "caf\u00e9"])
def test_a_file_without_a_token_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "token"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InvalidInputError, match=r"token|cannot be read"):
        TokenFile(path)


def test_who_is_slow_is_not_waited_for() -> None:
    async def story(server: HttpServer, talk: Talk) -> None:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(b"GET /heal")
        async with asyncio.timeout(HANGS_S):
            assert await reader.read() == b""
        await hang_up(writer)
        assert (await talk(get("/healthz")))[0] == 200

    served(story, deadline_s=0.05)


def test_a_probe_gets_in_however_many_say_nothing() -> None:
    async def story(server: HttpServer, talk: Talk) -> None:
        silent = attacks.silence(*server.address, 3 * HTTP_CONNECTIONS_MAX)
        await pass_time(0.1)
        for _ in range(HTTP_CONNECTIONS_MAX):
            assert (await talk(get("/healthz")))[0] == 200
        ends = [
            asyncio.to_thread(attacks.is_ended, one, 0.2) for one in silent[:HTTP_CONNECTIONS_MAX]
        ]
        assert all(await asyncio.gather(*ends)), "the oldest have gone"
        attacks.hang_up(silent)

    served(story)


def test_who_has_asked_is_answered_before_who_is_silent_gets_in() -> None:
    async def story(server: HttpServer, talk: Talk) -> None:
        idle = [await asyncio.open_connection(*server.address) for _ in range(HTTP_CONNECTIONS_MAX)]
        await pass_time(0.05)  # The last of them may not have been accepted yet.
        assert (await talk(get("/healthz")))[0] == 200
        assert await idle[0][0].read() == b"", "the oldest had to go"
        for reader, writer in idle[1:]:
            writer.write(get("/healthz"))
            assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        for _, writer in idle:
            await hang_up(writer)

    served(story)


def test_closing_ends_what_is_open() -> None:
    left: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def story(server: HttpServer, _: Talk) -> None:
        left.append(await asyncio.open_connection(*server.address))
        await pass_time(0.05)  # Let it be accepted.
        async with asyncio.timeout(1):
            await server.close()
        assert await left[0][0].read() == b""
        await hang_up(left[0][1])

    served(story)


def test_a_port_that_is_taken_is_told() -> None:
    async def story(server: HttpServer, _: Talk) -> None:
        host, port = server.address
        status = BrokerStatus(Metrics(), lambda: (True, ""))
        with pytest.raises(UnavailableError, match="--http"):
            await HttpServer(status, host=host, port=port).__aenter__()

    served(story)
