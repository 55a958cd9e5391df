"""Brokers tell each other that there is something to see, and nothing depends on it."""

import asyncio
from collections.abc import Callable

from lakelog.broker.metrics.counters import Metrics
from lakelog.broker.peers import TELL_S, Peers
from lakelog.broker.supervision import Supervisor
from lakelog.coordination.node import LOOKS_AT_ONCE
from lakelog.store import ListPage
from lakelog.wire import ADVERTISED, ApiKey, MetadataBroker, decode_request, decode_request_header
from lakelog.wire.broker_heartbeat import encode_broker_heartbeat
from tests.patience import until
from tests.unit.broker.site import Site, batch, virtual_story
from tests.unit.broker.test_cluster import SELDOM_MS, node, site_with_topic, two
from tests.virtual_time import pass_time


def test_what_is_written_is_what_is_read() -> None:
    frame = encode_broker_heartbeat(7)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header = decode_request_header(memoryview(frame)[4:])
    assert (header.api.key, header.version) == (ApiKey.BROKER_HEARTBEAT, 0)
    body = memoryview(frame)[4 + header.body_at :]
    assert decode_request(header.api.key, header.version, body).broker_id == 7


def test_clients_are_not_offered_it() -> None:
    assert ApiKey.BROKER_HEARTBEAT not in {key for key, _, _ in ADVERTISED}


@virtual_story
async def test_what_one_broker_has_made_the_others_know_at_once() -> None:
    async with two(site_with_topic(), heartbeat_ms=SELDOM_MS) as (a, b):
        await a.running.services.catalog.create("new", 1, {})
        catalog = b.running.services.catalog
        await until(lambda: catalog.known("new") is not None)
        assert b.running.services.metrics.peers_missed == 0


@virtual_story
async def test_when_one_goes_the_others_lead_at_once() -> None:
    async with node(site_with_topic(), heartbeat_ms=SELDOM_MS) as a:
        site = a.machine.site
        async with node(site, heartbeat_ms=SELDOM_MS) as b:
            await until(lambda: bool(b.led) and not a.led & b.led)
        await until(lambda: a.led == {0, 1, 2, 3})
        await until(lambda: list(a.running.services.cluster.node.view.serving) == [a.id])
        assert (await a.client.produce("t", 0, batch(b"x"))).error_code == 0


@virtual_story
async def test_however_often_it_is_said_there_are_four_lists_a_second() -> None:
    site = Site()
    async with node(site, heartbeat_ms=SELDOM_MS) as one:
        before = sum(isinstance(op, ListPage) for op in site.member_ops)
        for _ in range(20):
            for _ in range(50):
                one.running.services.cluster.hear()
            await pass_time(0.1)
        lists = sum(isinstance(op, ListPage) for op in site.member_ops) - before
        assert 4 <= lists <= 4 * 2 + LOOKS_AT_ONCE


# ---------------------------------------------------------------------------- those who do not hear


async def listening(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], None],
) -> tuple[asyncio.Server, MetadataBroker]:
    """Somebody who answers connections."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frame = len(encode_broker_heartbeat(1))
        try:
            while True:
                await reader.readexactly(frame)
                answer(reader, writer)
        except (EOFError, OSError):
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    return server, MetadataBroker(port, "127.0.0.1", port, None)


def size(bytes_: int) -> bytes:
    return bytes_.to_bytes(4, "big")


@virtual_story
async def test_who_does_not_answer_keeps_nobody_from_being_told() -> None:
    metrics = Metrics()
    peers, heard = Peers(Supervisor(), metrics), list[str]()
    silent, one = await listening(lambda _, __: heard.append("silent"))
    endless, two_ = await listening(lambda _, writer: writer.write(size(1 << 30)))

    def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append("good")
        writer.write(size(3) + bytes(3))

    good, three = await listening(answer)
    gone, four = await listening(lambda _, __: None)
    gone.close()
    await gone.wait_closed()
    peers.tell(9, [one, two_, three, four])
    await until(lambda: "good" in heard and metrics.peers_told == 1)
    await pass_time(TELL_S)
    assert metrics.peers_missed == 3
    assert heard.count("silent") == 1, "it is not tried again"
    # What comes while somebody is being told is told once more, and not as often as it came.
    for _ in range(10):
        peers.tell(9, [three])
    await until(lambda: metrics.peers_told == 2)
    await pass_time(0.1)
    assert heard.count("good") == 2
    await peers.close()
    for server in (silent, endless, good):
        server.close()


@virtual_story
async def test_a_connection_that_the_other_side_has_closed_is_made_again() -> None:
    metrics, writers = Metrics(), list[asyncio.StreamWriter]()
    peers = Peers(Supervisor(), metrics)

    def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(size(3) + bytes(3))

    server, other = await listening(answer)
    for told in (1, 2):
        peers.tell(9, [other])
        await until(lambda told=told: metrics.peers_told == told)  # type: ignore[misc]
    assert writers[0] is writers[1], "there is one connection"
    writers[0].close()
    await pass_time(0.1)
    peers.tell(9, [other])
    await until(lambda: metrics.peers_told == 3)
    assert writers[2] is not writers[0]
    assert metrics.peers_missed == 0
    await peers.close()
    server.close()
