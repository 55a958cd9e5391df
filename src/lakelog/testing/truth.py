"""The truth: what was really stored, seen from beside the store, and every rule about it.

It watches each operation when it is performed. A bundle is *genuine* when it was created at a key
at or above the floor of that instant. Of genuine bundles it keeps its own fold, and of every
partition its own log; everything anybody does or is told is compared with these.

    J1  a genuine key was created once, and in order
    J2  offsets contiguous, sequences single and gapless, epochs and times never go down; times are
        the store's, but for what a clock may be off
    J3  what was acknowledged is there, at its offset
    J4  floor before delete; everything below the floor is in a manifest
    J5  floors, starts and ends never go down
    J6  "there is nothing" only if there was nothing when the question came
    J8  checkpoints are what the chain amounts to

Rows of a manifest leave no gap that anybody may read, and hold what the log held, batch by batch;
those of compacted topics hold what ``keyed`` lets them.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

from lakelog.errors import NotFoundError
from lakelog.formats import kafs
from lakelog.formats.lanes import (
    BatchRow,
    Bundle,
    Checkpoint,
    Slice,
    decode_checkpoint,
    decode_directory,
)
from lakelog.journal import (
    Append,
    Fold,
    Outcome,
    Refusal,
    Refused,
    Stored,
    TopicIdPartition,
    decode_head,
    judge,
    new_run,
)
from lakelog.log import Bounds, Chunk, OutOfRange
from lakelog.manifests import Manifest, SegmentRow, decode_manifest, decode_page
from lakelog.model import Rules
from lakelog.names import seq_of, staged_key
from lakelog.records import frames
from lakelog.store import (
    Created,
    Delete,
    Get,
    MemoryStore,
    Op,
    PutIfAbsent,
    PutIfMatch,
    Replaced,
    join_body,
)
from lakelog.testing.entries import Entry, entries_of
from lakelog.testing.keyed import Keyed
from lakelog.testing.machine import DiskView

__all__ = ["Anomaly", "Truth", "must"]

SKEW_MS = 10_000
"""How far the time of a bundle may be from the store's: clocks are up to 3,000 ms off."""


class Anomaly(AssertionError):  # noqa: N818 (it is one, whoever made the error)
    """The log is not what it promised."""


class Truth:
    """What is so, in one lane."""

    def __init__(
        self, store: MemoryStore | DiskView, rules: Rules, now_ms: Callable[[], int]
    ) -> None:
        self._store = store
        self.rules = rules
        self._now_ms = now_ms
        self._began_ms = now_ms()
        self.keyed = Keyed()
        self.forget_bundles()
        self.floor = 0
        self.floors: list[tuple[int, int]] = [(0, 0)]
        self.manifests: dict[str, Manifest] = {}
        self.starts: dict[TopicIdPartition, int] = {}
        self.left: dict[str, int] = {}
        """When segments and pages left their manifests: for a grace they may still be read."""
        self.told: dict[int, tuple[TopicIdPartition, int]] = {}
        """Batches that somebody was told are in the log, and where."""
        self.strange: set[bytes] = set()
        """Topics whose producers are forgotten because there are too many of them."""

    def forget_bundles(self) -> None:
        """Begin with no bundle, and with nothing that follows from bundles."""
        self.fold = Fold(lane=0, every=self.rules.checkpoint_every)
        self.folds: dict[int, Checkpoint] = {}
        self.bundles: list[Bundle] = []
        self.rows: list[list[tuple[TopicIdPartition, BatchRow]]] = []
        """The batches of each of them."""
        self.logs: dict[TopicIdPartition, list[Entry]] = {}
        self.offsets: dict[int, tuple[TopicIdPartition, int]] = {}
        """Where each batch is, by its CRC, which is unique here."""
        self.deleted: set[bytes] = set()
        self.staged: dict[str, int] = {}
        """Objects that bundles point at, and the last of these bundles."""
        self.keyed.logs = {}

    # ------------------------------------------------------------------------ watching

    def watch(self, op: Op, answer: Any) -> None:
        """Look at an operation that was performed."""
        if isinstance(op, PutIfAbsent | PutIfMatch):
            if isinstance(answer, Created | Replaced):
                self._put(op.key, join_body(op.body))
        elif isinstance(op, Delete):
            self._delete(op.key)

    def _put(self, key: str, body: bytes) -> None:
        if key.endswith(".bundle"):
            self._bundle(decode_directory(body, len(body)))
        elif key.endswith(".checkpoint"):
            self._checkpoint(decode_checkpoint(body))
        elif key.endswith("/head"):
            self._head(body)
        elif key.endswith("/manifest"):
            self._manifest(key, decode_manifest(body))

    def _bundle(self, bundle: Bundle) -> None:
        if bundle.seq < self.floor:
            return  # Nobody sees it.
        must(bundle.seq == len(self.bundles), f"J1: key {bundle.seq} after {len(self.bundles)}")
        flaw = self.fold.flaw(bundle)
        must(not flaw, f"J2: {flaw}")
        if self.bundles:  # Once more, by what is seen here and not by the fold's own idea of it.
            last = self.bundles[-1]
            must(bundle.epoch >= last.epoch, f"J2: epoch {bundle.epoch} after {last.epoch}")
            must(bundle.created_ms >= last.created_ms, f"J2: time of {bundle.seq} goes back")
        early_ms = bundle.created_ms - self._now_ms()
        must(early_ms <= SKEW_MS, f"J2: bundle {bundle.seq} is of a time {early_ms} ms ahead")
        late = bundle.created_ms < self._began_ms - SKEW_MS
        must(not late, f"J2: bundle {bundle.seq} is of {bundle.created_ms}, before anything was")
        for slice_ in bundle.slices:
            must(
                slice_.topic not in self.deleted, f"J2: {slice_.topic_partition} after its deletion"
            )
        rows = self._rows_of(bundle)
        for topic_partition, row in rows:
            again = row.crc in self.offsets and topic_partition[0] not in self.strange
            must(not again, f"duplicate: {row.crc} in {topic_partition} as well")
        self.take(bundle, rows)

    def _rows_of(self, bundle: Bundle) -> list[tuple[TopicIdPartition, BatchRow]]:
        """Return the batches of a bundle, by slices, wherever they lie."""
        at, rows = 0, []
        for slice_ in bundle.slices:
            some = (*bundle.batches[at : at + slice_.batches], *self._staged(bundle, slice_))
            rows += [(slice_.topic_partition, row) for row in some]
            at += slice_.batches
        return rows

    def take(self, bundle: Bundle, rows: list[tuple[TopicIdPartition, BatchRow]]) -> None:
        """Let a bundle be a part of the log."""
        ends: dict[TopicIdPartition, int] = {}
        bases = {slice_.topic_partition: slice_.base_offset for slice_ in reversed(bundle.slices)}
        for topic_partition, row in rows:
            offset = ends.get(topic_partition, bases[topic_partition])
            ends[topic_partition] = next_ = offset + row.last_offset_delta + 1
            self.logs.setdefault(topic_partition, []).append(
                Entry(offset, next_, row.crc, bundle.epoch)
            )
            self.offsets[row.crc] = topic_partition, offset
            if row.crc in self.keyed.sent:
                self.keyed.store(topic_partition, offset, row.crc)
            if row.producer_id >= 0:
                seen = self.fold.producer(topic_partition, row.producer_id)
                must(judge(seen, row) is None, f"J2: sequence {row.base_sequence}")
        for slice_ in bundle.slices:
            if slice_.write >= 0:
                self.staged[_staged_key(bundle, slice_)] = bundle.seq
        self.fold = self.fold.after(bundle)
        self.bundles.append(bundle)
        self.rows.append(rows)
        self.deleted |= {event.id for event in bundle.events if event.kind == 1}
        self.folds[bundle.seq] = self.fold.checkpoint(())

    def _staged(self, bundle: Bundle, slice_: Slice) -> tuple[BatchRow, ...]:
        """Return the batches of a slice that lies elsewhere."""
        if slice_.write < 0:
            return ()
        key = _staged_key(bundle, slice_)
        try:
            body = self.read(key)
        except NotFoundError as error:
            raise Anomaly(
                f"{key}: bundle {bundle.seq} points at it, and it is not there"
            ) from error
        run = body[slice_.position : slice_.position + slice_.length]
        return new_run(*slice_.topic_partition, run).rows

    def _checkpoint(self, checkpoint: Checkpoint) -> None:
        known = self.folds.get(checkpoint.seq)
        plain = replace(checkpoint, first=checkpoint.seq, slice_index=())
        must(known == plain, f"J8: checkpoint {checkpoint.seq} is not what the chain says")
        for seq, slice_, epoch in checkpoint.slice_index:
            bundle = self.bundles[seq]
            is_right = slice_ in bundle.slices and epoch == bundle.epoch
            must(is_right, f"J8: slice index of {checkpoint.seq}")

    def _head(self, body: bytes) -> None:
        head = decode_head(body, 0)
        must(head.floor >= self.floor, f"J5: floor from {self.floor} to {head.floor}")
        for bundle in self.bundles[self.floor : head.floor]:
            for slice_ in bundle.slices:
                must(
                    self.is_sealed(slice_.topic_partition, slice_.next_offset),
                    f"J4: {slice_} unsealed",
                )
        if head.floor > self.floor:
            self.floors.append((head.floor, self._now_ms()))
            checkpoint = self.folds.get(head.checkpoint)
            must(
                checkpoint is not None and head.checkpoint >= head.floor,
                f"J4: stands on {head.checkpoint}",
            )
        self.floor = head.floor

    def is_sealed(self, topic_partition: TopicIdPartition, next_offset: int) -> bool:
        if topic_partition[0] in self.deleted:
            return True
        manifest = self.manifest_of(topic_partition)
        if manifest is None:
            return False
        return manifest.deleted or next_offset <= max(manifest.sealed_end, manifest.log_start)

    def manifest_of(self, topic_partition: TopicIdPartition) -> Manifest | None:
        for manifest in self.manifests.values():
            if (manifest.topic, manifest.partition) == topic_partition:
                return manifest
        return None

    def _manifest(self, key: str, now: Manifest) -> None:
        before = self.manifests.get(key)
        if before is not None:
            must(now.generation == before.generation + 1, f"{key}: generation {now.generation}")
            must(now.topic == before.topic, f"{key}: topic changed")
            must(now.sealed_end >= before.sealed_end, f"J5: sealed end of {key} goes down")
            must(now.log_start >= before.log_start, f"J5: start of {key} goes down")
            must(now.deleted >= before.deleted, f"{key}: comes back to life")
        topic_partition = now.topic, now.partition
        log = self.logs.get(topic_partition, [])
        end = log[-1].next_offset if log else 0
        must(now.sealed_end <= end, f"{key}: sealed to {now.sealed_end}, log ends at {end}")
        must(now.log_start <= end, f"{key}: starts at {now.log_start}, log ends at {end}")
        prefix = key.removesuffix("manifest")
        rows = self.segments(prefix, now)
        ends = (
            {row.name: row.next_offset for row in self.segments(prefix, before)} if before else {}
        )
        known = set(ends)
        for row in rows:
            if row.name not in known:
                self.judge_segment(prefix, topic_partition, row)
            elif row.next_offset != ends[row.name]:
                self.judge_segment(prefix, topic_partition, row, log_start=now.log_start)
        for one, next_ in pairwise(rows):
            must(one.next_offset <= next_.base_offset, f"{key}: {one.name} and {next_.name} meet")
            lost = max(one.next_offset, now.log_start) < next_.base_offset
            must(not lost, f"{key}: nothing between {one.name} and {next_.name}")
        if rows and now.log_start < now.sealed_end:
            must(rows[0].base_offset <= now.log_start, f"{key}: begins at {rows[0].base_offset}")
            must(rows[-1].next_offset == now.sealed_end, f"{key}: ends at {rows[-1].next_offset}")
        if topic_partition in self.keyed.logs and not now.deleted:
            names = [prefix + row.name for row in rows]
            flaw = self.keyed.judge_manifest(topic_partition, names, now.log_start, now.sealed_end)
            must(not flaw, f"{key}: {flaw}")
        if before is not None:
            held = {row.name for row in rows} | {page.name for page in now.pages}
            gone = known | {page.name for page in before.pages}
            self.left |= {prefix + name: self._now_ms() for name in gone - held}
        self.starts[topic_partition] = now.log_start
        self.manifests[key] = now

    def segments(self, prefix: str, manifest: Manifest) -> list[SegmentRow]:
        """Return the rows of a manifest, those of its pages first."""
        pages = [decode_page(self.read(f"{prefix}{page.name}.json")) for page in manifest.pages]
        return [*chain.from_iterable(pages), *manifest.segments]

    def judge_segment(
        self, prefix: str, topic_partition: TopicIdPartition, row: SegmentRow, *, log_start: int = 0
    ) -> None:
        """Compare a segment with the log, batch by batch.

        A row may reach over offsets that its segment never held, if they were before
        ``log_start`` when it was their turn to be sealed: history goes on behind them.
        """
        try:
            body = self.read(f"{prefix}{row.name}.kfs")
        except NotFoundError as error:
            raise Anomaly(f"{prefix}{row.name}: named, and not there") from error
        run = body[kafs.HEADER_BYTES : -kafs.FOOTER_BYTES]
        if topic_partition in self.keyed.logs:
            flaw = self.keyed.judge_segment(topic_partition, prefix + row.name, run)
            must(not flaw, f"{prefix}{row.name}: {flaw}")
            return
        held = entries_of(frames(run))
        log = self.between(topic_partition, row.base_offset, row.next_offset)
        must(held == log[: len(held)], f"{prefix}{row.name}: it holds what the log never held")
        for entry in log[len(held) :]:
            must(entry.next_offset <= log_start, f"{prefix}{row.name}: it does not hold {entry}")

    def read(self, key: str) -> bytes:
        """Return an object as it is now."""
        body: bytes = self._store.perform(Get(key)).body
        return body

    def _delete(self, key: str) -> None:
        seq = seq_of(key) if "/lanes/" in key else self.staged.get(key)
        if seq is not None:
            now = self._now_ms()
            old = [floor for floor, since in self.floors if now - since >= self.rules.grace_ms]
            must(seq < max(old, default=0), f"J4: {key} of bundle {seq} deleted, old floors {old}")
            return
        left_ms = self._now_ms() - self.left.get(key.partition(".")[0], -self.rules.grace_ms)
        must(left_ms >= self.rules.grace_ms, f"{key}: deleted {left_ms} ms after it was dropped")
        prefix, _, name = key.rpartition("/")
        manifest = self.manifests.get(prefix + "/manifest")
        if manifest is not None and not manifest.deleted:
            named = {row.name for row in self.segments(prefix + "/", manifest)}
            named |= {page.name for page in manifest.pages}
            must(name.partition(".")[0] not in named, f"{key}: deleted, and named by its manifest")

    # ------------------------------------------------------------------------ asking

    def between(self, topic_partition: TopicIdPartition, base: int, next_: int) -> list[Entry]:
        """Return the batches of ``[base, next_)``."""
        log = self.logs.get(topic_partition, [])
        at = bisect_right(log, (base, 1 << 62))
        at = at - 1 if at else 0
        return [entry for entry in log[at:] if entry.base_offset >= base and entry[1] <= next_]

    def end(self, topic_partition: TopicIdPartition) -> int:
        log = self.logs.get(topic_partition)
        return log[-1].next_offset if log else 0

    # ------------------------------------------------------------------------ judging

    def judge_answer(self, request: Append, outcome: Outcome) -> None:
        """Compare what a client was told with what is stored."""
        crc = request.rows[0].crc
        known = self.offsets.get(crc)
        match outcome:
            case Stored():
                told = request.topic_partition, outcome.base_offset
                must(known == told, f"J3: acknowledged at {told}, stored at {known}")
                self.told[crc] = told
            case Refused(Refusal.TOPIC_DELETED):
                must(
                    request.topic in self.deleted, f"J6: {request.topic_partition} was not deleted"
                )
            case Refused():
                must(known is None, f"aborted read: refused, and stored at {known}")
            case _:
                pass

    def judge_read(
        self,
        topic_partition: TopicIdPartition,
        offset: int,
        found: Chunk | OutOfRange,
        *,
        asked: Bounds,
    ) -> None:
        """Compare what a reader was told; ``asked`` was so when it asked."""
        now = found.bounds
        must(now.end <= self.end(topic_partition), f"an end {now.end} that never was")
        if isinstance(found, OutOfRange) or not found.body:
            must(now.end >= asked.end, f"J6: end {now.end}, and it was {asked.end}")
            must(now.log_start >= asked.log_start, f"J5: start {now.log_start} goes down")
        if isinstance(found, OutOfRange):
            start = self.starts.get(topic_partition, 0)
            within = start <= offset <= asked.end
            must(not within, f"J6: {offset} out of range, and it was in [{start}, {asked.end}]")
            return
        if topic_partition in self.keyed.logs:
            flaw = self.keyed.judge_chunk(topic_partition, found.body, offset, found.next_offset)
            must(not flaw, f"{topic_partition[1]}/{offset}: {flaw}")
            return
        entries = entries_of(frames(found.body, after=None, crc=False))
        if not entries:
            must(offset >= asked.end, f"J6: nothing at {offset}, and the end was {asked.end}")
            return
        first, last = entries[0], entries[-1]
        must(first.base_offset <= offset < first.next_offset, f"skip: {first} for {offset}")
        truth = self.between(topic_partition, first.base_offset, last.next_offset)
        must(
            entries == truth,
            f"read {entries[:3]} at {topic_partition[1]}/{offset}, log holds {truth[:3]}",
        )


def _staged_key(bundle: Bundle, slice_: Slice) -> str:
    return staged_key(bundle.events[slice_.write].id, bundle.lane, slice_.part)


def must(so: bool, otherwise: str) -> None:
    if not so:
        raise Anomaly(otherwise)
