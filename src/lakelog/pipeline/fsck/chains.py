"""The journal of a lane, bundle by bundle: one chain, and checkpoints that are what it amounts to.

    floor ……… checkpoint …… checkpoint …… checkpoint … end
      |  Stretch  |  Stretch  |  Stretch  | Stretch |

Each stretch is a unit. It folds from the checkpoint before it, and judges the one it ends with. So
a unit holds one fold and one bundle, however long the lane is; and since each checkpoint is held
against the fold of the one before, all are right if each is. From the floor to the first of them
there is nothing to fold from. There the chain is followed by its nonces, and offsets from where
each partition is seen first.

What looks wrong counts only if the floor, read afterwards, has not passed the lowest key that was
used: the head-check rule. Else the stretch is walked again, from the new floor on. What lies below
a floor means nothing, whatever it is.

A missing checkpoint loses nothing, unless the floor stands on it: whoever should have written it
died first. It is told.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from lakelog.errors import CorruptError, NotFoundError, UnsupportedError
from lakelog.formats.lanes import (
    BUNDLE_BYTES_MAX,
    CHECKPOINT_BYTES_MAX,
    NO_ID,
    BatchRow,
    Bundle,
    Checkpoint,
    EventKind,
    Slice,
    decode_bundle,
    decode_checkpoint,
    decode_directory,
)
from lakelog.journal import HEAD_BYTES_MAX, Fold, Head, TopicIdPartition, decode_head
from lakelog.names import LANES_PREFIX, bundle_key, checkpoint_key, head_key, staged_key
from lakelog.pipeline.frame import FindingCollector, Result, Subject
from lakelog.records import HEADER_BYTES, BatchHeader, decode_records, frames
from lakelog.store import Get, GetRange, Work, ask, is_there

__all__ = ["BundleRange", "check_stretch", "lane_subject", "read_head"]


def lane_subject(lane: int, seq: int, key: str) -> Subject:
    """Return what a result about a lane is about."""
    return Subject(LANES_PREFIX.rstrip("/"), lane, seq, key)


def read_head(lane: int) -> Work[Head]:
    """Return the head of a lane as it is now.

    Raises:
        NotFoundError, CorruptError, UnsupportedError: there is none, or something else.
    """
    found = yield from ask(Get(head_key(lane), HEAD_BYTES_MAX))
    return decode_head(found.body, lane)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRange:
    """A unit: neighbouring bundles of a lane."""

    lane: int
    every: int
    """Bundles from one checkpoint to the next."""
    first: int
    last: int
    based: bool
    """Whether a checkpoint stands just before it."""
    checkpoints: tuple[int, ...]
    """Those that were listed in it."""
    settled: int
    """Up to here a checkpoint that is due should have been written by now."""
    size: int


def check_stretch(unit: BundleRange, *, records: bool) -> Work[Result]:
    """Check the bundles of a stretch, and its checkpoints."""
    subject = lane_subject(unit.lane, unit.first, bundle_key(unit.lane, unit.first))
    try:
        floor = (yield from read_head(unit.lane)).floor
        while True:
            first = max(unit.first, floor)
            if first > unit.last:
                return subject.result("gone")
            walk = _Walk(unit, first, records, based=unit.based and unit.first > floor)
            yield from walk.go()
            if not walk.damage.count and not walk.missing.count:
                break
            floor = (yield from read_head(unit.lane)).floor
            if floor <= walk.lowest:
                break
    except (NotFoundError, CorruptError, UnsupportedError) as error:
        what = f"the head of the lane is bad: {error}"
        return subject.found("damaged", what, key=head_key(unit.lane))
    outcome, findings = "good", walk.damage
    if walk.damage.count:
        outcome = "damaged"
    elif walk.missing.count:
        outcome, findings = "uncheckpointed", walk.missing
    return subject.result(outcome, findings, records=walk.records, batches=walk.batches)


@dataclass(slots=True)
class _Walk:
    """One walk over a stretch."""

    unit: BundleRange
    first: int
    decode: bool
    based: bool
    damage: FindingCollector = field(default_factory=FindingCollector)
    missing: FindingCollector = field(default_factory=FindingCollector)
    records: int = 0
    batches: int = 0
    fold: Fold | None = None
    whole: bool = False
    """Whether the fold is all that the chain amounts to, and not only what was seen of it here."""
    held: list[Bundle] = field(default_factory=list)
    """The bundles since the last one after which a checkpoint was due, without a hole."""

    @property
    def lowest(self) -> int:
        """The lowest key that anything was learned from."""
        return self.first - 1 if self.based else self.first

    def go(self) -> Work[None]:
        """Walk."""
        unit = self.unit
        if self.first == 0:
            self.fold, self.whole = Fold(lane=unit.lane, every=unit.every), True
        elif self.based:
            checkpoint = yield from self._read_checkpoint(self.first - 1, FindingCollector())
            if checkpoint is not None:
                self.fold, self.whole = Fold.of(checkpoint, unit.every), True
        listed = frozenset(unit.checkpoints)
        for seq in range(self.first, unit.last + 1):
            bundle = yield from self._read_bundle(seq)
            if bundle is None:
                self.fold, self.whole, self.held = None, False, []
            else:
                self._follow(bundle)
            due = (seq + 1) % unit.every == 0
            if seq in listed:
                yield from self._judge_checkpoint(seq)
            elif due and seq <= unit.settled:
                yield from self._miss_checkpoint(seq)
            if due:
                self.held = []

    # ------------------------------------------------------------------------ bundles

    def _read_bundle(self, seq: int) -> Work[Bundle | None]:
        """Return the bundle at a key if its directory is sound, and note all that is wrong."""
        key = bundle_key(self.unit.lane, seq)
        try:
            data = (yield from ask(Get(key, BUNDLE_BYTES_MAX))).body
        except NotFoundError:
            self.damage.add(key, "it is missing: restore it")
            return None
        except UnsupportedError as error:
            self.damage.add(key, error.what, at=error.at)
            return None
        sound = True
        try:
            bundle, _ = decode_bundle(data)
        except (CorruptError, UnsupportedError) as error:
            self.damage.add(key, error.what, at=error.at)
            sound = False
            try:
                bundle = decode_directory(data, len(data))
            except (CorruptError, UnsupportedError):
                return None
        if (bundle.lane, bundle.seq) != (self.unit.lane, seq):
            self.damage.add(key, f"it is bundle {bundle.seq} of lane {bundle.lane}")
            return None
        if sound:
            yield from self._read_slices(bundle, memoryview(data), key)
        return bundle

    def _read_slices(self, bundle: Bundle, data: memoryview, key: str) -> Work[None]:
        at = 0
        for one in bundle.slices:
            rows = bundle.batches[at : at + one.batches]
            at += one.batches
            if one.write < 0:
                view = data[one.position : one.position + one.length]
                self._judge_run(one, view, key, rows)
                continue
            staged = staged_key(bundle.events[one.write].id, self.unit.lane, one.part)
            wanted = GetRange(staged, one.position, one.position + one.length)
            try:
                found = yield from ask(wanted)
            except NotFoundError:
                self.damage.add(
                    staged, f"it is missing, and bundle {bundle.seq} commits it: restore it"
                )
            else:
                self._judge_run(one, memoryview(found.body), staged, None)

    def _judge_run(
        self, one: Slice, run: memoryview, key: str, rows: Sequence[BatchRow] | None
    ) -> None:
        try:
            headers = [*_batches(run, one, key, decode=self.decode)]
            if rows is not None and [*map(_row, headers)] != [*rows]:
                raise CorruptError("the directory describes other batches", at=0, where=key)
            times = (one.min_timestamp, one.max_timestamp)
            held = (
                min(header.base_timestamp for header in headers),
                max(header.max_timestamp for header in headers),
            )
            offsets = sum(header.last_offset_delta + 1 for header in headers)
            if (offsets, *held) != (one.offsets, *times):
                what = (
                    f"{offsets} offsets and times {held}, the directory says {one.offsets}, {times}"
                )
                raise CorruptError(what, at=0, where=key)
        except (CorruptError, UnsupportedError) as error:
            self.damage.add(key, error.what, at=one.position + error.at)
            return
        self.batches += len(headers)
        self.records += sum(header.count for header in headers)

    def _follow(self, bundle: Bundle) -> None:
        """Take in the next bundle, or begin anew with it."""
        if self.fold is not None:
            if not self.whole:
                self.fold = _admit(self.fold, bundle)
            flaw = self.fold.flaw(bundle)
            if flaw:
                key = bundle_key(self.unit.lane, bundle.seq)
                self.damage.add(key, flaw)
                self.fold = None
        if self.fold is None:
            self.fold, self.whole, self.held = _seed(bundle, self.unit.every), False, []
        self.fold = self.fold.after(bundle)
        self.held.append(bundle)

    # ------------------------------------------------------------------------ checkpoints

    def _read_checkpoint(self, seq: int, findings: FindingCollector) -> Work[Checkpoint | None]:
        key = checkpoint_key(self.unit.lane, seq)
        try:
            found = yield from ask(Get(key, CHECKPOINT_BYTES_MAX))
            checkpoint = decode_checkpoint(found.body)
        except NotFoundError:
            self.missing.add(key, "it was there a moment ago, and is gone")
            return None
        except (CorruptError, UnsupportedError) as error:
            findings.add(key, error.what, at=error.at)
            return None
        if (checkpoint.lane, checkpoint.seq) != (self.unit.lane, seq):
            findings.add(key, f"it is checkpoint {checkpoint.seq} of lane {checkpoint.lane}")
            return None
        return checkpoint

    def _judge_checkpoint(self, seq: int) -> Work[None]:
        checkpoint = yield from self._read_checkpoint(seq, self.damage)
        if checkpoint is None:
            return
        flaw = self._flaw(checkpoint)
        if flaw:
            self.damage.add(checkpoint_key(self.unit.lane, seq), flaw)
        elif not self.whole:
            self.fold, self.whole = Fold.of(checkpoint, self.unit.every), True

    def _flaw(self, checkpoint: Checkpoint) -> str:
        """Say in what a checkpoint differs from the fold; there is one way to write each."""
        fold = self.fold
        if fold is None:
            return ""
        plain = replace(checkpoint, first=checkpoint.seq, slice_index=())
        if self.whole and fold.checkpoint(()) != plain:
            return "it is not what the bundles up to it amount to"
        ends = {(end.topic, end.partition): end.offset for end in checkpoint.ends}
        seen = (fold.nonce, fold.epoch, fold.created_ms)
        if seen != (checkpoint.nonce, checkpoint.epoch, checkpoint.created_ms) or any(
            ends.get(topic_partition) != end for topic_partition, end in fold.ends.items()
        ):
            return "it is not what the bundles before it lead to"
        # A slice index may begin with any bundle of its round: its writer had read no others.
        known = {bundle.seq for bundle in self.held}
        rolled = [bundle for bundle in self.held if bundle.seq >= checkpoint.first]
        mine = tuple(row for row in checkpoint.slice_index if row.seq in known)
        start = checkpoint.seq // self.unit.every * self.unit.every
        complete = bool(self.held) and self.held[0].seq == start
        if fold.checkpoint(rolled).slice_index != mine or (
            complete and len(mine) < len(checkpoint.slice_index)
        ):
            return "its slice index does not name the slices of its bundles"
        return ""

    def _miss_checkpoint(self, seq: int) -> Work[None]:
        key = checkpoint_key(self.unit.lane, seq)
        if not (yield from is_there(key)):
            self.missing.add(
                key, "one is due here and there is none: walks become longer, nothing is lost"
            )


# ---------------------------------------------------------------------------- folds in part


def _seed(bundle: Bundle, every: int) -> Fold:
    """Return a fold that this bundle continues, whatever was before it."""
    fold = Fold(
        lane=bundle.lane,
        every=every,
        seq=bundle.seq - 1,
        nonce=bundle.previous,
        created_ms=bundle.created_ms,
        epoch=bundle.epoch,
    )
    return _admit(fold, bundle)


def _admit(fold: Fold, bundle: Bundle) -> Fold:
    """Return a fold that believes what a bundle is the first to tell."""
    begins = EventKind.PARTITION_BEGINS
    begun = {event.topic_partition for event in bundle.events if event.kind is begins}
    ends: dict[TopicIdPartition, int] = {}
    for one in bundle.slices:
        if one.topic_partition not in begun and one.topic_partition not in fold.ends:
            ends.setdefault(one.topic_partition, one.base_offset)
    first = fold.leader == NO_ID and not bundle.bulk
    return replace(fold, ends=fold.ends.changed(ends), epoch=bundle.epoch if first else fold.epoch)


# ---------------------------------------------------------------------------- batches


def _batches(run: memoryview, one: Slice, key: str, *, decode: bool) -> Iterator[BatchHeader]:
    """Yield the headers of a run of batches, each checked; positions count from its start.

    Raises:
        CorruptError, UnsupportedError: they are not good batches.
    """
    if len(run) != one.length:
        raise CorruptError(f"{len(run)} bytes of {one.length}", at=0, where=key)
    for at, header in frames(run, after=None, where=key):
        if decode:
            body = run[at + HEADER_BYTES : at + header.size]
            decode_records(header, body, at=at, where=key)
        yield header


def _row(header: BatchHeader) -> BatchRow:
    return BatchRow(
        header.producer_id,
        header.crc,
        header.size,
        header.last_offset_delta,
        header.base_sequence,
        header.producer_epoch,
        header.attributes,
    )
