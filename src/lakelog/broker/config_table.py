"""The configs of a broker, by Kafka's names: what each of them becomes here.

    used         it is a setting of this broker, under another name or in another unit
    of topics    Kafka's default for topics: stored with the topics that this broker makes
    no effect    there is nothing here that it could mean, and a sentence says why

The pipeline runs without a broker, so a default that only a broker knows would be none for it. That
is why a default goes into the topics themselves, where all readers find it.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from lakelog.broker.limits import LIMITS
from lakelog.broker.settings import STANDARD_AUTHORIZER, BrokerSettings
from lakelog.catalog import TOPIC_CONFIGS, ConfigType, parse_config
from lakelog.errors import InvalidInputError
from lakelog.journal import FlushPolicy

__all__ = [
    "BROKER_CONFIGS",
    "TOPIC_DEFAULTS",
    "BrokerConfig",
    "TopicDefault",
    "no_effect",
    "parse_broker_config",
]

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
ANY_NODE_ID = -1
"""How Kafka writes a node id that the broker finds by itself."""


class BrokerConfig(NamedTuple):
    """A config that is a setting of a broker."""

    name: str
    type: ConfigType
    path: tuple[str, ...]
    """Where it stands in ``BrokerSettings``."""
    doc: str
    unit: int = 1
    """What one of it is in ours."""
    in_force: tuple[str, ...] = ()
    """Where the value stands that follows if it is not given."""
    is_text: bool = False
    """Whether any text will do: the settings themselves judge it."""

    def get(self, settings: BrokerSettings) -> str:
        """Return its value, as Kafka writes it."""
        value: Any = settings
        for name in self.in_force or self.path:
            value = getattr(value, name)
        if value is None:
            value = ANY_NODE_ID
        if self.type is ConfigType.STRING:
            return str(value)
        return str(value).lower() if self.type is ConfigType.BOOLEAN else str(value // self.unit)

    def set(self, settings: BrokerSettings, text: str) -> BrokerSettings:
        """Return settings that have it.

        Raises:
            InvalidInputError: this is no such value.
        """
        if self.type is ConfigType.STRING:
            given: Any = text.strip() if self.is_text else _policy(self.name, text)
        else:
            value = parse_broker_config(self.name, self.type, text)
            given = value if self.type is ConfigType.BOOLEAN else value * self.unit
        changed: BrokerSettings = _set(settings, self.path, given)
        return changed


def _set(node: Any, path: tuple[str, ...], value: Any) -> Any:
    name, *rest = path
    inner = _set(getattr(node, name), tuple(rest), value) if rest else value
    return replace(node, **{name: inner})


def _policy(name: str, text: str) -> FlushPolicy:
    """Return the policy of a name: the one config that is a word."""
    try:
        return FlushPolicy(text.strip())
    except ValueError:
        words = ", ".join(FlushPolicy)
        raise InvalidInputError(f"{name}={text[:64]}: use one of {words}") from None


def parse_broker_config(name: str, kind: ConfigType, text: str) -> Any:
    """Return a truth, or a whole number.

    Raises:
        InvalidInputError: it is neither.
    """
    is_boolean = kind is ConfigType.BOOLEAN
    value = parse_config(kind if is_boolean else ConfigType.LONG, text)
    if value is None:
        wanted = "true or false" if is_boolean else "a whole number"
        raise InvalidInputError(f"{name}={text[:64]}: use {wanted}")
    return value


def _int(name: str, path: str, doc: str, unit: int = 1) -> BrokerConfig:
    return BrokerConfig(name, ConfigType.INT, tuple(path.split(".")), doc, unit)


_WHAT = {row.name: row.what for row in LIMITS}

_ROWS = (
    _int("node.id", "node_id", "The number of this broker; -1: one that is free."),
    _int(
        "cluster.heartbeat.ms", "heartbeat_ms",
        "How often a broker says that it lives; give it to all brokers of a namespace alike. Kafka"
        " has no such config.",
    ),
    _int("num.partitions", "partitions", "Of a topic that does not say how many."),
    BrokerConfig(
        "auto.create.topics.enable", ConfigType.BOOLEAN, ("auto_create_topics",),
        "Whether a topic that a client asks for is made.",
    ),
    BrokerConfig(
        "authorizer.class.name", ConfigType.STRING, ("authorizer", "class_name"),
        f"With {STANDARD_AUTHORIZER} clients may do what ACLs allow; without, everything.",
        is_text=True,
    ),
    BrokerConfig(
        "super.users", ConfigType.STRING, ("authorizer", "super_users"),
        "Who may do everything, whatever ACLs say: principals, separated by semicolons.",
        is_text=True,
    ),
    BrokerConfig(
        "allow.everyone.if.no.acl.found", ConfigType.BOOLEAN, ("authorizer", "allow_everyone"),
        "Whether everybody may use a resource that no ACL is about.",
    ),
    *(_int(row.kafka, f"limits.{row.name}", row.what) for row in LIMITS if row.kafka),
    _int(
        "group.min.session.timeout.ms", "groups.rules.session_timeout_ms_min",
        "The shortest session of a consumer.",
    ),
    _int(
        "group.max.session.timeout.ms", "groups.rules.session_timeout_ms_max",
        "The longest session of a consumer.",
    ),
    _int(
        "group.initial.rebalance.delay.ms", "groups.rules.initial_rebalance_delay_ms",
        "How long an empty group waits for more members.",
    ),
    _int("group.max.size", "groups.rules.members_max", "Members of a group."),
    _int(
        "offsets.retention.minutes", "groups.rules.offsets_retention_ms",
        "How long the offsets of an empty group are kept.", MINUTE_MS,
    ),
    _int(
        "offsets.retention.check.interval.ms", "groups.sweep_interval_ms",
        "How often offsets that have expired are looked for.",
    ),
    _int(
        "offset.metadata.max.bytes", "groups.rules.offset_metadata_bytes_max",
        "What may be said beside an offset.",
    ),
    _int(
        "group.consumer.session.timeout.ms", "groups.rules.consumer_session_timeout_ms",
        "The session of a member of the newer protocol.",
    ),
    _int(
        "group.consumer.heartbeat.interval.ms", "groups.rules.consumer_heartbeat_interval_ms",
        "How often such a member is to be heard of.",
    ),
    _int("offsets.commit.timeout.ms", "groups.patience_ms", "How long a commit waits."),
    _int(
        "lakelog.clock.skew.max.ms", "clock_skew_ms_max",
        "How far this machine's clock may be from the store's; Kafka has no such config.",
    ),
    BrokerConfig(
        "lakelog.flush.policy", ConfigType.STRING, ("flush", "policy"),
        "What a lane spends on puts: latency, where requests are free; balanced, where they are"
        " not; or cost. Kafka has no such config.",
        in_force=("flush", "policy_in_force"),
    ),
    BrokerConfig(
        "lakelog.flush.interval.ms", ConfigType.INT, ("flush", "interval_ms"),
        "The longest that a record waits to be written with others. Kafka has no such config.",
        in_force=("flush", "bound_ms"),
    ),
    *(
        _int(name, f"limits.{field}", f"{_WHAT[field]} Kafka has no such config.")
        for name, field in (
            ("lakelog.topics.max", "topics"),
            ("lakelog.partitions.max", "partitions"),
            ("lakelog.auto.create.topics.per.second", "auto_created_per_s"),
            ("lakelog.tls.handshakes.max", "handshakes"),
            ("lakelog.tls.handshake.ms", "handshake_ms"),
        )
    ),
    _int(
        "lakelog.address.percent", "limits.address_percent",
        "The part of the memory, and of the room for groups, that the clients of one address may"
        " have; 100 behind a proxy. Kafka has no such config.",
    ),
)  # fmt: skip

BROKER_CONFIGS: Mapping[str, BrokerConfig] = {row.name: row for row in _ROWS}


class TopicDefault(NamedTuple):
    """A config of a broker that is the default of a topic's."""

    topic_config: str
    unit: int = 1


_COARSER = {
    "log.retention.minutes": TopicDefault("retention.ms", MINUTE_MS),
    "log.retention.hours": TopicDefault("retention.ms", HOUR_MS),
    "log.roll.hours": TopicDefault("segment.ms", HOUR_MS),
    "log.roll.jitter.hours": TopicDefault("segment.jitter.ms", HOUR_MS),
}

TOPIC_DEFAULTS: Mapping[str, TopicDefault] = {
    **{row.synonym: TopicDefault(name) for name, row in TOPIC_CONFIGS.items() if row.synonym},
    **_COARSER,
}
"""The finest unit first: it counts where several are given, as in Kafka."""

_COPIES = "copies are the store's business"
_CONTROLLER = "there is no controller: metadata is in the store"
_TRANSACTIONS = "there are no transactions"
_KERBEROS = "there is no Kerberos, and a login is not a class of Java"
_PRINCIPALS = "they are made as Kafka's own builder makes them"
_TOKENS = "there are no delegation tokens"
_JAVA = "providers are classes of Java"
_OPENSSL = "OpenSSL does it, in its own way"
_QUOTAS = "quotas are set by kafka-configs, and counted in buckets of a second"
_DISKS = "everything is in the object store"
_THREADS = "one loop serves all connections"
_SHARE = "there are no share groups and no streams groups"
_CONSUMER = "the rules of this broker are fixed here"
_JMX = "metrics are at /metrics: see --http"
_OWN = "this broker has its own way to do it"

_NO_EFFECT = (
    ("add.partitions.to.txn.", _TRANSACTIONS), ("alter.log.dirs.", _DISKS),
    ("alter.config.policy.", "policies are classes of Java"),
    ("auto.leader.", _COPIES), ("background.threads", _THREADS),
    ("broker.heartbeat.", _CONTROLLER), ("broker.session.", _CONTROLLER),
    ("broker.rack", "a client reads from any broker at the same price"),
    ("client.quota.", "callbacks are classes of Java"),
    ("config.providers", "values are taken as they are written"),
    ("controlled.shutdown.", "SIGTERM always drains"), ("controller.", _CONTROLLER),
    ("cordoned.", _DISKS), ("create.topic.policy.", "policies are classes of Java"),
    ("default.replication.factor", _COPIES), ("delegation.", _TOKENS),
    ("delete.records.", _OWN), ("delete.topic.enable", "topics can be deleted"),
    ("early.start.", _CONTROLLER), ("fetch.purgatory.", _OWN), ("follower.", _COPIES),
    ("group.consumer.", _CONSUMER), ("group.coordinator.", _OWN), ("group.share.", _SHARE),
    ("group.streams.", _SHARE), ("initial.broker.", _CONTROLLER), ("inter.broker.", _COPIES),
    ("internal.", _CONTROLLER), ("kafka.metrics.", _JMX), ("leader.imbalance.", _COPIES),
    ("log.cleaner.", "compaction runs on Spark: lakelog pipeline"), ("log.dir", _DISKS),
    ("log.flush.", "what is acknowledged is in the object store"), ("log.initial.", _DISKS),
    ("max.connections.per.ip.", "every address may have as many: max.connections.per.ip"),
    ("max.request.partition.", "2000, as in Kafka"), ("metadata.", _CONTROLLER),
    ("metric", _JMX), ("num.io.", _THREADS), ("num.network.", _THREADS),
    ("num.recovery.", "nothing is recovered: a broker has no state"), ("num.replica.", _COPIES),
    ("offsets.load.", _OWN), ("offsets.topic.", "groups are cells in the object store"),
    ("principal.", _PRINCIPALS), ("process.roles", _CONTROLLER),
    ("producer.id.", "a producer is remembered for a day"), ("producer.purgatory.", _OWN),
    ("queued.max.requests", "requests are limited by bytes: queued.max.request.bytes"),
    ("quota.", _QUOTAS), ("remote.", _DISKS), ("replica.", _COPIES), ("replication.", _COPIES),
    ("request.timeout.ms", _COPIES), ("sasl.", _KERBEROS), ("security.", _JAVA),
    ("server.max.startup.", _OWN), ("share.", _SHARE), ("socket.connection.", _COPIES),
    ("socket.", "the system chooses the size of its buffers"), ("ssl.", _OPENSSL),
    ("telemetry.", _JMX), ("transaction", _TRANSACTIONS), ("unclean.", _COPIES),
    ("unstable.", "what is there is stable"), ("zookeeper.", _CONTROLLER),
)  # fmt: skip


def no_effect(name: str) -> str:
    """Say why a config of Kafka's means nothing here; nothing: it is none of Kafka's."""
    return next((why for start, why in _NO_EFFECT if name.startswith(start)), "")
