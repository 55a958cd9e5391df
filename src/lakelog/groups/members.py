"""Members of a group, and what they agree on.

A member offers protocols, the ones it likes best first: the assignors of a consumer, with bytes
that only the leader understands. A group uses one that every member offers. Each member votes for
the first of its own that all have; most votes win, and between equals the one voted for first.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Member", "Offer", "Offers", "elect_protocol", "is_common", "stored_bytes"]

MEMBER_BYTES = 320
"""What a stored member takes besides its names, metadata and assignment; a bound."""

NAME_BYTES = 12
"""What a character of a name takes as text at most: two escapes of six."""


class Offer(NamedTuple):
    """A protocol that a member can follow."""

    name: str
    metadata: bytes


class Offers(NamedTuple):
    """All that a member can follow, the one it likes best first."""

    rows: tuple[Offer, ...]
    names: frozenset[str]
    size_bytes: int

    @classmethod
    def of(cls, rows: tuple[Offer, ...]) -> "Offers":
        size = sum(len(name) + len(metadata) for name, metadata in rows)
        return cls(rows, frozenset(name for name, _ in rows), size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member, with the requests of it that wait for an answer."""

    id: str
    instance_id: str | None = None
    """The name of a static member, which outlives its ids."""
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    offers: Offers
    assignment: bytes = b""
    deadline_ms: int
    """When it is taken for dead, by the clock that never goes back."""
    is_new: bool = False
    """It waits for its first generation, and cannot send heartbeats yet."""
    join: int | None = None
    """The ticket of the JoinGroup that waits."""
    sync: int | None = None
    """The ticket of the SyncGroup that waits."""

    @property
    def is_excused(self) -> bool:
        """Whether no heartbeats are expected of it: it waits for an answer of the coordinator."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Return what it says for a protocol."""
        return next((offer.metadata for offer in self.offers.rows if offer.name == protocol), b"")

    @property
    def size_bytes(self) -> int:
        """A bound of what it takes when it is stored."""
        names = (self.id, self.instance_id or "", self.client_id, self.client_host)
        return stored_bytes(names, self.offers.size_bytes + len(self.assignment))


def stored_bytes(names: Iterable[str], size_bytes: int) -> int:
    """Return a bound of what a member takes as text: bytes grow by a third, names much more."""
    return MEMBER_BYTES + NAME_BYTES * sum(map(len, names)) + 3 * size_bytes // 2


def is_common(name: str, members: Iterable[Member]) -> bool:
    """Say whether every member offers a protocol."""
    return all(name in member.offers.names for member in members)


def elect_protocol(members: Collection[Member]) -> str:
    """Return the protocol that most members like best of those that all have."""
    common = frozenset.intersection(*(member.offers.names for member in members))
    votes = Counter(
        next(name for name, _ in member.offers.rows if name in common) for member in members
    )
    return max(votes, key=votes.__getitem__)
