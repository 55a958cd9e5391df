"""What one process knows of one lane, and the head-check rule by which it may know it.

What is known is a ``Snapshot``. It is immutable; one owner at a time, the flow that appends or
walks, replaces it by a later one. Everybody else reads: a reader takes the snapshot once, and it
stays the same while the reader waits for the store. While the owner is not sure of it any more and
learns the lane again, readers still have the last one. It remains true of what it contains, because
a lane only grows. That a lane ends where a snapshot ends is said only of a snapshot that was
learned after the question came.

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
from dataclasses import dataclass, field, replace

from lakelog.errors import NotFoundError
from lakelog.formats.lanes import PAYLOAD_BYTES_MAX, Bundle, Checkpoint
from lakelog.journal.fold import Fold
from lakelog.journal.head import HEAD_BYTES_MAX, Head, decode_head
from lakelog.journal.pace import PutTimes
from lakelog.journal.timekeeping import StoreTime
from lakelog.model import Rules
from lakelog.names import head_key
from lakelog.ports import Clock, Ids
from lakelog.store import Get, Work, ask

__all__ = [
    "Due",
    "KnownBundle",
    "Lane",
    "Look",
    "Snapshot",
    "floor_holds",
    "look",
    "new_lane",
    "new_lanes",
]


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
class KnownBundle:
    """A bundle that is known, and which object it was read from."""

    bundle: Bundle
    etag: str
    """Empty for one that this process has written itself."""
    size: int


Due = tuple[Fold, tuple[Bundle, ...]]
"""What a checkpoint should be of, and the bundles of its roll."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What was known of a lane at one moment."""

    fold: Fold
    """Of all bundles so far, verified."""
    bundles: tuple[KnownBundle, ...] = ()
    """Those since the last one after which a checkpoint was due."""
    due: Due | None = None
    """The newest checkpoint that should be written; None: it is, or nobody has seen its bundles."""

    def after(self, next_: KnownBundle) -> "Snapshot":
        """Return it with the next bundle, about which the rule has been kept."""
        fold, bundles = self.fold.after(next_.bundle), (*self.bundles, next_)
        if not fold.is_due():
            return Snapshot(fold=fold, bundles=bundles, due=self.due)
        return Snapshot(fold=fold, due=(fold, tuple([one.bundle for one in bundles])))


@dataclass(slots=True, kw_only=True)
class Lane:
    """One lane, as seen by one process."""

    number: int
    rules: Rules
    clock: Clock
    ids: Ids
    writer: bytes
    """Names this process in bundles; a change of it is a change of leader."""
    time: StoreTime | None = None
    """By which what it appends is stamped; None: ``clock``, for who only reads, and for tests."""

    last_look: Look | None = None
    """The read of the head that says most; ``saw`` replaces it."""
    snapshot: Snapshot | None = None
    """What is known; None: nothing as yet. It is replaced by the owner, and only by a later one."""
    is_sure: bool = False
    """Whether the owner may build on the snapshot; else it learns the lane first."""
    checkpoint: int = -1
    """The newest checkpoint that is known to stand."""
    payload_bytes_max: int = PAYLOAD_BYTES_MAX
    """Of the next bundle: less than a bundle may have, when the store did not take so much."""
    putting_since_ms: int | None = None
    """Since when, by the clock that counts suspension, a bundle is put without an answer."""
    put_times: PutTimes = field(default_factory=PutTimes)
    """How long its bundles took to be stored, here."""
    moves: int = 0
    """How often a reader found gone what it had located: its look at the lane was out of date."""
    slice_index: Checkpoint | None = None
    """The checkpoint in which something was located last: whoever reads on begins there."""
    slice_indexes: OrderedDict[int, Checkpoint] = field(default_factory=OrderedDict)
    """Those that were used last: whoever reads many partitions goes from one to the other."""
    counters: Counter[str] = field(default_factory=Counter)
    """How often each way was taken: for metrics, and to prove that tests take them all."""

    @property
    def fold(self) -> Fold | None:
        """The fold of the snapshot."""
        return None if self.snapshot is None else self.snapshot.fold

    @property
    def next_seq(self) -> int:
        """The key behind all that is known."""
        return self.known.fold.seq + 1

    @property
    def known(self) -> Snapshot:
        """The snapshot, where there must be one: behind ``learn``, or any other walk."""
        assert self.snapshot is not None
        return self.snapshot

    def elapsed_ms(self, boot_ms: int, wall_ms: int) -> int:
        """Return how much time has passed since both clocks showed this; the larger counts."""
        return max(self.clock.boot_ms() - boot_ms, self.clock.now_ms() - wall_ms)

    def is_fresh(self, seen: Look) -> bool:
        """Whether less than a quarter of the grace has passed since a look began."""
        return self.elapsed_ms(seen.boot_ms, seen.wall_ms) < self.rules.grace_ms // 4

    def saw(self, seen: Look) -> None:
        """Remember a read of the head, unless another one has shown a higher floor.

        Readers look at the head as well, at the same time as the owner. Floors only rise.
        """
        last = self.last_look
        if last is None or seen.head.floor >= last.head.floor:
            self.last_look = seen

    def moved_on(self) -> None:
        """Take note that a reader found gone what it had located, and looks again."""
        self.moves += 1
        self.counters["read again"] += 1

    def forget(self) -> None:
        """Be sure of nothing, so that everything is learned again."""
        self.is_sure = False

    def publish(self, snapshot: Snapshot) -> None:
        """Know this, which is verified, and be sure of it."""
        self.snapshot, self.is_sure = snapshot, True

    def take(self, next_: KnownBundle) -> None:
        """Take in the next bundle, about which the rule has been kept."""
        self.publish(self.known.after(next_))

    def stands(self, seq: int) -> None:
        """Take note that a checkpoint is there."""
        self.checkpoint = max(self.checkpoint, seq)
        known = self.snapshot
        if known is not None and known.due is not None and known.due[0].seq <= seq:
            self.snapshot = replace(known, due=None)


def new_lane(
    number: int,
    rules: Rules,
    clock: Clock,
    ids: Ids,
    *,
    time: StoreTime | None = None,
    writer: bytes | None = None,
) -> Lane:
    """Return a lane of which this process knows nothing yet.

    With the store's ``time`` it is one to append to, by ``writer`` or under a new id; without, one
    to read.
    """
    if writer is None:
        writer = bytes(16) if time is None else ids()
    return Lane(number=number, rules=rules, clock=clock, ids=ids, writer=writer, time=time)


def new_lanes(rules: Rules, clock: Clock, ids: Ids, time: StoreTime) -> dict[int, Lane]:
    """Return every lane of a namespace, for a process that appends to them."""
    writer = ids()
    return {
        number: new_lane(number, rules, clock, ids, time=time, writer=writer)
        for number in range(rules.lanes)
    }


def look(lane: Lane) -> Work[Look]:
    """Read the head.

    Raises:
        NotFoundError: there is none; the lane stops.
    """
    lane.counters["head read"] += 1
    boot_ms, wall_ms = lane.clock.boot_ms(), lane.clock.now_ms()
    try:
        found = yield from ask(Get(head_key(lane.number), HEAD_BYTES_MAX))
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
    lane.saw(seen)
    return seen


def floor_holds(lane: Lane, seq: int) -> Work[bool]:
    """Say whether what was learned from bundle key ``seq`` counts: the head-check rule."""
    seen = lane.last_look
    if seen is not None and seen.head.floor > seq:
        return False  # Floors never go down.
    if seen is not None and lane.is_fresh(seen):
        lane.counters["head fresh"] += 1
        return True
    return (yield from look(lane)).head.floor <= seq
