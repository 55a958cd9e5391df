"""What a group may ask for. Kafka's names and defaults, where Kafka has them."""

from dataclasses import dataclass

from lakelog.errors import InvalidInputError

__all__ = ["GroupRules"]

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRules:
    """The rules of every group of a broker."""

    session_timeout_ms_min: int = 6_000
    """``group.min.session.timeout.ms``. Lower it to notice dead consumers sooner."""

    session_timeout_ms_max: int = 1_800_000
    """``group.max.session.timeout.ms``. Raise it for consumers that pause for long."""

    consumer_session_timeout_ms: int = 45_000
    """``group.consumer.session.timeout.ms``. After so long a silent member is taken for dead."""

    consumer_heartbeat_interval_ms: int = 5_000
    """``group.consumer.heartbeat.interval.ms``. How often members of the newer protocol come."""

    initial_rebalance_delay_ms: int = 3_000
    """``group.initial.rebalance.delay.ms``. How long an empty group waits for more members."""

    members_max: int = 1_000
    """``group.max.size`` and ``group.consumer.max.size``, which have no limit in Kafka. Also of ids
    given out and not yet used."""

    offsets_retention_ms: int = 7 * DAY_MS
    """``offsets.retention.minutes``. How long the offsets of an empty group are kept."""

    offset_metadata_bytes_max: int = 4_096
    """``offset.metadata.max.bytes``."""

    new_member_join_timeout_ms: int = 300_000
    """How long the first JoinGroup of a member may wait. Kafka has the same five minutes."""

    rebalance_timeout_ms_max: int = DAY_MS
    """Longer ones are cut: a member that waits is answered after a day at most."""

    protocols_max: int = 64
    """Assignors that one member may offer."""

    protocol_bytes_max: int = 2 << 20
    """What all members of a group may say of themselves, together."""

    assignment_bytes_max: int = 2 << 20
    """What a leader may decide, for all members together."""

    partitions_max: int = 100_000
    """Of all topics that a group of the newer protocol subscribes to."""

    def __post_init__(self) -> None:
        if not 0 < self.session_timeout_ms_min <= self.session_timeout_ms_max:
            least, most = self.session_timeout_ms_min, self.session_timeout_ms_max
            raise InvalidInputError(f"sessions of {least} to {most} ms: use 0 < min <= max")
        if self.members_max < 1 or self.protocols_max < 1 or self.initial_rebalance_delay_ms < 0:
            raise InvalidInputError(f"{self}: use one member or more, and a delay from 0")
        beat_ms, session_ms = self.consumer_heartbeat_interval_ms, self.consumer_session_timeout_ms
        if not 0 < beat_ms < session_ms or self.partitions_max < 1:
            what = f"a heartbeat every {beat_ms} ms in a session of {session_ms} ms"
            raise InvalidInputError(f"{what}: use 0 < interval < session, and a partition")
