"""A cluster as the bucket shows it to somebody who is no member: one look, and no broker is asked.

    members    what each says of itself, and when it beat last by the store's clock
    lanes      who is told to lead each, who should
    shards     who has the claim to each, who should

A member knows by its own lists who is dead (``liveness``). One look cannot: a member is *silent*
when its beat is older than so many intervals as those lists take. That compares two moments of the
store's clock, and no other clock. Everything else is decided as members decide it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lakelog.coordination.leadership import Leadership
from lakelog.coordination.liveness import DEAD_AFTER
from lakelog.coordination.members import Member, State
from lakelog.coordination.membership import View, read_members
from lakelog.coordination.placement import owners_of
from lakelog.coordination.shards import RELEASED, ClaimedShard
from lakelog.coordination.stored_groups import Groups
from lakelog.errors import LakelogError
from lakelog.names import BROKERS_PREFIX, node_of
from lakelog.store import Work, head, list_objects, together

__all__ = ["Overview", "Placed", "SeenMember", "read_overview", "stored_shards"]

SILENT_INTERVALS = DEAD_AFTER + 1
"""Three lists that show the same beat are three intervals apart, and the first comes after it."""


class SeenMember(NamedTuple):
    """A member, and its last beat."""

    member: Member
    beat_ms: int | None
    """When the store took it, by the store's clock; None: there is none."""


class Placed(NamedTuple):
    """Who has a lane or a shard, and who should."""

    number: int
    node: int | None
    """The broker that has it; None: nobody, or none that is a member."""
    epoch: int
    """Of the leader, or of the claim; -1: there is none."""
    should: int | None
    """None: no broker serves."""
    run: bytes = b""
    """Of a shard: the run that has the claim; empty: nobody has."""
    groups: int = 0
    """Of a shard."""

    @property
    def is_right(self) -> bool:
        """Whether it is where it should be."""
        return self.node is not None and self.node == self.should


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All that one look has shown."""

    members: Mapping[int, SeenMember] = field(default_factory=dict)
    unreadable: Mapping[int, LakelogError] = field(default_factory=dict)
    """Members that tell of themselves what this version cannot read."""
    shards: Mapping[int, ClaimedShard | None] = field(default_factory=dict)
    """None: it was never claimed."""

    def age_ms(self, node: int, now_ms: int) -> int | None:
        """Return how old the last beat of a member is; None: it has none."""
        beat_ms = self.members[node].beat_ms
        return None if beat_ms is None else max(now_ms - beat_ms, 0)

    def view(self, now_ms: int, heartbeat_ms: int) -> View:
        """Return the members that have not left, as one of them would see them."""
        living: dict[int, Member] = {}
        dead: dict[int, Member] = {}
        for node, (member, _) in self.members.items():
            if member.state is not State.LEFT:
                age_ms = self.age_ms(node, now_ms)
                is_silent = age_ms is None or age_ms > SILENT_INTERVALS * heartbeat_ms
                (dead if is_silent else living)[node] = member
        return View(living=living, dead=dead, unreadable=self.unreadable)

    def placed_lanes(self, view: View, lanes: int) -> list[Placed]:
        """Return who is told to lead each lane, and who should."""
        leadership = Leadership(-1, lanes, {})
        leadership.saw(view)
        owners = leadership.owners(view, serves=False)
        found: list[Placed] = []
        for lane in range(lanes):
            node, epoch = leadership.told(lane, view) or (None, -1)
            found.append(Placed(lane, node, epoch, owners.get(lane)))
        return found

    def placed_shards(self, view: View) -> list[Placed]:
        """Return who has the claim to each shard of groups, and who should."""
        owners = owners_of(view.serving, len(self.shards), "shard")
        found: list[Placed] = []
        for shard, claimed in self.shards.items():
            run, epoch = (b"", -1) if claimed is None else claimed.claim
            run = b"" if run == RELEASED else run
            holder = view.run_of(run)
            node = None if holder is None else holder.node
            groups = 0 if claimed is None else len(claimed.groups)
            found.append(Placed(shard, node, epoch, owners.get(shard), run, groups))
        return found


def read_overview(groups: Groups) -> Work[Overview]:
    """Return the members and the claims that are stored now.

    Raises:
        UnavailableError: no answer; try again.
        CorruptError, UnsupportedError: a shard cannot be read.
    """
    beats: dict[int, int] = {}
    nodes: list[int] = []
    for info in (yield from list_objects(BROKERS_PREFIX)):
        node, what = node_of(info.key) or (-1, "")
        if what == "beat":
            is_told = info.modified_ms >= 0  # A list of etcd does not tell when.
            beats[node] = (info if is_told else (yield from head(info.key))).modified_ms
        elif what == "member":
            nodes.append(node)
    found, unreadable = yield from read_members(nodes)
    members = {node: SeenMember(one, beats.get(node)) for node, (_, one) in found.items()}
    return Overview(
        members=dict(sorted(members.items())),
        unreadable=unreadable,
        shards=(yield from stored_shards(groups)),
    )


def stored_shards(groups: Groups) -> Work[dict[int, ClaimedShard | None]]:
    """Return every shard as it is stored, whoever has it; None: it was never claimed."""
    first = yield from groups.read(0)
    count = groups.shards if first is None else first.shards
    others = yield from together(groups.read(number) for number in range(1, count))
    return dict(enumerate((first, *others)))
