"""Attacks by what is asked about topics, configs and producers."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from tests.e2e.hostile.target import Target, storm
from tests.unit.broker.site import request_frame

__all__ = [
    "all_metadata",
    "appended_configs",
    "assigned_topics",
    "churned_topics",
    "long_config_names",
    "new_names",
    "producer_ids",
    "reserved_names",
]

TOPIC = 2
"""The kind of resource."""
SET, APPEND = 0, 2


def _metadata(topics: Any, *, makes: bool = False) -> bytes:
    return request_frame(
        3,
        12,
        topics=topics,
        allow_auto_topic_creation=makes,
        include_topic_authorized_operations=False,
    )


def _creating(name: str, assignments: int = 0) -> bytes:
    rows = [{"partition_index": one, "broker_ids": [1]} for one in range(assignments)]
    topic: dict[str, Any] = {"name": name, "replication_factor": -1, "configs": []}
    topic |= {"assignments": rows, "num_partitions": -1 if assignments else 1}
    return request_frame(19, 7, topics=[topic], timeout=1_000, validate_only=False)


def _deleting(name: str) -> bytes:
    return request_frame(20, 6, topics=[{"name": name, "topic_id": None}], timeout=1_000)


def _altering(configs: list[dict[str, Any]]) -> bytes:
    row = {"resource_type": TOPIC, "resource_name": "victim", "configs": configs}
    return request_frame(44, 1, resources=[row], validate_only=True)


def all_metadata(target: Target, until_s: float) -> None:
    """Ask for all topics, again and again."""
    storm(target, until_s, [_metadata(None)], rate=300)


def new_names(target: Target, until_s: float) -> None:
    """Ask for 200 names that are new, and let topics be made of them."""

    def frames() -> Iterator[bytes]:
        for turn in count():
            rows = [{"name": f"new-{turn}-{one}", "topic_id": None} for one in range(200)]
            yield _metadata(rows, makes=True)

    storm(target, until_s, frames(), connections=1, burst=1, rate=5)


def churned_topics(target: Target, until_s: float) -> None:
    """Make topics and delete them."""

    def frames() -> Iterator[bytes]:
        for turn in count():
            yield _creating(f"churned-{turn % 10}")
            yield _deleting(f"churned-{turn % 10}")

    storm(target, until_s, frames(), connections=1, burst=2, rate=20)


def reserved_names(target: Target, until_s: float) -> None:
    """Make topics with names that mean something in the store."""
    names = (".lakelog-staging", ".", "..", "__consumer_offsets", "a/b", "", "x" * 10_000, "\0")
    storm(target, until_s, [_creating(name) for name in names], burst=2, rate=200)


def assigned_topics(target: Target, until_s: float) -> None:
    """Make a topic of 100,000 partitions by saying where each of them goes."""
    storm(target, until_s, [_creating("assigned", 100_000)], connections=1, burst=1, rate=4)


def appended_configs(target: Target, until_s: float) -> None:
    """Append to one config ten thousand times in a request."""
    one = {"name": "cleanup.policy", "config_operation": APPEND, "value": "compact"}
    many = [one] * 10_000
    storm(target, until_s, [_altering(many)], connections=2, burst=1, rate=10)


def long_config_names(target: Target, until_s: float) -> None:
    """Name configs by 30 kB each, a megabyte in a request, and ask for such."""
    names = [f"{number}" + "x" * 30_000 for number in range(33)]
    rows = [{"name": name, "config_operation": SET, "value": "1"} for name in names]
    resource = {"resource_type": TOPIC, "resource_name": "victim", "configuration_keys": names}
    asked = request_frame(32, 4, resources=[resource])
    storm(target, until_s, [_altering(rows), asked], connections=2, burst=1, rate=20)


def producer_ids(target: Target, until_s: float) -> None:
    """Become another producer each time."""
    ask = request_frame(22, 4, transactional_id=None, transaction_timeout=60_000)
    storm(target, until_s, [ask], burst=16, rate=2_000)
