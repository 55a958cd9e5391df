"""What a request to the store is for, by the object that it is about.

bundles       journal: what producers send; and whoever reads it there
checkpoints   of lanes, and the tails that point at them
heads         floors of lanes
members       heartbeats, and who the brokers are
groups        consumer groups: claims, members, offsets
topics        topics, quotas, and the namespace itself
clock         the store's time
bulk writes   what Spark stages and commits
history       segments, indexes and manifests
"""

from lakelog.names import (
    ACLS_KEY,
    BROKERS_PREFIX,
    CLUSTER_KEY,
    COMMITS_PREFIX,
    GROUPS_PREFIX,
    LANES_PREFIX,
    PIPELINE_KEY,
    QUOTAS_KEY,
    STAGED_PREFIX,
    TIME_PREFIX,
    TOPICS_PREFIX,
    USERS_KEY,
)
from lakelog.store import ListPage, Op

__all__ = ["lane_of_request", "purpose_of"]

_LANES_AT, _LANE_CHARS = len(LANES_PREFIX), 4
_PREFIXES = (
    (BROKERS_PREFIX, "members"),
    (GROUPS_PREFIX, "groups"),
    (TOPICS_PREFIX, "topics"),
    (TIME_PREFIX, "clock"),
    (STAGED_PREFIX, "bulk writes"),
    (COMMITS_PREFIX, "bulk writes"),
    (CLUSTER_KEY, "topics"),
    (PIPELINE_KEY, "topics"),
    (ACLS_KEY, "acls"),
    (USERS_KEY, "users"),
    (QUOTAS_KEY, "topics"),
)


def _about(op: Op) -> str:
    return op.prefix if isinstance(op, ListPage) else op.key


def purpose_of(op: Op) -> str:
    """Return what a request is for."""
    key = _about(op)
    if key.startswith(LANES_PREFIX):
        if key.endswith("/head"):
            return "heads"
        return "checkpoints" if key.endswith((".checkpoint", "/tail")) else "bundles"
    return next((what for prefix, what in _PREFIXES if key.startswith(prefix)), "history")


def lane_of_request(op: Op) -> str:
    """Return the number of the lane that a request is about; nothing: it is about none."""
    key = _about(op)
    number = key[_LANES_AT : _LANES_AT + _LANE_CHARS]
    return str(int(number)) if key.startswith(LANES_PREFIX) and number.isdecimal() else ""
