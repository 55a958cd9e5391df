"""What a broker is asked at every scrape, it can tell."""

import asyncio
import io

from lakelog.broker import BrokerSettings, Listener, run_broker
from lakelog.broker.gauges import register_gauges
from lakelog.broker.metrics import Metrics
from lakelog.broker.prometheus import encode, read_gauges
from lakelog.cli.logs import make_log
from lakelog.groups import Commit, NewOffset, Place
from lakelog.host import new_id
from lakelog.journal import new_append
from lakelog.log import make_namespace
from lakelog.model import Rules
from lakelog.store import MemoryStore, run, working
from lakelog.testing import make_batch

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
            commit = Commit(offsets=(NewOffset(Place(topic.id, 1), 4),))
            await services.coordinator.commit("g", commit)
            await services.lags.look()
            text, _ = encode(metrics, await read_gauges(metrics))
            return text.decode()

    lines = asyncio.run(story()).splitlines()
    assert "lakelog_gauge_failures_total 0.0" in lines
    assert "kafka_server_replicamanager_partitioncount 3.0" in lines
    assert 'kafka_log_log_logendoffset{partition="0",topic="t"} 0.0' in lines
    assert 'kafka_log_log_logendoffset{partition="1",topic="t"} 10.0' in lines
    assert 'kafka_consumergroup_lag{consumergroup="g",partition="1",topic="t"} 6.0' in lines
    assert "lakelog_groups 1.0" in lines
    assert "lakelog_queue_bytes 0.0" in lines
    assert sum(line.startswith("lakelog_lane_bundles{") for line in lines) == 2
