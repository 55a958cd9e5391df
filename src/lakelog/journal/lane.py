"""What one process knows of one lane, and the one rule by which it may know it.

    **A fact learned from bundle key k (stored, absent, its content) counts only once a read of the
    head, begun later, shows floor <= k.**

Put-if-absent protects against objects that exist now. Deleting a key removes its fence: a writer
that slept through the deletion could win an old key again, and would not notice. So the floor is
raised before anything below it is deleted, and whoever acts on a key looks at the floor afterwards.

The look is free when the last one *showed floor <= k* and less than a quarter of the grace passed
from its start to now: deleters wait the whole grace after raising a floor. The time is measured by
two clocks, and the larger counts. One includes the time this machine was suspended. The other is
the wall clock: a virtual machine that was frozen and thawed may not have noticed at all until its
wall clock is set right. A clock that jumps costs a look, never safety.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from lakelog.errors import NotFoundError
from lakelog.formats.lanes import Bundle, Checkpoint
from lakelog.journal.fold import Fold
from lakelog.journal.head import HEAD_BYTES_MAX, Head, decode_head
from lakelog.model import Rules
from lakelog.names import head_key
from lakelog.ports import Clock, Ids
from lakelog.store import Get, Work, fetch

__all__ = ["Held", "Lane", "Look", "floor_holds", "look"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A read of the head: what it showed, and when it began."""

    head: Head
    etag: str
    since_ms: int
    """When the head was stored, by the store's clock."""
    boot_ms: int
    wall_ms: int


@dataclass(frozen=True, slots=True)
class Held:
    """A bundle that is known, and which object it was read from."""

    bundle: Bundle
    etag: str
    """Empty for one that this process has written itself."""
    size: int


@dataclass(slots=True, kw_only=True)
class Lane:
    """One lane, as seen by one process. Flows change it; one at a time."""

    number: int
    rules: Rules
    clock: Clock
    ids: Ids
    writer: bytes
    """Names this process in bundles; a change of it is a change of leader."""

    last_look: Look | None = None
    fold: Fold | None = None
    """Of all bundles so far, verified; None: learn it."""
    held: list[Held] = field(default_factory=list)
    """The bundles since the last one after which a checkpoint was due."""
    checkpoint: int = -1
    """The newest checkpoint that is known to stand."""
    due: tuple[Fold, tuple[Bundle, ...]] | None = None
    """What the next checkpoint should be of, and its roll; written when there is time."""
    roll: Checkpoint | None = None
    """The one in which something was located last: whoever reads on begins there."""
    rolls: OrderedDict[int, Checkpoint] = field(default_factory=OrderedDict)
    """Those that were used last: whoever reads many partitions goes from one to the other."""
    notes: Counter[str] = field(default_factory=Counter)
    """How often each way was taken: for metrics, and to prove that tests take them all."""

    @property
    def next_seq(self) -> int:
        assert self.fold is not None
        return self.fold.seq + 1

    def is_fresh(self, seen: Look) -> bool:
        """Whether less than a quarter of the grace has passed since a look began."""
        passed_ms = max(
            self.clock.boot_ms() - seen.boot_ms,
            self.clock.now_ms() - seen.wall_ms,
        )
        return passed_ms < self.rules.grace_ms // 4

    def forget(self) -> None:
        """Know nothing, so that everything is learned again."""
        self.fold = None
        self.held = []

    def take(self, held: Held) -> None:
        """Take in the next bundle, about which the rule has been kept."""
        assert self.fold is not None
        self.fold.add(held.bundle)
        self.held.append(held)
        if self.fold.is_due():
            self.due = self.fold.copy(), tuple(one.bundle for one in self.held)
            self.held = []


def look(lane: Lane) -> Work[Look]:
    """Read the head.

    Raises:
        NotFoundError: there is none; the lane stops.
    """
    lane.notes["head read"] += 1
    boot_ms, wall_ms = lane.clock.boot_ms(), lane.clock.now_ms()
    try:
        found = yield from fetch(Get(head_key(lane.number), HEAD_BYTES_MAX))
    except NotFoundError as error:
        raise NotFoundError(
            f"lane {lane.number} has no head: it was deleted, or the namespace was never made. "
            "Nothing is written. Restore the object, or make a new namespace with lakelog init"
        ) from error
    seen = Look(
        head=decode_head(found.body, lane.number),
        etag=found.info.etag,
        since_ms=found.info.modified_ms,
        boot_ms=boot_ms,
        wall_ms=wall_ms,
    )
    lane.last_look = seen
    return seen


def floor_holds(lane: Lane, seq: int) -> Work[bool]:
    """Say whether what was learned from bundle key ``seq`` until now counts: the one rule."""
    seen = lane.last_look
    if seen is not None and seen.head.floor > seq:
        return False  # Floors never go down.
    if seen is not None and lane.is_fresh(seen):
        lane.notes["head fresh"] += 1
        return True
    return (yield from look(lane)).head.floor <= seq
