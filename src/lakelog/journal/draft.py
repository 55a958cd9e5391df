"""Drafts: the next bundle of a lane, out of requests, against the fold it will stand on.

Every request is judged here, and again for each key that is tried: what is stored at seq ``s`` was
judged by the fold of 0 to ``s - 1``. A judgement is worth nothing before the bundle is stored, or
the key was seen to be absent: until then somebody else may have written what it did not know of.
"""

from collections.abc import Sequence

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
from lakelog.journal.fold import Fold, Place, Seen, judge
from lakelog.journal.requests import (
    Append,
    DeleteTopic,
    Outcome,
    Refusal,
    Refused,
    Request,
    Stored,
)
from lakelog.records import BatchHeader

__all__ = ["Draft", "draft"]

_NEVER = (1 << 63) - 1


class Draft:
    """A bundle in the making, and what each request will be told once it is stored."""

    def __init__(self, fold: Fold, *, seq: int, epoch: int, created_ms: int) -> None:
        self._fold = fold
        self._seq, self._epoch, self._created_ms = seq, epoch, created_ms
        self._ends: dict[Place, int] = {}
        self._producers: dict[tuple[bytes, int, int], Seen] = {}
        self._deleted: set[bytes] = set()
        self._taken: dict[Place, list[Append]] = {}
        self._events: list[Event] = []
        self.outcomes: list[Outcome] = []
        self.stores: list[bool] = []
        """Whether the bundle carries the request; else it is a duplicate, or refused."""

        self._touched = False

    @property
    def is_empty(self) -> bool:
        """Whether there is no need for a bundle."""
        return not (self._taken or self._events or self._touched)

    def add(self, request: Request) -> None:
        """Judge one request."""
        if isinstance(request, Append):
            outcome = self._append(request)
        else:
            outcome = self._stored(0)
            if isinstance(request, DeleteTopic):
                self._delete(request.topic)
            else:
                self._touched = True
        self.outcomes.append(outcome)
        self.stores.append(isinstance(outcome, Stored) and not outcome.duplicate)

    def _append(self, request: Append) -> Outcome:
        place = request.place
        if request.topic in self._deleted or self._fold.is_deleted(request.topic):
            return Refused(Refusal.TOPIC_DELETED)
        base = self._ends.get(place)
        if base is None:
            base = self._fold.end(place)
        first = request.headers[0]
        if first.producer_id >= 0:
            key = (*place, first.producer_id)
            seen = self._producers.get(key) or self._fold.producer(place, first.producer_id)
            row = _row(first)
            match judge(seen, row):
                case None:
                    state = seen or Seen(row.producer_epoch, 0, ())
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
        end = base
        for header in request.headers:
            end += header.last_offset_delta + 1
        self._ends[place] = end
        self._taken.setdefault(place, []).append(request)
        return self._stored(base)

    def _delete(self, topic: bytes) -> None:
        if topic not in self._deleted and not self._fold.is_deleted(topic):
            self._deleted.add(topic)
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
        for place, appends in sorted(self._taken.items()):
            length, min_ms, max_ms, count = 0, _NEVER, -_NEVER, len(batches)
            for append in appends:
                payload.append(append.body)
                length += len(append.body)
                for header in append.headers:
                    batches.append(_row(header))
                    min_ms = min(min_ms, header.base_timestamp)
                    max_ms = max(max_ms, header.max_timestamp)
            base = self._fold.end(place)
            count = len(batches) - count
            offsets = self._ends[place] - base
            slices.append(Slice(*place, count, base, offsets, at, length, min_ms, max_ms))
            at += length
        bundle = Bundle(
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
    """Return the draft of the next bundle. Times never go back, whatever the clock says."""
    made = Draft(
        fold,
        seq=fold.seq + 1,
        epoch=fold.epoch_after(writer, bulk=False),
        created_ms=max(fold.created_ms, now_ms),
    )
    for request in requests:
        made.add(request)
    return made


def _row(header: BatchHeader) -> BatchRow:
    fields = (
        header.producer_id,
        header.crc,
        header.size,
        header.last_offset_delta,
        header.base_sequence,
        header.producer_epoch,
        header.attributes,
    )
    return tuple.__new__(BatchRow, fields)
