"""What is counted of quotas: for how long clients were not read, and how many are not read now."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial

__all__ = ["QuotaCounters"]


@dataclass(slots=True)
class QuotaCounters:
    """What one broker counts."""

    throttled_seconds: dict[str, float] = field(default_factory=partial(defaultdict, float))
    """By the key of the quota, of which there are few."""
    throttles: Counter[str] = field(default_factory=Counter)
    """How often a connection was muted, or muted for longer; likewise."""
    muted: int = 0
    """Connections that are not read now."""
    unread: int = 0
    """How often the quotas of the namespace could not be read."""
