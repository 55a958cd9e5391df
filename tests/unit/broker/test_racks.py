"""Consumers that tell their rack read from a broker in it (KIP-392)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lakelog.broker import Broker
from tests.patience import until
from tests.unit.broker.site import Client, Site, batch, broker, connect, records, story


@asynccontextmanager
async def in_two_racks(site: Site) -> AsyncIterator[tuple[Broker, Broker]]:
    """Yield the broker that leads the only partition, and one in another rack."""
    one = broker(site, node_id=1, rack="a", heartbeat_ms=100)
    other = broker(site, node_id=2, rack="b", heartbeat_ms=100)
    async with one as first, other as second:
        both = first, second
        await until(lambda: all(len(a.services.cluster.brokers("PLAINTEXT")) == 2 for a in both))
        leader, reader = both if first.services.cluster.leads(0) else both[::-1]
        yield leader, reader


def rack_of(running: Broker) -> str:
    return running.services.settings.rack or ""


async def fetched(
    client: Client, offset: int, rack: str
) -> tuple[list[tuple[int, bytes | None]], int]:
    row = await client.fetch_one("t", 0, offset, rack=rack)
    return records(row.records or b""), row.preferred_read_replica


@story
async def test_a_consumer_of_another_rack_is_sent_there_and_reads_what_is_produced() -> None:
    site = Site()
    site.create("t")
    async with in_two_racks(site) as (leader, reader):
        at_leader, at_reader = await connect(leader), await connect(reader)
        await at_leader.produce("t", 0, batch(b"a"))
        far = rack_of(reader)
        assert await fetched(at_leader, 0, far) == ([], reader.services.cluster.node_id)
        assert await fetched(at_leader, 0, "") == ([(0, b"a")], -1)
        assert await fetched(at_leader, 0, rack_of(leader)) == ([(0, b"a")], -1)
        assert await fetched(at_leader, 0, "nowhere") == ([(0, b"a")], -1)
        for at in range(20):
            # What was acknowledged before a fetch began is in it, wherever it is read.
            await at_leader.produce("t", 0, batch(b"%d" % at))
            found, _ = await fetched(at_reader, at + 1, far)
            assert found == [(at + 1, b"%d" % at)]
        await at_leader.close()
        await at_reader.close()


@story
async def test_metadata_names_a_broker_of_each_rack_as_a_replica() -> None:
    site = Site()
    site.create("t")
    async with in_two_racks(site) as (leader, reader):
        client = await connect(reader)
        (topic,) = await client.metadata("t")
        (row,) = topic.partitions
        nodes = leader.services.cluster.node_id, reader.services.cluster.node_id
        assert (row.leader_id, row.replica_nodes, row.isr_nodes) == (nodes[0], nodes, nodes)
        await client.close()


@story
async def test_who_reads_for_a_rack_sends_everybody_else_to_the_leader() -> None:
    site = Site()
    site.create("t")
    async with in_two_racks(site) as (leader, reader):
        client = await connect(reader)
        await client.metadata("t")
        for rack in ("", rack_of(leader)):
            row = await client.fetch_one("t", 0, 0, rack=rack, version=17)
            assert row.error_code.name == "not_leader_or_follower"
            assert row.current_leader.leader_id == leader.services.cluster.node_id
        await client.close()
