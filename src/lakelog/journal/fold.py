"""The fold: what bundles 0 to ``seq`` of a lane amount to.

    ends        (topic, partition) -> end offset
    producers   (topic, partition, producer id) -> epoch, last seen, its last five batches
    writes      query -> its last bulk write that was committed
    marks       (kind, id) -> when: topics that were deleted, writes that were aborted
    epoch       how often the leader changed; leader: the last writer that was no bulk write

It is a function of the chain and of nothing else, so that everybody's fold of the same bundles is
the same, and a checkpoint may be written by anybody. What leaves it leaves by a row of a bundle, or
by the bundles' own time, at the bundles after which a checkpoint is due: producers and aborts a day
after they were last seen, and beyond a number of them the oldest first, of producers those of the
partitions that have the most. That a topic was deleted, or a write committed, is forgotten by
number only: whoever asks may have slept for longer than a day. An end offset leaves only with its
topic: nothing else remembers it when every record has expired.

A ``Producer`` may be asked about a batch (``judge``). The rules are Kafka's: the next sequence of
the same epoch, or zero of a newer epoch; anything from a producer nobody knows; a batch that is
among its last five is a duplicate, and its offset is the answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from lakelog.formats.lanes import (
    KEPT_MAX,
    NO_ID,
    BatchRow,
    Bundle,
    Checkpoint,
    End,
    EventKind,
    Kept,
    Mark,
    Producer,
    Rolled,
    Write,
)
from lakelog.journal.layers import Layers
from lakelog.journal.requests import CommitWrite, Refusal

__all__ = ["MEMORY_MS", "Fold", "ProducerState", "TopicIdPartition", "judge"]

MEMORY_MS = 24 * 3_600_000
PRODUCERS_MAX = 200_000
WRITES_MAX = 10_000
MARKS_MAX = 10_000
SKEW_MS = 3_600_000
"""How far the clocks of writers and of the store may be apart."""

TopicIdPartition = tuple[bytes, int]
ProducerKey = tuple[bytes, int, int]
"""The id of a topic, a partition of it, and the id of a producer."""


class ProducerState(NamedTuple):
    """A producer in a partition."""

    epoch: int
    seen_ms: int
    kept: tuple[Kept, ...]

    def then(self, row: BatchRow, base_offset: int, seen_ms: int) -> "ProducerState":
        """Return it after one more batch."""
        batch = Kept(row.base_sequence, row.last_offset_delta, base_offset)
        kept = (*self.kept, batch)[-KEPT_MAX:] if row.producer_epoch == self.epoch else (batch,)
        return ProducerState(row.producer_epoch, seen_ms, kept)


def judge(seen: ProducerState | None, row: BatchRow) -> Kept | Refusal | None:
    """Return None if a batch comes next; the batch it repeats; or why it is refused."""
    if seen is None:
        return None
    if row.producer_epoch < seen.epoch:
        return Refusal.FENCED
    if row.producer_epoch > seen.epoch:
        return None if row.base_sequence == 0 else Refusal.OUT_OF_ORDER
    for batch in seen.kept:
        if batch[:2] == (row.base_sequence, row.last_offset_delta):
            return batch
    expected = (seen.kept[-1].last_sequence + 1) & 0x7FFFFFFF
    return None if row.base_sequence == expected else Refusal.OUT_OF_ORDER


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """What is known of a lane up to one bundle. It never changes: ``after`` makes the next one."""

    lane: int
    every: int
    """A checkpoint is due after so many bundles."""
    seq: int = -1
    nonce: bytes = NO_ID
    epoch: int = 0
    leader: bytes = NO_ID
    created_ms: int = 0
    ends: Layers[TopicIdPartition, int] = field(default_factory=Layers)
    producers: Layers[ProducerKey, ProducerState] = field(default_factory=Layers)
    writes: Mapping[bytes, Write] = field(default_factory=dict)
    marks: Mapping[tuple[EventKind, bytes], int] = field(default_factory=dict)

    # ------------------------------------------------------------------------ asking

    def end(self, topic_partition: TopicIdPartition) -> int:
        """Return the offset that comes next in a partition."""
        return self.ends.get(topic_partition, 0)

    def producer(self, topic_partition: TopicIdPartition, producer_id: int) -> ProducerState | None:
        return self.producers.get((*topic_partition, producer_id))

    def is_deleted(self, topic: bytes) -> bool:
        return (EventKind.TOPIC_DELETED, topic) in self.marks

    def epoch_after(self, writer: bytes, *, bulk: bool) -> int:
        """Return the leader epoch of a bundle of this writer."""
        return self.epoch + (not bulk and self.leader not in (writer, NO_ID))

    def judge_write(self, request: CommitWrite) -> Write | Refusal | None:
        """Return None if a write is new here; what was committed of it; or why it is refused."""
        known = self.writes.get(request.query)
        if known is not None and known.number >= request.number:
            same = (known.number, known.write) == (request.number, request.write)
            return known if same else Refusal.OVERTAKEN
        full = known is None and len(self.writes) >= WRITES_MAX
        oldest = min(write.seen_ms for write in self.writes.values()) if full else 0
        return Refusal.FORGOTTEN if full and oldest >= request.decided_ms - SKEW_MS else None

    def is_due(self) -> bool:
        """Whether a checkpoint of just this fold should stand."""
        return (self.seq + 1) % self.every == 0

    def flaw(self, bundle: Bundle) -> str:
        """Say why this cannot be the next bundle; nothing if it can."""
        if (bundle.lane, bundle.seq, bundle.previous) != (self.lane, self.seq + 1, self.nonce):
            return f"bundle {bundle.seq} of lane {bundle.lane} does not follow {self.seq}"
        if bundle.created_ms < self.created_ms:
            return f"time goes back from {self.created_ms} to {bundle.created_ms}"
        if bundle.epoch != self.epoch_after(bundle.writer, bulk=bundle.bulk):
            return f"leader epoch {bundle.epoch} after {self.epoch}"
        ends: dict[TopicIdPartition, int] = {}
        for event in bundle.events:
            if event.kind is EventKind.PARTITION_BEGINS:
                if event.topic_partition in ends or self.end(event.topic_partition):
                    return f"{event.topic_partition} begins at {event.number}, and has begun"
                ends[event.topic_partition] = event.number
        for slice_ in bundle.slices:
            topic_partition = slice_.topic_partition
            end = ends.get(topic_partition, self.end(topic_partition))
            if slice_.base_offset != end:
                return f"a slice at {slice_.base_offset} of {topic_partition}, which ends at {end}"
            ends[topic_partition] = slice_.next_offset
        return ""

    # ------------------------------------------------------------------------ the next one

    def after(self, bundle: Bundle) -> "Fold":
        """Return the fold with the next bundle, in which ``flaw`` finds nothing."""
        events = bundle.events
        begun = {
            one.topic_partition: one.number
            for one in events
            if one.kind is EventKind.PARTITION_BEGINS
        }
        ends, producers = self._grown(bundle, begun)
        writes, marks = self.writes, self.marks
        deleted: set[bytes] = set()
        if len(events) > len(begun):
            writes, marks = dict(writes), dict(marks)
            for event in events:
                if event.kind is EventKind.WRITE_COMMITTED:
                    writes[event.query] = Write(
                        event.query, event.number, event.id, bundle.created_ms
                    )
                elif event.kind is not EventKind.PARTITION_BEGINS:
                    marks[event.kind, event.id] = bundle.created_ms
                if event.kind is EventKind.TOPIC_DELETED:
                    deleted.add(event.id)
        if deleted:
            ends = Layers({key: end for key, end in ends.items() if key[0] not in deleted})
            producers = Layers(
                {key: one for key, one in producers.items() if key[0] not in deleted}
            )
        made = Fold(
            lane=self.lane,
            every=self.every,
            seq=bundle.seq,
            nonce=bundle.nonce,
            epoch=bundle.epoch,
            leader=self.leader if bundle.bulk else bundle.writer,
            created_ms=bundle.created_ms,
            ends=ends,
            producers=producers,
            writes=writes,
            marks=marks,
        )
        return made._without_the_old() if made.is_due() else made

    def _grown(
        self, bundle: Bundle, begun: dict[TopicIdPartition, int]
    ) -> tuple[Layers[TopicIdPartition, int], Layers[ProducerKey, ProducerState]]:
        """Return ends and producers with what the slices of a bundle bring."""
        ends = dict(begun)
        producers: dict[ProducerKey, ProducerState] = {}
        at = 0
        for slice_ in bundle.slices:
            ends[slice_.topic_partition] = slice_.next_offset
            offset = slice_.base_offset
            for row in bundle.batches[at : at + slice_.batches]:
                if row.producer_id >= 0:
                    key = (*slice_.topic_partition, row.producer_id)
                    seen = producers.get(key) or self.producers.get(key)
                    seen = seen or ProducerState(row.producer_epoch, 0, ())
                    producers[key] = seen.then(row, offset, bundle.created_ms)
                offset += row.last_offset_delta + 1
            at += slice_.batches
        return self.ends.changed(ends), self.producers.changed(producers)

    def _without_the_old(self) -> "Fold":
        """Return the fold without what has left it by its age, or by number."""
        since = self.created_ms - MEMORY_MS
        producers = [one for one in self.producers.items() if one[1].seen_ms >= since]
        writes = list(self.writes.items())
        if len(writes) > WRITES_MAX:
            writes = sorted(writes, key=lambda item: (item[1].seen_ms, item[0]))[-WRITES_MAX:]
        marks = sorted(self.marks.items(), key=lambda mark: (mark[1], mark[0]))[-MARKS_MAX:]
        return replace(
            self,
            producers=Layers(dict(_within_quota(producers, PRODUCERS_MAX))),
            writes=dict(writes),
            marks={
                key: seen
                for key, seen in marks
                if seen >= since or key[0] is EventKind.TOPIC_DELETED
            },
        )

    # ------------------------------------------------------------------------ checkpoints

    def checkpoint(self, bundles: Sequence[Bundle]) -> Checkpoint:
        """Return it as a checkpoint, with a slice index of the last bundles, up to its own."""
        rows = [
            Rolled(bundle.seq, slice_, bundle.epoch)
            for bundle in bundles
            for slice_ in bundle.slices
        ]
        rows.sort(key=lambda row: (*row.slice.topic_partition, row.slice.base_offset))
        return Checkpoint(
            lane=self.lane,
            seq=self.seq,
            epoch=self.epoch,
            created_ms=self.created_ms,
            nonce=self.nonce,
            leader=self.leader,
            first=bundles[0].seq if bundles else self.seq,
            ends=tuple(
                [End(*topic_partition, end) for topic_partition, end in sorted(self.ends.items())]
            ),
            producers=tuple(
                [Producer(*key, *seen) for key, seen in sorted(self.producers.items())]
            ),
            writes=tuple([write for _, write in sorted(self.writes.items())]),
            marks=tuple([Mark(*key, seen) for key, seen in sorted(self.marks.items())]),
            slice_index=tuple(rows),
        )

    @classmethod
    def of(cls, checkpoint: Checkpoint, every: int) -> "Fold":
        """Return the fold that a checkpoint is of."""
        return cls(
            lane=checkpoint.lane,
            every=every,
            seq=checkpoint.seq,
            nonce=checkpoint.nonce,
            epoch=checkpoint.epoch,
            leader=checkpoint.leader,
            created_ms=checkpoint.created_ms,
            ends=Layers({(topic, partition): end for topic, partition, end in checkpoint.ends}),
            producers=Layers({row[:3]: ProducerState(*row[3:]) for row in checkpoint.producers}),
            writes={write.query: write for write in checkpoint.writes},
            marks={(mark.kind, mark.id): mark.seen_ms for mark in checkpoint.marks},
        )


def _within_quota(
    producers: list[tuple[ProducerKey, ProducerState]], most: int
) -> list[tuple[ProducerKey, ProducerState]]:
    """Return the producers that are kept: all, or ``most`` of them.

    Those that go are the longest idle ones of the partitions that have the most. So nobody can make
    the log forget the producers of a partition by writing to others: a partition keeps all that it
    has while it has no more than an equal share.
    """
    if len(producers) <= most:
        return producers
    partitions: dict[TopicIdPartition, list[tuple[ProducerKey, ProducerState]]] = {}
    for one in producers:
        partitions.setdefault(one[0][:2], []).append(one)
    left, kept = most, []
    # The smallest first: what a partition does not need of its share is for the larger ones.
    smallest_first = sorted(partitions.items(), key=lambda item: (len(item[1]), item[0]))
    for at, (_, some) in enumerate(smallest_first):
        share = left // (len(smallest_first) - at)
        some.sort(key=lambda one: (one[1].seen_ms, one[0]))
        kept += some[len(some) - min(share, len(some)) :]
        left -= min(share, len(some))
    return kept
