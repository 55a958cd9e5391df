"""Bulk writes: many objects and several lanes, and all of it is in the log once, or nothing.

    stage      tasks put batches beside the log, under the id of this *attempt*
    decide     the cell of the *write* (which query, which batch of it) names the attempt that
               counts: the first that gets there, and no other, ever
    append     a small bundle for each lane, whose slices point at what was staged; several, if
               there are more runs than one should have
    finish     the cell says that all lanes have it

                      absent ----> committed(A) ----> finished(A)
                         \\            ^
      somebody bars A     `--> open --' by an attempt that is not barred
                            (barred: A)

Everything after the decision can be done by anybody, and twice: a lane that has the write knows it.
A driver that died is finished by the next one of the same write, or by maintenance. Before the
decision nothing is to be seen; an attempt that will not be decided for is *barred* first, and swept
afterwards, so that nobody decides for bytes that are going.

**Numbers go up.** A batch of a streaming query is decided when those before it are finished. Later
their cells are deleted, which removes their fence: whoever slept could decide such a batch again.
So whoever has decided looks whether there is a later batch: then the decision means nothing.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as fields_of
from hashlib import blake2b
from typing import NamedTuple

from lakelog.errors import ConflictError, CorruptError, NotFoundError, UnavailableError
from lakelog.formats import Bytes, decode_fields, decoding, number
from lakelog.formats.lanes import Slice
from lakelog.journal import (
    CommitWrite,
    Lane,
    Refused,
    Stored,
    append,
    floor_holds,
    look,
    read_bundle,
)
from lakelog.log.staging import (
    PLAN_BYTES_MAX,
    Identity,
    Page,
    Staged,
    decode_plan,
    encode_plan,
)
from lakelog.names import COMMITS_PREFIX, commit_key, commit_of, plan_key, staged_key
from lakelog.store import (
    Get,
    Head,
    Work,
    ask,
    ask_many,
    change_cell,
    list_objects,
    put_named,
    read_cell,
)

__all__ = [
    "Committed",
    "Decision",
    "abandon_write",
    "commit_write",
    "finish_write",
    "read_decision",
]

FORMAT = 1
BARRED_MAX = 1_000
LOOKED_BACK_MAX = 1_000
"""Bundles in which a write is looked for that an earlier driver has appended."""


class Committed(NamedTuple):
    """A write that is in the log."""

    write: bytes
    """The attempt that counts."""
    is_mine: bool
    records: int
    lanes: dict[int, int]
    """The lanes that it touches, and a seq of each: it is there, or before."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The cell of a write."""

    is_stream: bool
    write: bytes = b""
    """The attempt that counts; empty: none does as yet."""
    decided_ms: int = 0
    barred: tuple[bytes, ...] = ()
    """Attempts that never will."""
    records: int = -1
    """-1: not every lane has it."""
    lanes: tuple[tuple[int, int], ...] = ()

    @property
    def is_finished(self) -> bool:
        return self.records >= 0

    def encode(self) -> bytes:
        fields = {
            "format": FORMAT,
            "is_stream": self.is_stream,
            "write": self.write.hex(),
            "decided_ms": self.decided_ms,
            "barred": [one.hex() for one in self.barred],
            "records": self.records,
            "lanes": self.lanes,
        }
        return json.dumps(fields).encode()


_FIELDS = frozenset(one.name for one in fields_of(Decision))
"""Each has its name in the cell."""


def _decoded(data: Bytes, where: str) -> Decision:
    with decoding("commit", where):
        fields = decode_fields(data, format_=FORMAT, where=where, known=_FIELDS)
        return Decision(
            is_stream=bool(fields["is_stream"]),
            write=bytes.fromhex(fields["write"]),
            decided_ms=number(fields["decided_ms"]),
            barred=tuple(bytes.fromhex(one) for one in fields["barred"]),
            records=number(fields["records"]),
            lanes=tuple((number(lane), number(seq)) for lane, seq in fields["lanes"]),
        )


# ---------------------------------------------------------------------------- deciding


def read_decision(identity: Identity) -> Work[Decision | None]:
    """Return the cell of a write.

    Raises:
        CorruptError: it is no such cell.
    """
    key = commit_key(identity.query, identity.number)
    found = yield from read_cell(key)
    return None if found is None else _decoded(found.body, key)


def commit_write(
    lanes: Mapping[int, Lane],
    identity: Identity,
    write: bytes,
    staged: Sequence[Staged],
    *,
    now_ms: int,
) -> Work[Committed]:
    """Let what was staged become part of the log, all of it, unless another attempt did.

    Raises:
        ConflictError: it never will. Nothing of this attempt is in the log.
        NotFoundError: it was swept: nobody commits for so long.
        InvalidInputError: it is too large, and nothing was decided.
    """
    if not staged:
        return Committed(write, True, 0, {})
    pages = encode_plan(staged)
    yield from _finish_earlier(lanes, identity)
    for page in range(len(pages) - 1, -1, -1):
        yield from put_named(plan_key(write, page), pages[page])
    decision = yield from _decide(identity, write, now_ms)
    return (yield from finish_write(lanes, identity, decision, mine=write))


def _decide(identity: Identity, write: bytes, now_ms: int) -> Work[Decision]:
    def alter(now: Decision) -> Decision | None:
        if now.write:
            return None
        if write in now.barred:
            raise ConflictError("this attempt was given up, and is being swept: write again")
        return replace(now, write=write, decided_ms=now_ms)

    return (yield from _change(identity, alter, lambda now: now.write == write))


def abandon_write(identity: Identity, write: bytes) -> Work[bool]:
    """See to it that an attempt never counts, so that it may be swept; False if it does."""

    def alter(now: Decision) -> Decision | None:
        if now.write or write in now.barred:
            return None
        return replace(now, barred=(*now.barred, write)[-BARRED_MAX:])

    after = yield from _change(identity, alter, lambda now: write in now.barred)
    return after.write != write


def _change(
    identity: Identity,
    alter: Callable[[Decision], Decision | None],
    is_mine: Callable[[Decision], bool],
) -> Work[Decision]:
    key = commit_key(identity.query, identity.number)
    fresh = Decision(identity.is_stream)

    def altered(now: bytes | None) -> bytes | None:
        after = alter(fresh if now is None else _decoded(now, key))
        return None if after is None else after.encode()

    found = yield from change_cell(key, altered, lambda now: is_mine(_decoded(now, key)))
    return fresh if found is None else _decoded(found, key)


# ---------------------------------------------------------------------------- finishing


def finish_write(
    lanes: Mapping[int, Lane], identity: Identity, decision: Decision, *, mine: bytes = b""
) -> Work[Committed]:
    """Append what was decided for to every lane that does not have it.

    Raises:
        ConflictError: there is a later write of the query; this one means nothing.
        NotFoundError: what was staged is not there.
    """
    write = decision.write
    yield from _check_newest(identity)
    if not decision.is_finished:
        decision = yield from _append(lanes, identity, decision)
    return Committed(write, write == mine, decision.records, dict(decision.lanes))


def _finish_earlier(lanes: Mapping[int, Lane], identity: Identity) -> Work[None]:
    """See that the batch before is finished. There is no later one, so nobody decided it late."""
    numbers = yield from _check_newest(identity)
    before = max((one for one in numbers if one < identity.number), default=-1)
    if before >= 0:
        earlier = identity._replace(number=before)
        decision = yield from read_decision(earlier)
        if decision is not None and decision.write and not decision.is_finished:
            yield from finish_write(lanes, earlier, decision)


def _check_newest(identity: Identity) -> Work[list[int]]:
    """See that no later write of the query has begun; return the numbers of those that have."""
    if not identity.is_stream:
        return []
    prefix = f"{COMMITS_PREFIX}{identity.query.hex()}/"
    objects = yield from list_objects(prefix)
    numbers = [found[1] for info in objects if (found := commit_of(info.key)) is not None]
    newest = max(numbers, default=-1)
    if newest > identity.number:
        raise ConflictError(
            f"batch {identity.number} of the query, and {newest} was begun: this is an old "
            "checkpoint, or another run of the query; stop it"
        )
    return numbers


def _append(lanes: Mapping[int, Lane], identity: Identity, decision: Decision) -> Work[Decision]:
    write = decision.write
    try:
        first = yield from _read_page(write)
        yield from _check_staged(write, first.runs)
        for number_ in range(1, first.pages):
            page = yield from _read_page(write, number_)
            yield from _check_staged(write, page.runs)
    except NotFoundError:
        again = yield from read_decision(identity)
        if again is not None and again.is_finished:
            return again
        raise
    pieces: Counter[int] = Counter()
    last: dict[int, Stored] = {}
    records = 0
    for number_ in range(first.pages):
        page = first if not number_ else (yield from _read_page(write, number_))
        for lane, runs in page.runs.items():
            request = CommitWrite(
                query=_piece_query(identity.query, pieces[lane]),
                number=identity.number,
                write=write,
                decided_ms=decision.decided_ms,
                runs=runs,
            )
            last[lane] = yield from _append_piece(lanes[lane], request)
            pieces[lane] += 1
        records += page.records
    seqs: list[tuple[int, int]] = []
    for lane, stored in last.items():
        seq = (yield from _found(lanes[lane], write)) if stored.duplicate else stored.seq
        seqs.append((lane, seq))
    done = replace(decision, records=records, lanes=tuple(seqs))
    return (
        yield from _change(
            identity, lambda now: None if now.is_finished else done, lambda now: now.is_finished
        )
    )


def _append_piece(lane: Lane, request: CommitWrite) -> Work[Stored]:
    (outcome,) = yield from append(lane, [request])
    if isinstance(outcome, Refused):
        raise ConflictError(f"lane {lane.number}: {outcome.why.value}: stop this query")
    if not isinstance(outcome, Stored):
        raise UnavailableError(
            f"lane {lane.number}: the store did not answer, or this process was suspended, for so "
            "long that it is unknown whether the write is there: run the same batch again"
        )
    return outcome


def _piece_query(query: bytes, piece: int) -> bytes:
    """Return by which query a lane knows a piece of a write.

    A lane remembers one write of each query. So what is cut into pieces is, to a lane, as many
    writes, each of a query of its own; each is judged as any other, and is there once.
    """
    return blake2b(query + piece.to_bytes(4, "big"), digest_size=16).digest() if piece else query


def _read_page(write: bytes, page: int = 0) -> Work[Page]:
    found = yield from ask(Get(plan_key(write, page), PLAN_BYTES_MAX))
    return decode_plan(found.body, write, page)


def _found(lane: Lane, write: bytes) -> Work[int]:
    """Return the seq at which a lane has a write; if it is not to be seen, one behind it."""
    last = lane.next_seq - 1
    seen = yield from look(lane)
    floor = seen.head.floor
    for seq in range(last, max(floor, last - LOOKED_BACK_MAX) - 1, -1):
        held = yield from read_bundle(lane, seq)
        if held is None or not (yield from floor_holds(lane, seq)):
            return last
        if any(event.id == write for event in held.bundle.events):
            return seq
    return floor - 1 if last - floor <= LOOKED_BACK_MAX else last


def _check_staged(write: bytes, plan: Mapping[int, tuple[Slice, ...]]) -> Work[None]:
    """See that every object is there before the log says so, and is as long as it must be.

    Raises:
        NotFoundError: one is gone.
        CorruptError: one is too short.
    """
    needed: dict[str, int] = {}
    for lane, runs in plan.items():
        for run in runs:
            key, end = staged_key(write, lane, run.part), run.position + run.length
            needed[key] = max(needed.get(key, 0), end)
    answers = yield from ask_many([Head(key) for key in needed])
    for key, answer in zip(needed, answers, strict=True):
        if isinstance(answer, NotFoundError):
            raise answer
        if answer.size < needed[key]:
            what = f"it has {answer.size} of the {needed[key]} bytes that the write has staged"
            raise CorruptError(what, at=0, where=key)
