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
from lakelog.coordination import (
    BucketGroups,
    Member,
    State,
    encode_member,
    owners_of,
    shard_of,
)
from lakelog.groups import Commit, NewOffset, TopicIdPartition
from lakelog.host import new_id
from lakelog.journal import Touch, append, new_append
from lakelog.model import Rules
from lakelog.names import BROKERS_PREFIX, member_key
from lakelog.store import S3_PRICES, MemoryStore, put_if_absent, run, working
from lakelog.testing import make_batch
from tests.patience import until
from tests.unit.broker.site import Client, Site, batch, broker, connect, story, virtual_story
from tests.unit.broker.test_offsets_topic import commit
from tests.unit.broker.test_partitions import seal
from tests.virtual_time import pass_time

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
    "lakelog_sessions_expired_total": "nobody logs in: test_logins.py",
    "lakelog_audit_lines_lost_total": "there is no audit log: test_audit_log.py",
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
    "lakelog_muted_connections": "there are no quotas: test_quotas.py",
    "lakelog_quotas_unread_total": "likewise",
    "lakelog_group_shard_bytes_max": "a setting",
    "lakelog_lane_unanswered_put_seconds": "the store answers: test_readiness.py",
    "lakelog_members": "there is one broker: the story of two, below",
    "lakelog_lanes": "a rule of the namespace",
    "lakelog_lanes_led": "the story of two",
    "lakelog_lanes_unled": "the story of two",
    "lakelog_lanes_taken_total": "the story of two",
    "lakelog_lanes_given_up_total": "the story of two",
    "lakelog_mirror_age_seconds": "groups are in the bucket itself: test_mirror.py",
    "lakelog_acls_age_seconds": "there is no authorizer: test_authorizer.py",
    "lakelog_acls": "likewise",
    "lakelog_shards": "fixed when the first is made",
    "lakelog_shards_held": "the story of two",
    "lakelog_claims_lost_total": "the story of two",
    "lakelog_redirects_total": "the story of two",
    "lakelog_peers_told_total": "there is one broker: test_peers.py",
    "lakelog_peers_missed_total": "likewise",
    "kafka_server_replicamanager_underreplicatedpartitions": "the store copies",
    "kafka_server_replicamanager_offlinereplicacount": "likewise",
    "kafka_controller_kafkacontroller_offlinepartitionscount": "the story of one that is killed",
    "kafka_controller_kafkacontroller_activecontrollercount": "the story of two",
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
        running.services.metrics.prices = S3_PRICES
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
    bare -= AGES
    assert bare - moved == STILL.keys() & bare
    assert STILL.keys() <= set(after) | LABELLED


AGES = {"lakelog_view_age_seconds", "lakelog_beat_age_seconds", "lakelog_lane_put_seconds"}
"""They move by themselves, or as the machine has time: test_lane_writer.py has the last one."""

LABELLED = {
    "lakelog_task_deaths_total",
    "lakelog_callback_failures_total",
    "lakelog_group_refusals_total",
}
"""They have no row until something happens."""


@story
async def test_checkpoints_are_counted_although_threads_write_them() -> None:
    site = Site(checkpoint_every=4)
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        for _ in range(4):
            await client.produce("t", 0, batch(b"x"))
        purposes = running.services.metrics.purposes
        await until(lambda: purposes["checkpoints", "put"] == 2)
        await client.close()


# ---------------------------------------------------------------------------- of a cluster


async def readings(running: Broker) -> dict[str, float]:
    """Return what a broker tells about the cluster, by name, or by name and state."""
    metrics = running.services.metrics
    text, _ = encode(metrics, await read_gauges(metrics))
    return {
        sample.labels.get("state", sample.name): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


CONTROLLERS = "kafka_controller_kafkacontroller_activecontrollercount"
OFFLINE = "kafka_controller_kafkacontroller_offlinepartitionscount"


@virtual_story
async def test_of_two_brokers_each_tells_its_part() -> None:
    site = Site(lanes=4)
    site.create("t", 4)
    async with broker(site, node_id=1) as one:
        register_gauges(one.services.metrics, one.services)
        alone = await readings(one)
        assert (alone["lakelog_lanes"], alone["lakelog_lanes_led"]) == (4, 4)
        assert (alone["lakelog_shards"], alone["lakelog_shards_held"]) == (8, 8)
        assert (alone["serving"], alone["dead"], alone["lakelog_lanes_unled"]) == (1, 0, 0)
        assert alone["lakelog_lanes_taken_total"] == 4
        assert alone["kafka_server_replicamanager_leadercount"] == 4
        async with broker(site, node_id=2) as two:
            register_gauges(two.services.metrics, two.services)
            await pass_time(15)
            mine, theirs = await readings(one), await readings(two)
            for name in ("lakelog_lanes_led", "kafka_server_replicamanager_leadercount"):
                assert mine[name] + theirs[name] == 4
                assert mine[name] > 0 < theirs[name]
            assert mine["lakelog_shards_held"] + theirs["lakelog_shards_held"] == 8
            assert mine["serving"] == theirs["serving"] == 2
            assert (mine[CONTROLLERS], theirs[CONTROLLERS]) == (1, 0)
            assert mine["lakelog_lanes_given_up_total"] == theirs["lakelog_lanes_taken_total"] > 0
            assert mine["lakelog_lanes_unled"] == theirs["lakelog_lanes_unled"] == 0
            assert 0 <= mine["lakelog_beat_age_seconds"] <= 3
            assert 0 <= mine["lakelog_view_age_seconds"] <= 3
            site.fails = lambda op: getattr(op, "key", BROKERS_PREFIX).startswith(BROKERS_PREFIX)
            await pass_time(20)
            silent = await readings(one)
            assert silent["lakelog_beat_age_seconds"] > 20
            site.fails = lambda _: False
            await pass_time(6)
        await pass_time(6)
        again = await readings(one)
        assert (again["serving"], again["lakelog_lanes_led"]) == (1, 4)


@virtual_story
async def test_what_a_broker_led_that_is_dead_is_offline_until_another_leads_it() -> None:
    site = Site(lanes=2)
    site.create("t", 6)
    (lane,) = [lane for lane, owner in owners_of((2, 9), 2, "lane").items() if owner == 9]
    (touched,) = site.do(append(site.lane(lane), [Touch()]))
    run_ = site.lane(lane).writer
    other = Member(node=9, run=run_, state=State.SERVING, epochs={lane: touched.epoch})
    site.do(put_if_absent(member_key(9), encode_member(other)))
    async with broker(site, node_id=2) as one:
        register_gauges(one.services.metrics, one.services)
        await one.services.cluster.look()
        alive = await readings(one)
        assert (alive["serving"], alive["dead"], alive[OFFLINE]) == (2, 0, 0)
        site.fails = lambda op: getattr(op, "key", "").endswith(".bundle")
        await pass_time(15)
        dead = await readings(one)
        assert (dead["serving"], dead["dead"]) == (1, 1)
        assert (dead["lakelog_lanes_unled"], dead[OFFLINE]) == (1, 3)
        site.fails = lambda _: False
        await pass_time(15)
        again = await readings(one)
        assert (again["lakelog_lanes_led"], again[OFFLINE]) == (2, 0)


@virtual_story
async def test_a_client_that_is_sent_elsewhere_and_a_shard_that_is_taken_are_counted() -> None:
    site = Site(lanes=2)
    site.create("t", 2)
    async with broker(site, node_id=1) as one, broker(site, node_id=2) as two:
        register_gauges(one.services.metrics, one.services)
        await pass_time(15)
        topic = await one.services.catalog.topic("t")
        assert topic is not None
        (elsewhere,) = [at for at in (0, 1) if two.services.cluster.leads(topic.lane(at))]
        client = await connect(one)
        assert (await client.produce("t", elsewhere, batch(b"x"))).error_code != 0
        shard = one.services.coordinator.held()[0]
        group = next(str(at) for at in range(1000) if shard_of(str(at), 8) == shard)
        site.do(BucketGroups(new_id()).claim(shard, 8))
        await one.services.coordinator.confirm([group])
        await pass_time(1)
        told = await readings(one)
        assert told["lakelog_redirects_total"] == 1
        assert told["lakelog_claims_lost_total"] == 1
        await client.close()


@virtual_story
async def test_a_group_that_is_coordinated_here_lags_behind_what_is_led_elsewhere() -> None:
    site = Site(lanes=2)
    site.create("t", 2)
    async with broker(site, node_id=1) as one, broker(site, node_id=2) as two:
        await pass_time(15)
        topic = await one.services.catalog.topic("t")
        assert topic is not None
        (elsewhere,) = [at for at in (0, 1) if two.services.cluster.leads(topic.lane(at))]
        held = one.services.coordinator.held()
        group = next(str(at) for at in range(1000) if shard_of(str(at), 8) in held)
        offset = NewOffset(TopicIdPartition(topic.id, elsewhere), 0)
        await one.services.coordinator.commit(group, Commit(offsets=(offset,)))
        client = await connect(two)
        for written in (1, 2):
            assert (await client.produce("t", elsewhere, batch(b"x"))).error_code == 0
            await pass_time(32)
            (lag,) = one.services.lags.rows()
            assert (lag.group, lag.records) == (group, written)
        assert list(two.services.lags.rows()) == []
        await client.close()


@virtual_story
async def test_heads_are_looked_at_by_the_leader_of_a_lane_and_by_nobody_else() -> None:
    site = Site(lanes=4)
    async with broker(site, node_id=1) as one, broker(site, node_id=2) as two:
        await pass_time(60)
        brokers = (one, two)
        led = [len(running.services.cluster.led()) for running in brokers]
        assert sum(led) == 4
        before = [running.services.metrics.purposes["heads", "get"] for running in brokers]
        await pass_time(300)
        after = [running.services.metrics.purposes["heads", "get"] for running in brokers]
    assert [now - then for now, then in zip(after, before, strict=True)] == [10 * n for n in led]
