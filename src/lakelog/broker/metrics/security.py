"""What is counted of who clients are and what they may: handshakes, logins, denials."""

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["SecurityCounters", "Timed"]


@dataclass(slots=True)
class Timed:
    """How many there were, and how long they took in all."""

    count: int = 0
    seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds


@dataclass(slots=True)
class SecurityCounters:
    """What one broker counts."""

    handshake_seconds: Timed = field(default_factory=Timed)
    """Of TLS handshakes that succeeded."""
    handshakes_failed: Counter[str] = field(default_factory=Counter)
    """By why."""
    logins: Counter[str] = field(default_factory=Counter)
    """That succeeded, by mechanism."""
    logins_again: Counter[str] = field(default_factory=Counter)
    """Of those, on connections that had one before."""
    logins_failed: Counter[str] = field(default_factory=Counter)
    """By mechanism; one that is not offered is not named."""
    sessions_expired: int = 0
    """Connections that did not log in again in time."""
    denials: Counter[tuple[str, str]] = field(default_factory=Counter)
    """What ACLs did not allow, by operation and type of resource."""
    audit_lines_lost: int = 0
    """Lines of the audit log that could not be written."""
