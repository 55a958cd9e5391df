"""What a broker counts is told to Prometheus, under our names and under Kafka's."""

import asyncio
import time
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lakelog.broker.metrics.counters import Gauge, Histogram, LogRow, Metrics
from lakelog.broker.metrics.prometheus import encode, read_gauges
from lakelog.errors import NotFoundError, UnavailableError
from lakelog.names import (
    BROKERS_PREFIX,
    TOPICS_PREFIX,
    bundle_key,
    checkpoint_key,
    group_shard_key,
    head_key,
    manifest_key,
    tail_key,
    time_key,
)
from lakelog.store import (
    FREE,
    OPERATION_KINDS,
    S3_PRICES,
    Delete,
    Get,
    ListPage,
    MemoryStore,
    Op,
    PutIfAbsent,
    Usage,
    metered_async,
)
from tests.patience import in_time


def told(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return every sample by its name and labels."""
    text, kind = encode(metrics, asyncio.run(read_gauges(metrics)))
    assert kind.startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_a_broker_that_did_nothing_says_so() -> None:
    samples = told(Metrics())
    assert samples["lakelog_bytes_in_total", ()] == 0
    assert samples["lakelog_connections", ()] == 0
    assert samples["kafka_server_replicamanager_underreplicatedpartitions", ()] == 0
    assert samples["process_resident_memory_bytes", ()] > 0


def test_plain_numbers_are_counters() -> None:
    metrics = Metrics()
    metrics.bytes_in += 10
    metrics.bytes_out += 20
    metrics.connections += 2
    metrics.connections -= 1
    metrics.cache_hits += 3
    samples = told(metrics)
    assert samples["lakelog_bytes_in_total", ()] == 10
    assert samples["lakelog_bytes_out_total", ()] == 20
    assert samples["lakelog_connections", ()] == 1
    assert samples["lakelog_cache_hits_total", ()] == 3


def test_requests_are_told_by_api_and_error_under_both_names() -> None:
    metrics = Metrics()
    for number in range(99):
        metrics.api("Produce").count(0.004, "none" if number % 2 else "")
    metrics.api("Produce").count(2.0, "request_timed_out")
    samples = told(metrics)
    good = (("api", "Produce"), ("error", "NONE"))
    bad = (("error", "REQUEST_TIMED_OUT"), ("request", "Produce"))
    produce = (("request", "Produce"),)
    assert samples["lakelog_requests_total", good] == 99
    assert samples["kafka_network_requestmetrics_errors_total", bad] == 1
    assert samples["kafka_network_requestmetrics_requests_total", produce] == 100
    assert samples["kafka_network_requestmetrics_totaltimems_count", produce] == 100
    upto = (("api", "Produce"), ("le", "0.005"))
    assert samples["lakelog_request_seconds_bucket", upto] == 99
    assert samples["lakelog_request_seconds_sum", (("api", "Produce"),)] == pytest.approx(2.396)
    half = (("quantile", "0.5"), ("request", "Produce"))
    most = (("quantile", "0.999"), ("request", "Produce"))
    assert 2.5 <= samples["kafka_network_requestmetrics_totaltimems", half] <= 5
    assert 1000 <= samples["kafka_network_requestmetrics_totaltimems", most] <= 2500


def test_topics_have_kafkas_counters() -> None:
    metrics = Metrics()
    topic = metrics.topic("orders")
    topic.messages_in += 5
    assert metrics.topic("orders") is topic
    samples = told(metrics)
    name = "kafka_server_brokertopicmetrics"
    orders = (("topic", "orders"),)
    assert samples[f"{name}_messagesin_total", orders] == 5
    assert samples[f"{name}_bytesout_total", orders] == 0
    del metrics.topics["orders"]
    assert (f"{name}_messagesin_total", orders) not in told(metrics)


def test_too_many_topics_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.broker.metrics.counters.TOPICS_MAX", 10)
    metrics = Metrics()
    for number in range(12):
        metrics.topic(f"t{number}").messages_in += 1
    assert metrics.topic("one more").messages_in == 2
    others = (("topic", "~others"),)
    assert told(metrics)["kafka_server_brokertopicmetrics_messagesin_total", others] == 2


def test_only_long_stalls_are_counted() -> None:
    metrics = Metrics()
    metrics.stall(0.05)
    metrics.stall(0.07)
    samples = told(metrics)
    assert samples["lakelog_loop_stalls_total", ()] == 1
    assert samples["lakelog_loop_stall_seconds_total", ()] == pytest.approx(0.07)


def test_flushes_are_histograms() -> None:
    metrics = Metrics()
    metrics.flush(0.1, 5_000_000)
    samples = told(metrics)
    assert samples["lakelog_flush_seconds_count", ()] == 1
    assert samples["lakelog_flush_bytes_bucket", (("le", "4000000.0"),)] == 0
    assert samples["lakelog_flush_bytes_bucket", (("le", "8000000.0"),)] == 1


def test_gauges_are_asked_at_every_scrape() -> None:
    metrics, sizes = Metrics(), [1.0]
    metrics.gauges.append(Gauge("lakelog_queue_bytes", "Waiting.", lambda: sizes[0]))
    metrics.gauges.append(Gauge("lakelog_lag", "By group.", lambda: [(("g",), 7)], ("group",)))
    metrics.logs = lambda: [LogRow("t", 3, 20, 10, 999), LogRow("t", 4, 5)]
    assert told(metrics)["lakelog_queue_bytes", ()] == 1
    sizes[0] = 2
    samples = told(metrics)
    assert samples["lakelog_queue_bytes", ()] == 2
    assert samples["lakelog_lag", (("group", "g"),)] == 7
    place = (("partition", "3"), ("topic", "t"))
    assert samples["kafka_log_log_logstartoffset", place] == 10
    assert samples["kafka_log_log_logendoffset", place] == 20
    assert samples["kafka_log_log_size", place] == 999
    other = (("partition", "4"), ("topic", "t"))
    assert samples["kafka_topic_partition_current_offset", other] == 5
    assert ("kafka_log_log_size", other) not in samples


def test_a_gauge_that_fails_is_left_out_and_counted() -> None:
    metrics = Metrics()
    metrics.gauges.append(Gauge("lakelog_broken", "Never there.", lambda: 1 / 0))
    metrics.gauges.append(Gauge("lakelog_fine", "There.", lambda: 1))
    samples = told(metrics)
    assert ("lakelog_broken", ()) not in samples
    assert samples["lakelog_fine", ()] == 1
    assert samples["lakelog_gauge_failures_total", ()] == 1


def test_requests_to_the_store_are_told_by_outcome_with_their_price() -> None:
    metrics, store = Metrics(prices=S3_PRICES), MemoryStore()

    async def story() -> None:
        perform = metered_async(store.perform_async, metrics)
        await perform(PutIfAbsent("a", b"1"))
        await perform(PutIfAbsent("a", b"2"))
        await perform(Get("a"))
        with pytest.raises(NotFoundError):
            await perform(Get("b"))
        await perform(Delete("a"))

        async def silent(_: Op) -> Any:
            raise UnavailableError("no answer: retry")

        with pytest.raises(UnavailableError):
            await metered_async(silent, metrics)(Get("a"))

    asyncio.run(story())
    assert metrics.store_requests == {
        ("put", "ok"): 1,
        ("put", "taken"): 1,
        ("get", "ok"): 1,
        ("get", "missing"): 1,
        ("get", "unavailable"): 1,
        ("delete", "ok"): 1,
    }
    metrics.usage += Usage(requests={"list": 1})
    samples = told(metrics)
    assert samples["lakelog_store_requests_total", (("op", "put"), ("outcome", "taken"))] == 1
    cost = "lakelog_store_cost_usd_total"
    assert samples[cost, (("what", "history"),)] == pytest.approx((2 * 5_000 + 3 * 400) / 1e9)
    assert samples[cost, (("what", "maintenance"),)] == pytest.approx(5_000 / 1e9)
    metrics.prices = FREE
    assert told(metrics)[cost, (("what", "history"),)] == 0


def test_requests_to_the_store_are_told_by_what_they_are_for_and_by_lane() -> None:
    metrics = Metrics(prices=S3_PRICES)
    for op, what in (
        (PutIfAbsent(bundle_key(3, 7), b"1"), "bundles"),
        (Get(head_key(3)), "heads"),
        (Get(tail_key(12)), "checkpoints"),
        (PutIfAbsent(checkpoint_key(12, 63), b"1"), "checkpoints"),
        (ListPage(BROKERS_PREFIX), "members"),
        (Get(group_shard_key(0)), "groups"),
        (ListPage(TOPICS_PREFIX), "topics"),
        (PutIfAbsent(time_key(bytes(16)), b""), "clock"),
        (Get(manifest_key("orders", 0)), "history"),
    ):
        before = metrics.purposes.total()
        metrics.begin(op)(None)
        kinds = {kind for purpose, kind in metrics.purposes if purpose == what}
        assert OPERATION_KINDS[type(op)] in kinds, what
        assert metrics.purposes.total() == before + 1
    samples = told(metrics)
    usd, asked = "lakelog_lane_cost_usd_total", "lakelog_lane_asked_total"
    assert samples[usd, (("lane", "3"),)] == pytest.approx(5_400 / 1e9)
    assert samples[asked, (("lane", "12"), ("op", "get"))] == 1
    assert samples["lakelog_store_asked_total", (("op", "list"), ("what", "members"))] == 1


def test_open_metrics_are_told_to_whoever_asks_for_them() -> None:
    metrics = Metrics()
    text, kind = encode(
        metrics, asyncio.run(read_gauges(metrics)), "application/openmetrics-text; version=1.0.0"
    )
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


def test_quantiles_lie_in_their_buckets() -> None:
    row = Histogram((1.0, 2.0, 4.0))
    assert row.quantile(0.5) == 0
    for value in (0.5, 1.5, 1.7, 3.0):
        row.observe(value)
    assert row.quantile(0.25) == 1.0
    assert 1.0 < row.quantile(0.5) < 2.0
    assert 2.0 < row.quantile(0.99) <= 4.0
    row.observe(100.0)
    assert row.quantile(1.0) == 4.0
    assert row.buckets()[-1] == ("+Inf", 5)


def test_counting_a_request_is_cheap() -> None:
    metrics = Metrics()
    begun_s = time.process_time()
    for _ in range(20_000):
        metrics.api("Produce").count(0.004)
    in_time((time.process_time() - begun_s) / 20_000 < 20e-6, "an observation")
