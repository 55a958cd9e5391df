"""What a broker is asked for at every scrape: how full it is, where partitions end, who lags.

All of it is read from the memory of the broker, on the loop; the store is not asked. Lag and
ends are capped, because a scrape may not hold the loop: a larger namespace is watched from storage.

Of several brokers each tells of the partitions that it leads and of the groups that it coordinates:
sums over all of them are right.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice

from lakelog.broker.metrics.counters import Gauge, Labelled, LogRow, Metrics
from lakelog.broker.services import Services
from lakelog.broker.tls import ListenerTls
from lakelog.coordination import State
from lakelog.ports import Clock

__all__ = ["certificate_gauge", "register_gauges"]

ROWS_MAX = 10_000

_LAGS = (
    ("kafka_consumergroup_lag", "Records that a group has not read.", "records"),
    ("kafka_consumergroup_current_offset", "How far a group has come.", "committed"),
    ("lakelog_consumergroup_lag_bytes", "About how many bytes those are.", "size_bytes"),
    ("lakelog_consumergroup_lag_seconds", "The age of the first of those.", "seconds"),
)
"""The first two are named as kafka_exporter names them."""

_LAG_LABELS = ("consumergroup", "topic", "partition")
_REPLICAS = "kafka_server_replicamanager_"
_CONTROLLER = "kafka_controller_kafkacontroller_"


def register_gauges(metrics: Metrics, services: Services, http: ListenerTls | None = None) -> None:
    """Let a broker's parts be asked at every scrape, and the TLS of whoever is scraped."""
    lanes, catalog, coordinator = services.lanes, services.catalog, services.coordinator
    budget, answers, limits = services.budget, services.answers, services.settings.limits
    metrics.gauges += [
        Gauge("lakelog_budget_bytes", "Memory that requests have now.", lambda: budget.used),
        Gauge("lakelog_budget_bytes_max", "Beyond it sockets are not read.", lambda: budget.total),
        Gauge("lakelog_budget_waiting", "Connections that wait for it.", lambda: budget.waiting),
        Gauge("lakelog_answer_bytes", "Answers that clients have not taken.", lambda: answers.used),
        Gauge("lakelog_answer_bytes_max", "Beyond it fetches wait.", lambda: answers.total),
        Gauge("lakelog_answer_waiting", "Fetches that wait for it.", lambda: answers.waiting),
        Gauge(
            "lakelog_queue_bytes",
            "What waits for a flush.",
            lambda: sum(writer.waiting_bytes for writer in lanes.values()),
        ),
        Gauge("lakelog_topics", "Topics that are known.", lambda: catalog.count()[0]),
        Gauge(
            "lakelog_topics_damaged",
            "Topics whose cells cannot be read; /readyz names them.",
            lambda: len(catalog.damaged),
        ),
        Gauge("lakelog_groups", "Consumer groups.", lambda: len(coordinator.list_groups()[1])),
        Gauge(
            "lakelog_group_shard_bytes",
            "What the consumer groups of a shard take; a bound.",
            lambda: [((str(shard),), size) for shard, size in coordinator.shard_sizes()],
            ("shard",),
        ),
        Gauge(
            "lakelog_group_shard_bytes_max",
            "Beyond it a shard takes no new groups.",
            lambda: limits.shard_new_bytes,
        ),
        Gauge(
            "lakelog_lane_bundles",
            "Bundles of a lane that are not trimmed: how far sealing is behind.",
            lambda: _bundles(services),
            ("lane",),
        ),
        Gauge(
            "lakelog_lane_unanswered_put_seconds",
            "For how long the store has not answered for the bundle that a lane is putting.",
            lambda: [
                ((str(number),), one.health.unanswered_s) for number, one in list(lanes.items())
            ],
            ("lane",),
        ),
        Gauge(
            "lakelog_lane_put_seconds",
            "How long the store takes for a bundle of a lane: the median of the last ones.",
            lambda: [
                ((str(number),), one.lane.put_times.median_ms / 1000)
                for number, one in list(lanes.items())
            ],
            ("lane",),
        ),
        *(
            Gauge(name, help_, partial(_lags, services, field), _LAG_LABELS)
            for name, help_, field in _LAGS
        ),
        Gauge(_REPLICAS + "partitioncount", "Partitions.", lambda: catalog.count()[1]),
        Gauge(
            _REPLICAS + "leadercount",
            "Partitions that this broker leads.",
            lambda: catalog.count_on(services.cluster.node.leadership.epochs),
        ),
        *_cluster_gauges(services, http),
    ]
    metrics.logs = lambda: islice(_ends(services), ROWS_MAX)


def _cluster_gauges(services: Services, http: ListenerTls | None) -> Iterator[Gauge]:
    """Yield what is asked about the other brokers, about what is whose, and about who is who."""
    cluster, coordinator = services.cluster, services.coordinator
    node, leading = cluster.node, cluster.leading
    boot_ms = services.clock.boot_ms
    secured = {**services.secured, **({} if http is None else {http.name: http})}
    yield certificate_gauge(secured, services.clock)
    yield from _quotas(services)
    for name, help_, read in (
        (
            "view_age_seconds",
            "Since the list of brokers was read.",
            lambda: (boot_ms() - node.view.begun_ms) / 1000,
        ),
        (
            "beat_age_seconds",
            "Since the store took a heartbeat of this broker.",
            lambda: (boot_ms() - node.beat_ms) / 1000,
        ),
        ("lanes", "Lanes of the namespace.", lambda: node.leadership.lanes),
        ("lanes_led", "Lanes that this broker leads.", lambda: len(node.leadership.epochs)),
        (
            "lanes_unled",
            "Lanes that nobody leads, as far as this broker knows.",
            lambda: len(_unled(services)),
        ),
        ("shards", "Shards of consumer groups.", lambda: coordinator.shards),
        ("shards_held", "Shards that this broker holds.", lambda: len(coordinator.held())),
        (
            "mirror_age_seconds",
            "Since the bucket had all groups that this broker keeps in etcd.",
            lambda: 0.0 if services.mirror is None else services.mirror.age_ms() / 1000,
        ),
        (
            "acls_age_seconds",
            "Since the ACLs were looked at; 0 without an authorizer.",
            lambda: 0.0 if services.authorizer is None else services.authorizer.age_ms / 1000,
        ),
        (
            "acls",
            "ACLs that this broker goes by.",
            lambda: 0 if services.authorizer is None else len(services.authorizer.rules.acls),
        ),
    ):
        yield Gauge(f"lakelog_{name}", help_, read)
    for name, help_, read in (
        ("lanes_taken", "Times this broker took a lane.", lambda: leading.taken),
        ("lanes_given_up", "Times it gave one up to another.", lambda: leading.given_up),
        ("lane_races", "Times another wrote to a lane it leads.", lambda: leading.races),
        ("claims_lost", "Shards another took from it.", lambda: coordinator.claims_lost),
    ):
        yield Gauge(f"lakelog_{name}", help_, read, only_rises=True)
    # There is no controller. One broker says that it is, so that sums are as Kafka's.
    yield Gauge(
        _CONTROLLER + "activecontrollercount",
        "1 at the broker with the lowest id.",
        lambda: int(_is_first(services)),
    )
    yield Gauge(
        _CONTROLLER + "offlinepartitionscount",
        "Partitions that nobody leads; told by that broker.",
        lambda: services.catalog.count_on(_unled(services)) if _is_first(services) else 0,
    )
    yield Gauge(
        "lakelog_members",
        "Brokers of the cluster that have not left, by state, as this one sees them.",
        lambda: _members(services),
        ("state",),
    )


def _unled(services: Services) -> list[int]:
    leaders = services.cluster.lane_leaders()
    return [lane for lane, one in enumerate(leaders) if one.leader < 0]


def _is_first(services: Services) -> bool:
    return services.cluster.node_id == min(services.cluster.node.view.serving, default=-1)


def _members(services: Services) -> Labelled:
    view = services.cluster.node.view
    states = Counter(one.state for one in view.living.values())
    for state in (State.STARTING, State.SERVING, State.DRAINING):
        yield (state.value,), states[state]
    yield ("dead",), len(view.dead)
    yield ("unreadable",), len(view.unreadable)


def certificate_gauge(secured: Mapping[str, ListenerTls], clock: Clock) -> Gauge:
    """Return how long the certificates of listeners are still good."""
    return Gauge(
        "lakelog_certificate_expiry_seconds",
        "How long the certificate of a listener is still good.",
        lambda: [
            ((name,), (one.expires_ms - clock.now_ms()) / 1000) for name, one in secured.items()
        ],
        ("listener",),
    )


def _quotas(services: Services) -> Iterator[Gauge]:
    counters = services.metrics.quotas
    yield Gauge(
        "lakelog_throttled_seconds",
        "For how long connections were not read, since their clients had used their quotas.",
        lambda: [((key,), seconds) for key, seconds in counters.throttled_seconds.items()],
        ("quota",),
        only_rises=True,
    )
    yield Gauge(
        "lakelog_throttles",
        "How often a connection was not read for that, or for longer.",
        lambda: [((key,), count) for key, count in counters.throttles.items()],
        ("quota",),
        only_rises=True,
    )
    yield Gauge(
        "lakelog_muted_connections",
        "Connections that are not read now, since their clients have used their quotas.",
        lambda: counters.muted,
    )
    yield Gauge(
        "lakelog_quotas_unread",
        "How often the quotas of the namespace could not be read.",
        lambda: counters.unread,
        only_rises=True,
    )


def _bundles(services: Services) -> Labelled:
    for number, writer in list(services.lanes.items()):
        if not services.cluster.leads(number):
            continue  # Its leader knows it better.
        fold, seen = writer.lane.fold, writer.lane.last_look
        if fold is not None and seen is not None:
            yield (str(number),), max(fold.seq + 1 - seen.head.floor, 0)


def _ends(services: Services) -> Iterator[LogRow]:
    for entry in services.catalog.entries():
        topic = entry.topic
        for index in range(topic.partitions):
            if not services.cluster.leads(topic.lane(index)):
                continue  # Likewise.
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
