"""What a broker is asked at every scrape, it can tell."""

import asyncio
import io

from prometheus_client.parser import text_string_to_metric_families

from lakelog.broker import Broker, BrokerSettings, Listener, run_broker
from lakelog.broker.metrics.counters import Metrics
from lakelog.broker.metrics.gauges import register_gauges
from lakelog.broker.metrics.prometheus import encode, read_gauges
from lakelog.catalog import make_namespace
from lakelog.cli.logs import make_log
from lakelog.groups import Commit, NewOffset, TopicIdPartition
from lakelog.host import new_id
from lakelog.journal import new_append
from lakelog.model import Rules
from lakelog.store import MemoryStore, run, working
from lakelog.testing import make_batch
from tests.unit.broker.site import Client, Site, batch, broker, connect, story
from tests.unit.broker.test_offsets_topic import commit
from tests.unit.broker.test_partitions import seal

SETTINGS = BrokerSettings(listeners=(Listener(port=0),))


def test_a_broker_tells_how_far_its_partitions_and_groups_are() -> None:
    store, metrics = MemoryStore(), Metrics()
    run(make_namespace(new_id(), Rules(lanes=2)), working(store.perform))

    async def story() -> str:
        log = make_log("json", io.StringIO())
        async with run_broker(store, SETTINGS, log, metrics=metrics) as broker:
            services = broker.services
            register_gauges(metrics, services)
            topic = await services.catalog.create("t", 3, {})
            body = make_batch(0, 10, (-1, -1, -1), services.clock.now_ms())
            await services.lanes[topic.lane(1)].append(new_append(topic.id, 1, body))
            commit = Commit(offsets=(NewOffset(TopicIdPartition(topic.id, 1), 4),))
            await services.coordinator.commit("g", commit)
            await services.lags.look()
            text, _ = encode(metrics, await read_gauges(metrics))
            return text.decode()

    lines = asyncio.run(story()).splitlines()
    assert "lakelog_gauge_failures_total 0.0" in lines
    assert "kafka_server_replicamanager_partitioncount 3.0" in lines
    assert "kafka_server_replicamanager_leadercount 3.0" in lines
    assert 'kafka_log_log_logendoffset{partition="0",topic="t"} 0.0' in lines
    assert 'kafka_log_log_logendoffset{partition="1",topic="t"} 10.0' in lines
    assert 'kafka_consumergroup_lag{consumergroup="g",partition="1",topic="t"} 6.0' in lines
    assert "lakelog_groups 1.0" in lines
    assert "lakelog_queue_bytes 0.0" in lines
    assert sum(line.startswith("lakelog_lane_bundles{") for line in lines) == 2


# ---------------------------------------------------------------------------- every metric moves

STILL = {
    "lakelog_connections_refused_total": "no limit is reached",
    "lakelog_loop_stalls_total": "nothing keeps the loop",
    "lakelog_loop_stall_seconds_total": "likewise",
    "lakelog_keep_passes_total": "no keeper runs; tests/unit/broker/test_maintenance.py",
    "lakelog_keep_failures_total": "likewise",
    "lakelog_keep_restarts_total": "likewise",
    "lakelog_sealed_records_total": "likewise",
    "lakelog_sealed_bytes_total": "likewise",
    "lakelog_gauge_failures_total": "no gauge fails",
    "lakelog_task_deaths_total": "no task dies; tests/unit/broker/test_supervision.py",
    "lakelog_callback_failures_total": "likewise",
    "lakelog_queue_bytes": "nothing waits when it is asked",
    "lakelog_budget_bytes": "likewise",
    "lakelog_budget_bytes_max": "a setting",
    "lakelog_budget_waiting": "nobody waits: test_hostile.py",
    "lakelog_answer_bytes": "every answer was taken",
    "lakelog_answer_bytes_max": "a setting",
    "lakelog_answer_waiting": "nobody waits: test_hostile.py",
    "lakelog_topics_damaged": "no topic is damaged: test_isolation.py",
    "lakelog_group_refusals_total": "all groups find room: test_hostile.py",
    "lakelog_group_shard_bytes_max": "a setting",
    "lakelog_lane_unanswered_put_seconds": "the store answers: test_readiness.py",
    "kafka_server_replicamanager_underreplicatedpartitions": "the store copies",
    "kafka_server_replicamanager_offlinereplicacount": "likewise",
    "kafka_controller_kafkacontroller_offlinepartitionscount": "any broker leads",
    "kafka_controller_kafkacontroller_activecontrollercount": "the bucket decides",
}
"""Metrics that the story below does not move, and why."""


async def scrape(running: Broker) -> dict[str, float]:
    """Return every sample that is not of the process, summed over its labels."""
    metrics = running.services.metrics
    text, _ = encode(metrics, await read_gauges(metrics))
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            if not sample.name.startswith(("process_", "python_")) and "quantile" not in str(
                sample.labels
            ):
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


async def live(site: Site, running: Broker, client: Client) -> None:
    """Do a bit of everything that a client and a keeper do."""
    for at in range(4):
        assert (await client.produce("t", 0, batch(b"%d" % at * 100))).error_code == 0
    assert (await client.produce("t", 0, b"no batch at all" * 9)).error_code != 0
    await client.fetch_one("t", 0, 0)
    await commit(running, "g", "t", 1)
    seal(site)
    starts = [{"partition_index": 0, "offset": 2}]
    await client.ask(21, 2, topics=[{"name": "t", "partitions": starts}], timeout=1_000)
    await client.fetch_one("u", 0, 0)  # From the store,
    await client.fetch_one("u", 0, 0)  # and from the cache.
    site.fails = lambda _: True
    assert (await client.fetch_one("v", 0, 0)).error_code != 0
    site.fails = lambda _: False
    await running.services.lags.look()


@story
async def test_every_metric_moves_when_it_should() -> None:
    site = Site()
    async with broker(site) as running:
        register_gauges(running.services.metrics, running.services)
        before = await scrape(running)
        for name in ("t", "u", "v"):
            site.create(name)
            site.append(name, 0, batch(b"by another process"))
        client = await connect(running)
        await client.metadata("t", "u", "v")
        await live(site, running, client)
        after = await scrape(running)
        await client.close()
    assert after["kafka_server_brokertopicmetrics_totalfetchrequests_total"] == 4
    assert after["kafka_server_brokertopicmetrics_failedfetchrequests_total"] == 1
    assert after["kafka_log_log_logstartoffset"] == 2
    assert after["kafka_log_log_size"] > 100
    moved = {name for name, value in after.items() if value != before.get(name, 0.0)}
    bare = {name for name in after if not name.endswith(("_created", "_bucket", "_count", "_sum"))}
    assert bare - moved == STILL.keys() & bare
    assert STILL.keys() <= set(after) | LABELLED


LABELLED = {
    "lakelog_task_deaths_total",
    "lakelog_callback_failures_total",
    "lakelog_group_refusals_total",
}
"""They have no row until something happens."""
