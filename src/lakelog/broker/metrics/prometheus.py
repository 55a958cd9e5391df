"""What a broker counts, told to Prometheus.

    read_gauges   on the loop, with breaks: gauges look at the broker's own values
    encode        in a thread: text for ten thousand topics takes longer than a loop may stall

Names are ours, ``lakelog_*``, with base units. Beside them stand Kafka's, as the exporter of its
JMX values writes them, so that dashboards and alerts for Kafka work unchanged. Kafka's counters of
topics have no row without a topic here: sums are right without a filter.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client import ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import choose_encoder

from lakelog.broker.metrics.counters import Gauge, Histogram, Labelled, LogRow, Metrics
from lakelog.broker.metrics.security import SecurityCounters
from lakelog.broker.turns import in_turns
from lakelog.store import Usage

__all__ = ["Readings", "encode", "encode_workers", "read_gauges"]

_QUANTILES = (0.5, 0.75, 0.95, 0.99, 0.999)
_PROCESS = ProcessCollector(registry=None)
MAINTENANCE = "maintenance"
"""What the process asks for that seals, trims and retains."""


class Readings(NamedTuple):
    """What the gauges said."""

    gauges: list[tuple[Gauge, list[tuple[tuple[str, ...], float]]]]
    logs: list[LogRow]


async def read_gauges(metrics: Metrics) -> Readings:
    """Ask every gauge, on the loop, with breaks. One that fails is left out, and counted."""
    readings = Readings([], [])
    for gauge in metrics.gauges:
        try:
            rows = [row async for row in in_turns(_rows(gauge))]
            readings.gauges.append((gauge, rows))
        except Exception:  # noqa: BLE001 (a scrape tells what it can)
            metrics.gauge_failures += 1
    try:
        readings.logs.extend([row async for row in in_turns(metrics.logs())])
    except Exception:  # noqa: BLE001 (likewise)
        metrics.gauge_failures += 1
    return readings


def encode(metrics: Metrics, readings: Readings, accept: str = "") -> tuple[bytes, str]:
    """Return everything as text, and of which type it is. May run in a thread."""
    encoder, kind = choose_encoder(accept)
    return encoder(_Scrape([*_families(metrics), *_read(readings)])), kind


def encode_workers(
    serving: Mapping[int, bool],
    starts: Mapping[int, int],
    accept: str = "",
    gauges: Iterable[Gauge] = (),
) -> tuple[bytes, str]:
    """Return what a supervisor says of its workers and itself as text, and of which type it is."""
    encoder, kind = choose_encoder(accept)
    families = [
        _labelled(
            GaugeMetricFamily,
            "lakelog_worker_up",
            "Whether a worker serves.",
            ("worker",),
            (((str(worker),), float(up)) for worker, up in serving.items()),
        ),
        _labelled(
            CounterMetricFamily,
            "lakelog_worker_starts",
            "How often a worker was started.",
            ("worker",),
            (((str(worker),), count) for worker, count in starts.items()),
        ),
        *(_gauge(one, _rows(one)) for one in gauges),
    ]
    return encoder(_Scrape(families)), kind


def _rows(gauge: Gauge) -> Labelled:
    value = gauge.read()
    return [((), value)] if isinstance(value, int | float) else value


def _gauge(gauge: Gauge, rows: Labelled) -> Metric:
    kind = CounterMetricFamily if gauge.only_rises else GaugeMetricFamily
    return _labelled(kind, gauge.name, gauge.help, gauge.labels, rows)


def _labelled(
    kind: type[CounterMetricFamily | GaugeMetricFamily],
    name: str,
    help_: str,
    labels: Sequence[str],
    rows: Iterable[tuple[Sequence[str], float]],
) -> Metric:
    family = kind(name, help_, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def _read(readings: Readings) -> Iterator[Metric]:
    for gauge, rows in readings.gauges:
        yield _gauge(gauge, rows)
    for name, help_, field in (
        ("kafka_log_log_logendoffset", "Where it ends.", "end"),
        ("kafka_topic_partition_current_offset", "Likewise, as kafka_exporter has it.", "end"),
        ("kafka_log_log_logstartoffset", "Where it begins, if that is known.", "start"),
        ("kafka_log_log_size", "Its sealed bytes, if they are known.", "size_bytes"),
    ):
        values = (((row.topic, str(row.partition)), getattr(row, field)) for row in readings.logs)
        known = (row for row in values if row[1] is not None)
        yield _labelled(GaugeMetricFamily, name, help_, ("topic", "partition"), known)


def _families(metrics: Metrics) -> Iterator[Metric]:
    yield from _PROCESS.collect()
    yield from _simple(metrics)
    yield from _requests(metrics)
    yield from _store(metrics)
    yield from _kafka(metrics)
    yield from _security(metrics.security)


def _security(counts: SecurityCounters) -> Iterator[Metric]:
    shaken = counts.handshake_seconds
    yield SummaryMetricFamily(
        "lakelog_tls_handshake_seconds",
        "TLS handshakes that succeeded.",
        count_value=shaken.count,
        sum_value=shaken.seconds,
    )
    for name, help_, label, rows in (
        ("tls_handshakes_failed", "By why.", "why", counts.handshakes_failed),
        ("logins", "Logins that succeeded.", "mechanism", counts.logins),
        (
            "logins_again",
            "Of those, again.",
            "mechanism",
            counts.logins_again,
        ),
        ("logins_failed", "Logins that failed.", "mechanism", counts.logins_failed),
    ):
        values = [((what,), count) for what, count in list(rows.items())]
        yield _labelled(CounterMetricFamily, f"lakelog_{name}", help_, (label,), values)
    denials = list(counts.denials.items())
    labels = ("operation", "resource_type")
    help_ = "What ACLs did not allow."
    yield _labelled(CounterMetricFamily, "lakelog_denials", help_, labels, denials)
    yield CounterMetricFamily(
        "lakelog_audit_lines_lost",
        "Lines of the audit log that could not be written.",
        value=counts.audit_lines_lost,
    )
    yield CounterMetricFamily(
        "lakelog_sessions_expired",
        "Connections that did not log in again in time.",
        value=counts.sessions_expired,
    )


def _simple(metrics: Metrics) -> Iterator[Metric]:
    for name, help_, value in (
        ("bytes_in", "Bytes that clients sent.", metrics.bytes_in),
        ("bytes_out", "Bytes that clients were sent.", metrics.bytes_out),
        ("connections_opened", "Connections so far.", metrics.connections_opened),
        ("connections_refused", "Refused: too many, or too fast.", metrics.connections_refused),
        ("cache_hits", "Reads that the cache answered.", metrics.cache_hits),
        ("cache_misses", "Reads that it did not.", metrics.cache_misses),
        ("redirects", "Clients that were told who leads a lane.", metrics.redirects),
        ("peers_told", "Brokers that were told of a change.", metrics.peers_told),
        ("peers_missed", "Brokers that could not be told.", metrics.peers_missed),
        ("loop_stalls", "Times the loop was late by over 50 ms.", metrics.stalls),
        ("loop_stall_seconds", "How late it was then, in all.", metrics.stall_seconds),
        ("keep_passes", "Passes that sealed and retained.", metrics.keep_passes),
        ("keep_failures", "What such passes could not do.", metrics.keep_failures),
        ("keep_restarts", "How often their process was started again.", metrics.keep_restarts),
        ("sealed_records", "Records that became history.", metrics.sealed_records),
        ("sealed_bytes", "Bytes that became history.", metrics.sealed_bytes),
        ("gauge_failures", "Gauges that could not be read.", metrics.gauge_failures),
    ):
        yield CounterMetricFamily(f"lakelog_{name}", help_, value=value)
    for name, help_, label, counts in (
        (
            "task_deaths",
            "Tasks that an error ended; they begin again.",
            "task",
            metrics.task_deaths,
        ),
        ("callback_failures", "Callbacks that raised.", "callback", metrics.callback_failures),
        (
            "group_refusals",
            "Consumer groups that found no room, by the limit.",
            "limit",
            metrics.group_refusals,
        ),
    ):
        values = [((what,), count) for what, count in list(counts.items())]
        yield _labelled(CounterMetricFamily, f"lakelog_{name}", help_, (label,), values)
    yield GaugeMetricFamily("lakelog_connections", "Open now.", value=metrics.connections)
    yield _histogram("lakelog_flush_seconds", "How long flushes took.", metrics.flush_seconds)
    yield _histogram("lakelog_flush_bytes", "How large they were.", metrics.flush_bytes)


def _requests(metrics: Metrics) -> Iterator[Metric]:
    count = CounterMetricFamily(
        "lakelog_requests", "Requests that were answered.", labels=("api", "error")
    )
    seconds = HistogramMetricFamily(
        "lakelog_request_seconds", "From frame to answer, waiting included.", labels=("api",)
    )
    name = "kafka_network_requestmetrics_"
    requests = CounterMetricFamily(name + "requests", "Requests.", labels=("request",))
    errors = CounterMetricFamily(name + "errors", "By error.", labels=("request", "error"))
    times = SummaryMetricFamily(name + "totaltimems", "Milliseconds.", labels=("request",))
    for api, row in list(metrics.apis.items()):
        ended: Counter[str] = Counter()
        for error, n in list(row.errors.items()):
            ended[error.upper()] += n  # As Kafka writes them.
        for error, n in ended.items():
            count.add_metric((api, error), n)
            errors.add_metric((api, error), n)
        seconds.add_metric((api,), row.seconds.buckets(), row.seconds.total)
        requests.add_metric((api,), row.seconds.count)
        times.add_metric((api,), row.seconds.count, row.seconds.total * 1000)
        for part in _QUANTILES:
            labels = {"request": api, "quantile": str(part)}
            times.add_sample(times.name, labels, row.seconds.quantile(part) * 1000)
    yield from (count, seconds, requests, errors, times)


def _store(metrics: Metrics) -> Iterator[Metric]:
    requests = list(metrics.store_requests.items())
    yield _labelled(
        CounterMetricFamily,
        "lakelog_store_requests",
        "Requests to the object store.",
        ("op", "outcome"),
        requests,
    )
    yield _labelled(
        CounterMetricFamily,
        "lakelog_etcd_requests",
        "Requests to etcd, if members and groups are there.",
        ("op", "outcome"),
        list(metrics.etcd.counts.items()),
    )
    seconds = HistogramMetricFamily(
        "lakelog_store_request_seconds", "How long they took.", labels=("op",)
    )
    for kind, row in list(metrics.store_seconds.items()):
        seconds.add_metric((kind,), row.buckets(), row.total)
    yield seconds
    purposes = _by_label(metrics.purposes)
    purposes[MAINTENANCE] = metrics.usage
    lanes = _by_label(metrics.lane_requests)
    for name, about, label, usages in (
        ("lakelog_store", "by what they are for", "what", purposes),
        ("lakelog_lane", "that are about a lane", "lane", lanes),
    ):
        yield _labelled(
            CounterMetricFamily,
            f"{name}_cost_usd",
            f"About what requests cost, {about}; by the prices of the store.",
            (label,),
            (((what,), usage.cost_usd(metrics.prices)) for what, usage in usages.items()),
        )
        yield _labelled(
            CounterMetricFamily,
            f"{name}_asked",
            f"Requests to the object store, {about}.",
            (label, "op"),
            (((what, op), n) for what, one in usages.items() for op, n in one.requests.items()),
        )


def _by_label(counts: Counter[tuple[str, str]]) -> dict[str, Usage]:
    """Return requests by what the first word of their label is."""
    found: dict[str, Usage] = {}
    for (what, kind), n in list(counts.items()):
        found[what] = found.get(what, Usage()) + Usage(requests={kind: n})
    return found


def _kafka(metrics: Metrics) -> Iterator[Metric]:
    rows = sorted(metrics.topics.items())
    for name, field in (
        ("messagesin", "messages_in"),
        ("bytesin", "bytes_in"),
        ("bytesout", "bytes_out"),
        ("totalproducerequests", "produce_requests"),
        ("totalfetchrequests", "fetch_requests"),
        ("failedproducerequests", "failed_produce_requests"),
        ("failedfetchrequests", "failed_fetch_requests"),
    ):
        values = (((topic,), getattr(counters, field)) for topic, counters in rows)
        name = f"kafka_server_brokertopicmetrics_{name}"
        yield _labelled(CounterMetricFamily, name, "By topic.", ("topic",), values)
    for name, help_, value in (
        ("server_replicamanager_underreplicatedpartitions", "None: the store copies.", 0),
        ("server_replicamanager_offlinereplicacount", "None: the store copies.", 0),
    ):
        yield GaugeMetricFamily(f"kafka_{name}", help_, value=value)


class _Scrape:
    """Families, as the encoders of Prometheus ask for them."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Sequence[Metric]:
        return self._families


def _histogram(name: str, help_: str, row: Histogram) -> Metric:
    return HistogramMetricFamily(name, help_, buckets=row.buckets(), sum_value=row.total)
