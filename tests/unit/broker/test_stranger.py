"""To somebody who is allowed nothing, what is there and what is not are the same.

Every request is sent twice: about topics and groups that are there, and about names of the same
length that are not. The answers are the same bytes but for the name, the store is asked nothing,
and no metric tells the two apart. Ids of topics are left out: they cannot be guessed, and Kafka
tells whoever has one that it is not allowed.
"""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from lakelog.broker import Broker
from lakelog.broker.metrics.gauges import register_gauges
from lakelog.broker.metrics.prometheus import encode, read_gauges
from lakelog.broker.settings import STANDARD_AUTHORIZER, AuthorizerSettings
from lakelog.catalog import add_acls
from lakelog.host import new_id
from lakelog.names import ACLS_KEY
from lakelog.security import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.e2e.acls.columns import Names
from tests.e2e.acls.probes import PROBES, Probe
from tests.patience import HANGS_S
from tests.unit.broker.site import Client, Site, batch, broker, connect, request_frame, story

ON = AuthorizerSettings(class_name=STANDARD_AUTHORIZER)
OWNER, STRANGER = "127.0.0.1", "127.0.0.3"
THERE, NOT_THERE = Names.of(500), Names.of(501)
ASKED = [one for one in PROBES if "by the id" not in one.about]


def owner() -> list[Acl]:
    kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)
    return [
        Acl(
            kind,
            PatternType.LITERAL,
            CLUSTER_NAME if kind is ResourceType.CLUSTER else "*",
            "User:*",
            OWNER,
            Operation.ALL,
            Permission.ALLOW,
        )
        for kind in kinds
    ]


@asynccontextmanager
async def lived_in(site: Site, **settings: Any) -> AsyncIterator[Broker]:
    """Run a broker that knows topics with records, and a group with offsets."""
    for name in (THERE.topic, THERE.doomed):
        site.create(name)
    site.do(add_acls(owner(), new_id()))
    async with broker(site, authorizer=ON, **settings) as running:
        client = await connect(running, source=OWNER)
        await client.produce(THERE.topic, 0, batch(b"secret"))
        commit = {"committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
        for group in (THERE.group, THERE.doomed_group, THERE.members):
            found = await client.ask(
                8, 9, group_id=group, generation_id_or_member_epoch=-1, member_id="",
                group_instance_id=None,
                topics=[
                    {"name": THERE.topic, "partitions": [{"partition_index": 0, **commit}]}
                ],
            )  # fmt: skip
            assert not found.topics[0].partitions[0].error_code
        yield running
        await client.close()


async def answer(client: Client, probe: Probe, names: Names) -> bytes:
    """Return the bytes that a request is answered with."""
    frame = request_frame(probe.key, probe.version, **probe.given(names, {}))
    client.writer.write(frame)
    (size,) = struct.unpack(">i", await asyncio.wait_for(client.reader.readexactly(4), HANGS_S))
    return await client.reader.readexactly(size)


async def scrape(running: Broker) -> dict[str, float]:
    """Return what is counted, by name and labels; times and what passes by itself are left out."""
    metrics = running.services.metrics
    text, _ = encode(metrics, await read_gauges(metrics))
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if sample.name.startswith(("kafka_", "lakelog_"))
        and not any(word in sample.name for word in ("second", "time", "bucket", "bytes", "cost"))
        and not sample.name.startswith(("lakelog_store_requests", "lakelog_loop"))
    }


@story
async def test_answers_and_store_requests_do_not_tell_what_is_there() -> None:
    site = Site()
    async with lived_in(site) as running:
        client = await connect(running, source=STRANGER)
        asked = len(site.ops)
        for probe in ASKED:
            known = await answer(client, probe, THERE)
            unknown = await answer(client, probe, NOT_THERE)
            assert known.replace(b"c500-", b"c501-") == unknown, str(probe)
            assert b"secret" not in known
        came = [op for op in site.ops[asked:] if getattr(op, "key", "") != ACLS_KEY]
        assert came == []
        await client.close()


@story
async def test_metrics_do_not_tell_what_is_there() -> None:
    """Whoever may look at metrics sees as much of either; and no name that a stranger made up."""
    site = Site()
    async with lived_in(site) as running:
        register_gauges(running.services.metrics, running.services)
        await running.services.lags.look()  # By itself it does so once a second.
        client = await connect(running, source=STRANGER)
        risen: list[dict[str, float]] = []
        for names in (THERE, NOT_THERE):
            before = await scrape(running)
            for probe in ASKED:
                await answer(client, probe, names)
            after = await scrape(running)
            changed = {key: after[key] - before.get(key, 0) for key in after}
            risen.append({key: value for key, value in changed.items() if value})
        assert risen[0] == risen[1]
        assert sum(risen[0].values()) >= len(ASKED)
        assert not any("c501" in key for key in await scrape(running))
        await client.close()


@story
async def test_who_is_allowed_is_told_the_difference() -> None:
    """The same comparison, for somebody who may: it would be noticed if it compared nothing."""
    site = Site()
    async with lived_in(site) as running:
        client = await connect(running, source=OWNER)
        told = 0
        for probe in ASKED[:12]:
            known = await answer(client, probe, THERE)
            unknown = await answer(client, probe, NOT_THERE)
            told += known.replace(b"c500-", b"c501-") != unknown
        assert told > 3
        await client.close()


def test_nothing_is_left_out_but_ids() -> None:
    assert {one.key for one in ASKED} == {one.key for one in PROBES}
