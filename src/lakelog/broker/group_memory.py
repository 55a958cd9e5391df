"""The room of a shard of groups: what each group takes of it, and which client made it.

    growth             of the shard              of what one address made
    a new group        up to shard_new_bytes     up to its part of that
    a group that is    up to SHARD_BYTES_MAX     up to its part of that

A client that commits needs no membership, and what it commits is kept for a week. So one address
has no more than a part of each shard, and what lies between the two limits is for groups that are
there: they go on when no new one is taken. To commit again for the same partitions takes no room.
"""

from collections import Counter
from typing import NamedTuple

from lakelog.broker.limits import Limits
from lakelog.coordination import SHARD_BYTES_MAX

__all__ = ["GroupMemory", "GroupMemoryFull"]

HEAD_BYTES = 4096
"""What a shard takes besides its groups; a bound."""


class GroupMemoryFull(NamedTuple):
    """Why a group is not taken, or may not grow."""

    limit: str
    """The name of the limit that it would pass."""
    message: str


class GroupMemory:
    """What the groups of one shard take: ask ``refuses`` before ``take``."""

    def __init__(self, shard: int, limits: Limits, group_bytes_max: int = SHARD_BYTES_MAX) -> None:
        self._shard, self._group_bytes_max = shard, group_bytes_max
        self._limits = limits
        self._taken: dict[str, tuple[int, str]] = {}
        """By group: bytes, and the address that made it."""
        self._bytes_of: Counter[str] = Counter()
        self._groups_of: Counter[str] = Counter()
        """By address, of those that are known."""
        self.used = 0

    def __len__(self) -> int:
        return len(self._taken)

    def size_of(self, group_id: str) -> int:
        """Return what a group takes; 0: there is none."""
        return self._taken.get(group_id, (0, ""))[0]

    def refuses(
        self, group_id: str, size: int, offsets_size: int, made_by: str
    ) -> GroupMemoryFull | None:
        """Say why a group may not become so large; None: it may."""
        limits, percent = self._limits, self._limits.address_percent
        more = size - self.size_of(group_id)
        if more <= 0:
            return None
        if offsets_size > limits.group_offsets_bytes:
            return GroupMemoryFull(
                "group_offsets_bytes",
                f"the offsets of a group would take {offsets_size} bytes, and"
                f" {limits.group_offsets_bytes} is the limit: commit fewer partitions, or less"
                " metadata",
            )
        if size > self._group_bytes_max:
            return GroupMemoryFull(
                "GROUP_BYTES_MAX",
                f"a group would take {size} bytes, and what keeps it takes {self._group_bytes_max}:"
                " commit fewer partitions, or less metadata",
            )
        is_new = group_id not in self._taken
        most = min(limits.shard_new_bytes, _MOST) if is_new else _MOST
        what = "a new group" if is_new else "a group that grows"
        shard = f"shard {self._shard} of the consumer groups"
        groups = len(self._taken)
        if self.used + more > most or (is_new and groups >= limits.shard_groups):
            return GroupMemoryFull(
                "shard_new_bytes" if is_new else "SHARD_BYTES_MAX",
                f"{shard} has {groups} groups of {self.used} bytes, and no room for {what}: delete"
                " those that nobody needs, by lakelog kafka-consumer-groups --delete",
            )
        mine, made = self._bytes_of[made_by], self._groups_of[made_by]
        is_over = mine + more > most * percent // 100
        is_over |= is_new and made >= max(limits.shard_groups * percent // 100, 1)
        if made_by and is_over:
            return GroupMemoryFull(
                "address_percent",
                f"clients of {made_by} made {made} groups of {mine} bytes in {shard}, and have no"
                f" room for {what}: delete those that nobody needs, by lakelog"
                " kafka-consumer-groups --delete, or raise lakelog.address.percent",
            )
        return None

    def take(self, group_id: str, size: int, made_by: str) -> None:
        """Take note of what a group takes now; 0: it is gone."""
        before, maker = self._taken.pop(group_id, (0, ""))
        self._count(maker, -before, -1 if before else 0)
        if size:
            self._taken[group_id] = size, made_by
            self._count(made_by, size, 1)
        self.used += size - before

    def _count(self, made_by: str, size: int, groups: int) -> None:
        if not made_by:
            return
        self._bytes_of[made_by] += size
        self._groups_of[made_by] += groups
        if not self._groups_of[made_by]:
            del self._groups_of[made_by], self._bytes_of[made_by]


_MOST = SHARD_BYTES_MAX - HEAD_BYTES
