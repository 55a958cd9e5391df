"""What a broker can be told. Plain data: `lakelog serve` reads it, nothing here does."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lakelog.broker.limits import Limits
from lakelog.broker.login_settings import LoginSettings
from lakelog.broker.tls_settings import TlsSettings
from lakelog.errors import InvalidInputError
from lakelog.groups import GroupRules
from lakelog.journal import SKEW_MS_MAX, SKEW_MS_MIN, FlushSettings
from lakelog.security import Principal, SecurityProtocol

__all__ = [
    "HEARTBEAT_MS",
    "STANDARD_AUTHORIZER",
    "AuthorizerSettings",
    "BrokerSettings",
    "CoordinatorSettings",
    "Listener",
]

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The one authorizer that Kafka has, and the name of the one that is here."""

SUPER_USERS_MAX = 1_000

HEARTBEAT_MS_MIN, HEARTBEAT_MS_MAX = 100, 60_000
HEARTBEAT_MS, ETCD_HEARTBEAT_MS = 3_000, 500
"""Of members in the bucket, and in etcd."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """An address on which a broker accepts connections, and the one that clients are told."""

    name: str = "PLAINTEXT"
    host: str = "127.0.0.1"
    port: int = 9092
    """0: any free one."""
    advertised_host: str = ""
    """What clients connect to, if it is not ``host``: behind a load balancer, or in a container."""
    advertised_port: int = 0
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsSettings | None = None
    logins: LoginSettings | None = None

    def __post_init__(self) -> None:
        if self.protocol.has_login != (self.logins is not None):
            raise InvalidInputError(
                f"listener {self.name} is {self.protocol}: logins need SASL, and SASL needs them"
            )
        if self.logins is not None and self.tls is None:
            shown = set(self.logins.mechanisms) & {"PLAIN", "OAUTHBEARER"}
            if shown:
                raise InvalidInputError(
                    f"listener {self.name} is {self.protocol}, where anybody on the way can read"
                    f" what {' and '.join(sorted(shown))} send: use SASL_SSL, or SCRAM-SHA-512"
                )
        if self.protocol.has_tls != (self.tls is not None):
            raise InvalidInputError(
                f"listener {self.name} is {self.protocol}: TLS needs a key and its certificate, in"
                " ssl.keystore.location, and only TLS does"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """How a broker coordinates groups."""

    rules: GroupRules = field(default_factory=GroupRules)

    commit_interval_ms: int = 1_000
    """From one put for commits to the next, of one shard. Puts on object stores cost money; use 0
    on local files, where the next put begins when the last one has ended."""

    patience_ms: int = 5_000
    """How long a request waits for the store (``offsets.commit.timeout.ms``)."""

    sweep_interval_ms: int = 600_000
    """How often expired offsets are looked for (``offsets.retention.check.interval.ms``)."""

    look_interval_ms: int = 10_000
    """How often a shard in which nothing is written is looked at. A broker that was replaced and
    does not know it misleads its consumers for so long."""

    pulse_ms: int = 10_000
    """How often a broker stores a sign of life, if brokers of version 0.1.0 look for one."""

    drain_ms: int = 10_000
    """How long closing waits for the store."""

    def __post_init__(self) -> None:
        if not 0 <= self.commit_interval_ms < self.patience_ms:
            raise InvalidInputError(
                f"commits are stored every {self.commit_interval_ms} ms, and wait for at most "
                f"{self.patience_ms} ms (offsets.commit.timeout.ms): use an interval from 0 that "
                "is less than they wait"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizerSettings:
    """Whether clients need leave for what they do, and who does not."""

    class_name: str = ""
    """``authorizer.class.name``; nothing: everybody may do everything."""
    super_users: str = ""
    """Who may do everything: principals, separated by semicolons (``super.users``)."""
    allow_everyone: bool = False
    """Whether everybody may use what no ACL is about (``allow.everyone.if.no.acl.found``)."""

    def __post_init__(self) -> None:
        if self.class_name not in ("", STANDARD_AUTHORIZER):
            raise InvalidInputError(
                f"authorizer.class.name={self.class_name[:128]} is not here: use"
                f" {STANDARD_AUTHORIZER}, which keeps Kafka's rules"
            )
        if len(self.principals()) > SUPER_USERS_MAX:
            raise InvalidInputError(f"super.users names more than {SUPER_USERS_MAX}: use ACLs")

    @property
    def is_on(self) -> bool:
        return bool(self.class_name)

    def principals(self) -> frozenset[Principal]:
        """Return the super users.

        Raises:
            InvalidInputError: it names something else.
        """
        names = (one.strip() for one in self.super_users.split(";"))
        return frozenset(Principal.parse(one) for one in names if one)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """One broker."""

    node_id: int | None = None
    """None: the one that this address had before, or the lowest that is free."""
    rack: str | None = None
    """Where it stands (``broker.rack``)."""
    heartbeat_ms: int | None = None
    """How often a broker says that it lives. One that has not for three times as long, by three
    lists of another broker, is dead to that one. None: as fits where members are (``placed``)."""
    listeners: tuple[Listener, ...] = (Listener(),)
    inter_broker_listener: str = ""
    """The one by which other brokers are called (``inter.broker.listener.name``); nothing: the
    first one."""
    listener_configs: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Kafka's configs of listeners as they were given, for DescribeConfigs; ``listeners`` is what
    became of them."""
    flush: FlushSettings = field(default_factory=FlushSettings)
    limits: Limits = field(default_factory=Limits)
    groups: CoordinatorSettings = field(default_factory=CoordinatorSettings)
    authorizer: AuthorizerSettings = field(default_factory=AuthorizerSettings)
    audit_log: Path | None = None
    """Where logins, denials and changes are written down, if anywhere."""
    auto_create_topics: bool = True
    """Whether a topic that a client asks for is made (``auto.create.topics.enable``)."""
    partitions: int = 1
    """Of a topic that does not say how many (``num.partitions``)."""
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    """Configs that a topic made here gets, unless it has its own."""
    topics_refresh_ms: int = 30_000
    """How often topics that others made or deleted are looked for."""
    probe_ms: int = 1_000
    """How often an idle lane is looked at while a fetch waits for it."""
    probe_ms_max: int = 1_000
    """And how seldom, at last, if it is this broker that writes to it: only a bulk write could have
    gone unnoticed."""

    clock_skew_ms_max: int = SKEW_MS_MAX
    """How far this machine's clock may be from the store's; beyond it nothing is appended. Raise it
    where clocks cannot be set; two seconds and more are told apart."""

    def __post_init__(self) -> None:
        if not self.listeners or (self.node_id or 0) < 0 or self.partitions < 1:
            raise InvalidInputError(
                f"{len(self.listeners)} listeners, node.id={self.node_id}, num.partitions="
                f"{self.partitions}: use a listener or more, a node id from 0, a partition or more"
            )
        beats_ms = HEARTBEAT_MS if self.heartbeat_ms is None else self.heartbeat_ms
        if not HEARTBEAT_MS_MIN <= beats_ms <= HEARTBEAT_MS_MAX:
            raise InvalidInputError(
                f"cluster.heartbeat.ms={beats_ms}: use {HEARTBEAT_MS_MIN} to {HEARTBEAT_MS_MAX}"
            )
        if self.clock_skew_ms_max < SKEW_MS_MIN:
            raise InvalidInputError(
                f"lakelog.clock.skew.max.ms={self.clock_skew_ms_max}: use {SKEW_MS_MIN} or more"
            )

    def placed(self, *, in_etcd: bool) -> "BrokerSettings":
        """Return the settings of a broker, once it is known where members and groups are.

        A beat in a bucket is a request that costs money, and so is a commit; in etcd neither is.
        """
        default_ms = ETCD_HEARTBEAT_MS if in_etcd else HEARTBEAT_MS
        return replace(
            self,
            heartbeat_ms=default_ms if self.heartbeat_ms is None else self.heartbeat_ms,
            groups=replace(self.groups, commit_interval_ms=0) if in_etcd else self.groups,
        )
