"""What a broker is asked for at every scrape: how full it is, where partitions end, who lags.

All of it is read from what the broker knows anyway, on the loop; nobody asks the store. Lag and
ends are capped, because a scrape may not hold the loop: a larger namespace is watched from storage.
"""

from collections.abc import Iterator
from itertools import islice

from lakelog.broker.metrics.counters import Labelled, LogRow, Metrics
from lakelog.broker.services import Services

__all__ = ["register_gauges"]

ROWS_MAX = 10_000

_LAGS = (
    ("kafka_consumergroup_lag", "Records that a group has not read.", "records"),
    ("kafka_consumergroup_current_offset", "How far a group has come.", "committed"),
    ("lakelog_consumergroup_lag_bytes", "About how many bytes those are.", "size_bytes"),
    ("lakelog_consumergroup_lag_seconds", "The age of the first of those.", "seconds"),
)
"""The first two are named as kafka_exporter names them."""


def register_gauges(metrics: Metrics, services: Services) -> None:
    """Let a broker's parts be asked at every scrape."""
    lanes, catalog = services.lanes, services.catalog
    budget, answers = services.budget, services.answers

    def queued() -> int:
        return sum(writer.waiting_bytes for writer in lanes.values())

    gauge = metrics.gauge
    gauge("lakelog_budget_bytes", "Memory that requests have now.", lambda: budget.used)
    gauge("lakelog_budget_bytes_max", "Beyond it sockets are not read.", lambda: budget.total)
    gauge("lakelog_budget_waiting", "Connections that wait for it.", lambda: budget.waiting)
    gauge("lakelog_answer_bytes", "Answers that clients have not taken.", lambda: answers.used)
    gauge("lakelog_answer_bytes_max", "Beyond it fetches wait.", lambda: answers.total)
    gauge("lakelog_answer_waiting", "Fetches that wait for it.", lambda: answers.waiting)
    gauge("lakelog_queue_bytes", "What waits for a flush.", queued)
    gauge("lakelog_topics", "Topics that are known.", lambda: catalog.count()[0])
    gauge(
        "lakelog_topics_damaged",
        "Topics whose cells cannot be read; /readyz names them.",
        lambda: len(catalog.damaged),
    )
    gauge("lakelog_groups", "Consumer groups.", lambda: len(services.coordinator.list_groups()[1]))
    limits = services.settings.limits
    gauge(
        "lakelog_group_shard_bytes",
        "What the consumer groups of a shard take; a bound.",
        lambda: [((str(shard),), size) for shard, size in services.coordinator.shard_sizes()],
        ("shard",),
    )
    gauge(
        "lakelog_group_shard_bytes_max",
        "Beyond it a shard takes no new groups.",
        lambda: limits.shard_new_bytes,
    )
    gauge(
        "lakelog_lane_bundles",
        "Bundles of a lane that are not trimmed: how far sealing is behind.",
        lambda: _bundles(services),
        ("lane",),
    )
    gauge(
        "lakelog_lane_unanswered_put_seconds",
        "For how long the store has not answered for the bundle that a lane is putting.",
        lambda: [((str(number),), one.unanswered_s) for number, one in list(lanes.items())],
        ("lane",),
    )
    for name, help_, field in _LAGS:
        gauge(
            name, help_, lambda field=field: _lags(services, field),  # type: ignore[misc]
            ("consumergroup", "topic", "partition"),
        )  # fmt: skip
    metrics.kafka_partitions(lambda: catalog.count()[1])
    metrics.kafka_logs(lambda: islice(_ends(services), ROWS_MAX))


def _bundles(services: Services) -> Labelled:
    for number, writer in list(services.lanes.items()):
        fold, seen = writer.lane.fold, writer.lane.last_look
        if fold is not None and seen is not None:
            yield (str(number),), max(fold.seq + 1 - seen.head.floor, 0)


def _ends(services: Services) -> Iterator[LogRow]:
    for entry in services.catalog.entries():
        topic = entry.topic
        for index in range(topic.partitions):
            end = services.lanes[topic.lane(index)].end((topic.id, index))
            partition = entry.partition(index)
            if end is not None and partition is not None:
                start, size = partition.log_start, partition.sealed_bytes
                yield LogRow(topic.name, index, end, None if start < 0 else start, size)


def _lags(services: Services, field: str) -> Labelled:
    for lag in services.lags.rows():
        value = getattr(lag, field)
        if value is not None:
            yield (lag.group, lag.topic, str(lag.partition)), value
