"""Drafts: the next bundle of a lane, out of requests, against the fold it will stand on.

Every request is judged here, and again for each key that is tried: what is stored at seq ``s`` was
judged by the fold of 0 to ``s - 1``. A judgement is worth nothing before the bundle is stored, or
the key was seen to be absent: until then somebody else may have written what it did not know of.
"""

from collections.abc import Sequence

from lakelog.errors import InvalidInputError
from lakelog.formats import Bytes
from lakelog.formats.lanes import (
    LEAD_BYTES,
    BatchRow,
    Bundle,
    Event,
    EventKind,
    Slice,
    bundle_pieces,
)
from lakelog.journal.fold import Fold, ProducerState, TopicIdPartition, judge
from lakelog.journal.requests import (
    Append,
    Begin,
    CommitWrite,
    DeleteTopic,
    Outcome,
    Refusal,
    Refused,
    Request,
    Stored,
)

__all__ = ["Draft", "draft"]


class Draft:
    """A bundle in the making, and what each request will be told once it is stored."""

    def __init__(
        self, fold: Fold, *, seq: int, epoch: int, created_ms: int, bulk: bool = False
    ) -> None:
        self._fold, self.bulk = fold, bulk
        self._seq, self._epoch, self._created_ms = seq, epoch, created_ms
        self._ends: dict[TopicIdPartition, int] = {}
        self._producers: dict[tuple[bytes, int, int], ProducerState] = {}
        self._deleted: set[bytes] = set()
        self._alive: set[bytes] = set()
        """Topics that were asked for already: nearly all batches are of a few."""
        self._taken: dict[TopicIdPartition, list[Append]] = {}
        self._events: list[Event] = []
        self._staged: list[Slice] = []
        self.outcomes: list[Outcome] = []
        self.stores: list[bool] = []
        """Whether the bundle carries the request; else it is a duplicate, or refused."""

        self._touched = False

    @property
    def size_bytes(self) -> int:
        """Bytes of its payload."""
        return sum(len(one.body) for appends in self._taken.values() for one in appends)

    @property
    def is_empty(self) -> bool:
        """Whether there is no need for a bundle."""
        return not (self._taken or self._events or self._touched)

    def add(self, request: Request) -> None:
        """Judge one request."""
        outcome: Outcome
        if type(request) is Append:
            outcome = self._append(request)
        elif type(request) is Begin:
            outcome = self._begin(request)
        elif type(request) is CommitWrite:
            outcome = self._commit(request)
        else:
            outcome = self._stored(0)
            if isinstance(request, DeleteTopic):
                self._delete(request.topic)
            else:
                self._touched = True
        self.outcomes.append(outcome)
        self.stores.append(type(outcome) is Stored and not outcome.duplicate)

    def _is_deleted(self, topic: bytes) -> bool:
        if topic in self._deleted or self._fold.is_deleted(topic):
            return True
        self._alive.add(topic)
        return False

    def _append(self, request: Append) -> Outcome:
        topic_partition, _, rows, offsets, _, _ = request
        if topic_partition[0] not in self._alive and self._is_deleted(topic_partition[0]):
            return Refused(Refusal.TOPIC_DELETED)
        base = self._ends.get(topic_partition)
        if base is None:
            base = self._fold.end(topic_partition)
        row = rows[0]
        if row.producer_id >= 0:
            key = (*topic_partition, row.producer_id)
            seen = self._producers.get(key) or self._fold.producer(topic_partition, row.producer_id)
            match judge(seen, row):
                case None:
                    state = seen or ProducerState(row.producer_epoch, 0, ())
                    self._producers[key] = state.then(row, base, self._created_ms)
                case Refusal() as why:
                    return Refused(why)
                case known:
                    return Stored(
                        base_offset=known.base_offset,
                        seq=-1,
                        epoch=self._epoch,
                        created_ms=self._created_ms,
                        duplicate=True,
                    )
        self._ends[topic_partition] = base + offsets
        taken = self._taken.get(topic_partition)
        if taken is None:
            self._taken[topic_partition] = [request]
        else:
            taken.append(request)
        fields = (base, self._seq, self._epoch, self._created_ms, False)
        return tuple.__new__(Stored, fields)

    def _begin(self, request: Begin) -> Outcome:
        topic_partition, offset = request.topic_partition, request.offset
        if self._is_deleted(topic_partition[0]):
            return Refused(Refusal.TOPIC_DELETED)
        end = self._ends.get(topic_partition, self._fold.end(topic_partition))
        if end == offset and topic_partition not in self._taken:
            return Stored(offset, -1, self._epoch, self._created_ms, duplicate=True)
        if end:
            return Refused(Refusal.BEGUN)
        self._ends[topic_partition] = offset
        self._events.append(Event.begins(*topic_partition, offset))
        return self._stored(offset)

    def _commit(self, request: CommitWrite) -> Outcome:
        """What was staged for topics that are gone is left out: they would be gone the next moment.

        It has a bundle to itself, and is judged by the fold alone.
        """
        match self._fold.judge_write(request):
            case None:
                pass
            case Refusal() as why:
                return Refused(why)
            case known:
                return Stored(0, -1, self._epoch, known.seen_ms, duplicate=True)
        event = Event(EventKind.WRITE_COMMITTED, request.write, request.query, request.number)
        self._events.append(event)
        for run in request.runs:
            if not self._is_deleted(run.topic):
                base = self._ends.get(run.topic_partition, self._fold.end(run.topic_partition))
                self._ends[run.topic_partition] = base + run.offsets
                self._staged.append(run._replace(base_offset=base, write=0))
        return self._stored(0)

    def _delete(self, topic: bytes) -> None:
        if topic not in self._deleted and not self._fold.is_deleted(topic):
            self._deleted.add(topic)
            self._alive.discard(topic)
            self._events.append(Event(EventKind.TOPIC_DELETED, topic))

    def _stored(self, base_offset: int) -> Stored:
        return Stored(base_offset, self._seq, self._epoch, self._created_ms)

    def finish(
        self, *, writer: bytes, nonce: bytes, checkpoint: int
    ) -> tuple[Bundle, tuple[Bytes, ...]]:
        """Return the bundle, and the pieces of which its object consists."""
        slices: list[Slice] = []
        batches: list[BatchRow] = []
        payload: list[Bytes] = []
        at = LEAD_BYTES
        for topic_partition, appends in sorted(self._taken.items()):
            length = count = 0
            for append in appends:
                payload.append(append.body)
                batches += append.rows
                length += len(append.body)
                count += len(append.rows)
            first, end = appends[0], self._ends[topic_partition]
            base = end - sum([append.offsets for append in appends])
            min_ms, max_ms = first.min_timestamp, first.max_timestamp
            if len(appends) > 1:
                min_ms = min([append.min_timestamp for append in appends])
                max_ms = max([append.max_timestamp for append in appends])
            slices.append(
                Slice(*topic_partition, count, base, end - base, at, length, min_ms, max_ms)
            )
            at += length
        slices += self._staged
        bundle = Bundle(
            bulk=self.bulk,
            lane=self._fold.lane,
            seq=self._seq,
            created_ms=self._created_ms,
            checkpoint=checkpoint,
            epoch=self._epoch,
            writer=writer,
            nonce=nonce,
            previous=self._fold.nonce,
            slices=tuple(slices),
            batches=tuple(batches),
            events=tuple(self._events),
        )
        return bundle, bundle_pieces(bundle, payload)


def draft(fold: Fold, requests: Sequence[Request], *, writer: bytes, now_ms: int) -> Draft:
    """Return the draft of the next bundle. Times never go back, whatever the clock says.

    Raises:
        InvalidInputError: a bulk write shares a bundle with other requests.
    """
    bulk = any(type(request) is CommitWrite for request in requests)
    if bulk and len(requests) > 1:
        raise InvalidInputError("a bulk write has a bundle to itself: append it alone")
    made = Draft(
        fold,
        bulk=bulk,
        seq=fold.seq + 1,
        epoch=fold.epoch_after(writer, bulk=bulk),
        created_ms=max(fold.created_ms, now_ms),
    )
    for request in requests:
        made.add(request)
    return made
