"""TLS on a broker's listeners: who comes in, as whom, and what becomes of those who do not.

Every story is told on both loops: each has its own implementation of TLS.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import uvloop

from lakelog.broker import Broker, Limits, Listener
from lakelog.broker.tls_settings import TlsSettings
from lakelog.errors import InvalidInputError
from lakelog.security import ClientAuth, SecurityProtocol
from tests.certificates import Authority, Signed
from tests.patience import HANGS_S, until
from tests.unit.broker.site import (
    STORY_S,
    Client,
    Site,
    batch,
    broker,
    records,
    request_frame,
)
from tests.unit.broker.test_connection import is_alive, settled

OURS, THEIRS = Authority("ours"), Authority("theirs")

loops = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])


class Place:
    """A folder with the files of a broker, and what a client needs."""

    def __init__(self, folder: Path) -> None:
        self.keys = OURS.sign("CN=broker").write(folder / "broker.pem")
        self.trust = OURS.write_certificate(folder / "trust.pem")
        self.folder = folder

    def listener(self, **more: Any) -> tuple[Listener, ...]:
        settings = TlsSettings(key_store=str(self.keys), trust_store=str(self.trust), **more)
        return (Listener(name="SSL", port=0, protocol=SecurityProtocol.SSL, tls=settings),)

    def client(self, signed: Signed | None = None, trusts: Authority = OURS) -> ssl.SSLContext:
        return trusts.client(signed, self.folder)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


MADE: list[Client] = []
"""By the story that is told now."""


def tell(run: Any, story: Awaitable[None]) -> None:
    async def told() -> None:
        try:
            await asyncio.wait_for(story, STORY_S)
        finally:
            for client in MADE:
                client.writer.transport.abort()
            MADE.clear()
            await asyncio.sleep(0)

    run(told())


async def connect(running: Broker, context: ssl.SSLContext, host: str = "localhost") -> Client:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", running.ports["SSL"], limit=1 << 27, ssl=context, server_hostname=host
    )
    MADE.append(Client(reader, writer))
    return MADE[-1]


async def refused(running: Broker, context: ssl.SSLContext) -> bool:
    """Say whether a client is not let in. In TLS 1.3 a client learns it when it reads."""
    try:
        client = await connect(running, context)
        return await client.is_closed()
    except OSError:
        return True


def principals(running: Broker) -> list[str]:
    return [str(one.principal) for one in running._connections]


@loops
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_is_served_over_tls(run: Any, place: Place, version: ssl.TLSVersion) -> None:
    async def story() -> None:
        site = Site()
        site.create("t")
        async with broker(site, listeners=place.listener()) as running:
            context = place.client()
            context.minimum_version = context.maximum_version = version
            client = await connect(running, context)
            assert await is_alive(client)
            assert (await client.produce("t", 0, batch(b"x"))).error_code == 0
            assert records((await client.fetch_one("t", 0, 0)).records) == [(0, b"x")]
            assert principals(running) == ["User:ANONYMOUS"]
            await client.close()
            await until(lambda: running.services.metrics.connections == 0)

    tell(run, story())


def test_older_versions_of_tls_are_refused(place: Place) -> None:
    async def story() -> None:
        async with broker(Site(), listeners=place.listener()) as running:
            context = place.client()
            with pytest.warns(DeprecationWarning, match="TLSv1"):
                context.maximum_version = ssl.TLSVersion.TLSv1_1
            with pytest.warns(DeprecationWarning, match="TLSv1"):
                context.minimum_version = ssl.TLSVersion.TLSv1
            assert await refused(running, context)

    tell(uvloop.run, story())


@loops
def test_a_certificate_says_who_a_client_is(run: Any, place: Place) -> None:
    async def story() -> None:
        rules = "RULE:^CN=(.*?),OU=ops$/$1@ops/L,DEFAULT"
        listeners = place.listener(client_auth=ClientAuth.REQUIRED, rules=rules)
        async with broker(Site(), listeners=listeners) as running:
            client = await connect(running, place.client(OURS.sign("CN=Alice,OU=ops")))
            assert await is_alive(client)
            assert principals(running) == ["User:alice@ops"]
            other = await connect(running, place.client(OURS.sign("CN=Bob,O=x")))
            assert await is_alive(other)
            assert "User:CN=Bob,O=x" in principals(running)

    tell(run, story())


@loops
def test_who_shows_no_certificate_or_a_strangers_does_not_come_in(run: Any, place: Place) -> None:
    async def story() -> None:
        listeners = place.listener(client_auth=ClientAuth.REQUIRED)
        async with broker(Site(), listeners=listeners) as running:
            assert await refused(running, place.client())
            assert await refused(running, place.client(THEIRS.sign("CN=Alice")))
            expired = OURS.sign("CN=Alice", lasts=timedelta(hours=-1))
            assert await refused(running, place.client(expired))
            metrics = running.services.metrics
            assert metrics.security.handshakes_failed.total() == 3
            assert metrics.connections == 0
            assert await is_alive(await connect(running, place.client(OURS.sign("CN=Alice"))))

    tell(run, story())


def test_a_certificate_that_is_only_asked_for_may_be_left_out(place: Place) -> None:
    async def story() -> None:
        listeners = place.listener(client_auth=ClientAuth.REQUESTED)
        async with broker(Site(), listeners=listeners) as running:
            assert await is_alive(await connect(running, place.client()))
            assert principals(running) == ["User:ANONYMOUS"]
            assert await refused(running, place.client(THEIRS.sign("CN=Alice")))

    tell(uvloop.run, story())


def test_who_has_no_name_by_the_rules_does_not_come_in(place: Place) -> None:
    async def story() -> None:
        listeners = place.listener(client_auth=ClientAuth.REQUIRED, rules="RULE:^CN=a$/a/")
        async with broker(Site(), listeners=listeners) as running:
            assert await refused(running, place.client(OURS.sign("CN=b")))
            await until(lambda: running.services.metrics.connections == 0)
            assert await is_alive(await connect(running, place.client(OURS.sign("CN=a"))))

    tell(uvloop.run, story())


# ---------------------------------------------------------------------------- renewal


async def serial(running: Broker, context: ssl.SSLContext) -> int:
    """Return the serial number of the certificate that a client is shown now."""
    client = await connect(running, context)
    shown = client.writer.get_extra_info("peercert")["serialNumber"]
    await client.close()
    return int(shown, 16)


@loops
def test_a_new_certificate_is_taken_and_nobody_is_cut_off(run: Any, place: Place) -> None:
    async def story() -> None:
        async with broker(Site(), listeners=place.listener()) as running:
            tls = running.services.secured["SSL"]
            early = await connect(running, place.client())
            new = OURS.sign("CN=broker", lasts=timedelta(days=3))
            new.write(place.keys)
            await asyncio.to_thread(tls.look, running.log)
            assert await serial(running, place.client()) == new.certificate.serial_number
            expires = new.certificate.not_valid_after_utc.timestamp() * 1000
            assert tls.expires_ms == int(expires)
            assert await is_alive(early)

    tell(run, story())


@loops
def test_a_new_file_that_cannot_be_used_is_told_once_and_the_old_one_stays(
    run: Any, place: Place
) -> None:
    async def story() -> None:
        site = Site()
        async with broker(site, listeners=place.listener()) as running:
            tls, context = running.services.secured["SSL"], place.client()
            before = await serial(running, context)
            stranger = OURS.sign("CN=broker")
            for text in ("", OURS.sign().key_pem() + stranger.certificate_pem):
                place.keys.write_text(text)
                tls.look(running.log)
                tls.look(running.log)
            place.keys.unlink()
            tls.look(running.log)
            assert await serial(running, context) == before
            told = [one for one in site.log if "cannot be used" in one["event"]]
            assert len(told) == 3
            assert "PRIVATE KEY" not in str(told)
            stranger.write(place.keys)
            tls.look(running.log)
            assert await serial(running, context) == stranger.certificate.serial_number

    tell(run, story())


@loops
def test_an_authority_that_is_taken_out_lets_nobody_in_any_more(run: Any, place: Place) -> None:
    async def story() -> None:
        listeners = place.listener(client_auth=ClientAuth.REQUIRED)
        async with broker(Site(), listeners=listeners) as running:
            tls = running.services.secured["SSL"]
            alice = OURS.sign("CN=alice")
            assert await is_alive(await connect(running, place.client(alice)))
            THEIRS.write_certificate(place.trust)
            await asyncio.to_thread(tls.look, running.log)
            assert await refused(running, place.client(alice))
            bob = THEIRS.sign("CN=bob")
            assert await is_alive(await connect(running, place.client(bob)))

    tell(run, story())


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("", "has no certificate in PEM"),
        ("nowhere.pem", "cannot be read"),
        (OURS.certificate_pem, "cannot be used"),
        (OURS.sign().key_pem() + OURS.certificate_pem, "cannot be used"),
        (OURS.key_pem("secret") + OURS.certificate_pem, "ssl.key.password"),
        (b"\xfe\xed\xfe\xed" + bytes(100), "keytool"),
    ],
)
def test_a_broker_whose_certificate_cannot_be_used_does_not_start(
    keys: str | bytes, words: str, tmp_path: Path
) -> None:
    async def story() -> None:
        path = tmp_path / "broker.pem"
        if keys != "nowhere.pem":
            path.write_bytes(keys if isinstance(keys, bytes) else keys.encode())
        settings = TlsSettings(key_store=str(path))
        listener = Listener(name="SSL", port=0, protocol=SecurityProtocol.SSL, tls=settings)
        async with broker(Site(), listeners=(listener,)):
            pass

    with pytest.raises(InvalidInputError, match=words):
        tell(uvloop.run, story())


def test_a_key_may_have_a_password_and_stand_in_the_configs(place: Place) -> None:
    async def story() -> None:
        signed = OURS.sign("CN=broker")
        text = signed.key_pem("secret") + signed.certificate_pem
        settings = TlsSettings(key_store=text, key_password="secret")
        assert "secret" not in repr(settings)
        assert "PRIVATE" not in repr(settings)
        listener = Listener(name="SSL", port=0, protocol=SecurityProtocol.SSL, tls=settings)
        async with broker(Site(), listeners=(listener,)) as running:
            assert await is_alive(await connect(running, place.client()))

    tell(uvloop.run, story())


# ---------------------------------------------------------------------------- hostile


def plain(running: Broker, data: bytes = b"", source: str = "127.0.0.1") -> socket.socket:
    """Return a socket that has sent some bytes."""
    made = socket.create_connection(("127.0.0.1", running.ports["SSL"]), source_address=(source, 0))
    if data:
        made.sendall(data)
    return made


PATIENT = Limits(handshakes=8, handshake_ms=60_000, drain_ms=1_000)


async def begin_only(running: Broker, sources: list[str]) -> list[socket.socket]:
    """Return sockets of these addresses that have begun a handshake, and do not go on."""
    return [await asyncio.to_thread(plain, running, b"\x16\x03\x01", one) for one in sources]


@loops
def test_bytes_that_are_no_tls_end_a_connection_and_harm_nobody(run: Any, place: Place) -> None:
    async def story() -> None:
        async with broker(Site(), listeners=place.listener()) as running:
            good = await connect(running, place.client())
            hostile = [
                b"GET / HTTP/1.1\r\n\r\n",
                bytes(4096),
                b"\xff" * 4096,
                b"\x16\x03\x01\xff\xff" + b"\xff" * 70_000,
                b"\x00\x00\x00\x14\x00\x12\x00\x00" + bytes(16),
            ]
            sockets = [await asyncio.to_thread(plain, running, data) for data in hostile]
            metrics = running.services.metrics
            failed = metrics.security.handshakes_failed
            await until(lambda: failed.total() == len(hostile))
            await until(lambda: metrics.connections == 1)
            assert await is_alive(good)
            for one in sockets:
                one.close()

    tell(run, story())


@loops
def test_a_handshake_that_is_not_finished_has_a_deadline(run: Any, place: Place) -> None:
    async def story() -> None:
        limits = Limits(handshake_ms=200, drain_ms=1_000)
        async with broker(Site(), listeners=place.listener(), limits=limits) as running:
            silent = [await asyncio.to_thread(plain, running) for _ in range(20)]
            metrics = running.services.metrics
            await until(lambda: metrics.security.handshakes_failed.total() == 20)
            assert set(metrics.security.handshakes_failed) == {"timeout"}
            await until(lambda: metrics.connections == 0)
            for one in silent:
                one.close()

    tell(run, story())


@loops
def test_handshakes_that_one_address_never_finishes_keep_no_other_out(
    run: Any, place: Place
) -> None:
    async def story() -> None:
        async with broker(Site(), listeners=place.listener(), limits=PATIENT) as running:
            metrics = running.services.metrics
            silent = await begin_only(running, ["127.0.0.7"] * 50)
            await until(lambda: metrics.connections_opened == 50 and metrics.connections == 4)
            assert await is_alive(await connect(running, place.client()))
            for one in silent:
                one.close()
            await until(lambda: metrics.connections <= 1)
            assert await is_alive(await connect(running, place.client()))

    tell(run, story())


@loops
def test_handshakes_that_many_addresses_never_finish_make_room_for_others(
    run: Any, place: Place
) -> None:
    async def story() -> None:
        async with broker(Site(), listeners=place.listener(), limits=PATIENT) as running:
            metrics = running.services.metrics
            silent = await begin_only(running, ["127.0.0.7", "127.0.0.8"] * 4)
            await until(lambda: metrics.connections == 8)
            assert await is_alive(await connect(running, place.client()))
            assert metrics.security.handshakes_failed == {"stalled": 1}
            for one in silent:
                one.close()

    tell(run, story())


def test_a_flood_of_failed_handshakes_is_no_flood_in_the_log(place: Place) -> None:
    async def story() -> None:
        site = Site()
        async with broker(site, listeners=place.listener()) as running:
            for _ in range(200):
                plain(running, b"GET / HTTP/1.1\r\n\r\n").close()
                await asyncio.sleep(0)
            failed = running.services.metrics.security.handshakes_failed
            await until(lambda: failed.total() == 200)
            await running.sweep()
        assert len([one for one in site.log if "GET" in str(one)]) == 0
        assert len([one for one in site.log if one["event"] == "connections refused"]) <= 4

    tell(uvloop.run, story())


# ---------------------------------------------------------------------------- bytes


@loops
def test_large_requests_and_answers_pass_in_many_pieces(run: Any, place: Place) -> None:
    async def story() -> None:
        site = Site()
        site.create("t")
        async with broker(site, listeners=place.listener()) as running:
            client = await connect(running, place.client())
            values = [bytes([at]) * (900_000 + at) for at in range(8)]
            numbers = [client.send_produce({("t", 0): batch(value)}) for value in values]
            for number in numbers:
                answered, _ = await asyncio.wait_for(client.answer(), HANGS_S)
                assert answered == number
            got: list[tuple[int, bytes | None]] = []
            while len(got) < len(values):
                row = await client.fetch_one("t", 0, len(got))
                got += records(row.records)
            assert got == list(enumerate(values))
            await settled(running)
            await client.close()

    tell(run, story())


@loops
def test_a_client_that_does_not_read_is_not_read(run: Any, place: Place) -> None:
    """Pausing goes through TLS in both directions: memory stays bounded, and all is answered."""

    async def story() -> None:
        site = Site()
        site.create("t")
        limits = Limits(answer_bytes=8 << 20, connection_requests=8, drain_ms=1_000)
        async with broker(site, listeners=place.listener(), limits=limits) as running:
            writer = await connect(running, place.client())
            for at in range(4):
                assert (await writer.produce("t", 0, batch(bytes([at]) * 900_000))).error_code == 0
            client = await connect(running, place.client())
            numbers = [client.send_fetch({("t", 0): 0}) for _ in range(60)]
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await client.writer.drain()
            assert running.answers.used <= running.answers.total + (4 << 20)
            for number in numbers:
                answered, _ = await asyncio.wait_for(client.answer(), HANGS_S)
                assert answered == number
            await client.close()
            await until(lambda: running.answers.used == 0)

    tell(run, story())


@loops
def test_a_request_byte_by_byte_is_answered(run: Any, place: Place) -> None:
    async def story() -> None:
        async with broker(Site(), listeners=place.listener()) as running:
            client = await connect(running, place.client())
            frame = request_frame(18, 3, client_software_name="s", client_software_version="1")
            for byte in frame:
                client.writer.write(bytes([byte]))
                await client.writer.drain()
            size = int.from_bytes(await client.reader.readexactly(4), "big")
            await asyncio.wait_for(client.reader.readexactly(size), HANGS_S)
            await client.close()

    tell(run, story())


# ---------------------------------------------------------------------------- other brokers


def test_brokers_call_each_other_over_tls_and_show_who_they_are(place: Place) -> None:
    async def story() -> None:
        site = Site()
        listeners = (
            Listener(port=0),
            *place.listener(client_auth=ClientAuth.REQUIRED),
        )
        settings: dict[str, Any] = {"listeners": listeners, "inter_broker_listener": "SSL"}
        async with (
            broker(site, **settings) as one,
            broker(site, **settings) as other,
        ):
            told = one.services.metrics
            await until(lambda: len(one.services.cluster.node.view.serving) == 2)
            await one.services.catalog.create("t", 1, {})
            await until(lambda: told.peers_told > 0)
            assert "User:CN=broker" in principals(other)

    tell(uvloop.run, story())


def test_a_broker_that_is_not_trusted_is_told_nothing(place: Place, tmp_path: Path) -> None:
    async def story() -> None:
        site = Site()
        strange = THEIRS.sign("CN=broker").write(tmp_path / "strange.pem")
        tls = TlsSettings(key_store=str(strange), trust_store=str(place.trust))
        stranger = Listener(name="SSL", port=0, protocol=SecurityProtocol.SSL, tls=tls)
        async with (
            broker(site, listeners=place.listener()) as one,
            broker(site, listeners=(stranger,)),
        ):
            await until(lambda: len(one.services.cluster.node.view.serving) == 2)
            await one.services.catalog.create("t", 1, {})
            await until(lambda: one.services.metrics.peers_missed > 0)
            assert one.services.metrics.peers_told == 0

    tell(uvloop.run, story())
