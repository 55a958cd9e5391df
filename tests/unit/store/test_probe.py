"""The probe against stores that are wrong in one way each: every one is found, and named."""

import itertools
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakelog.errors import InvalidInputError, NotFoundError, UnavailableError
from lakelog.store import (
    Changed,
    Created,
    Delete,
    Exists,
    Expiry,
    ExpiryRule,
    Fetched,
    Finding,
    Get,
    GetRange,
    GetSuffix,
    Head,
    ListPage,
    MemoryStore,
    ObjectInfo,
    Op,
    Page,
    ProbeSize,
    PutIfAbsent,
    PutIfMatch,
    Replaced,
    Verdict,
    admit,
    expiry_finding,
    join_body,
    probe_store,
)

SMALL = ProbeSize(writers=3, keys=2)
CHECKS = ["create", "replace", "taken", "stale", "read", "delete"]

Bend = Callable[[MemoryStore, Op], Any]
"""Performs an operation of a memory store, in its own way."""


class Bent:
    """A store in memory whose answers go through a function."""

    url = "bent:"

    def __init__(self, bend: Bend) -> None:
        self.inner = MemoryStore()
        self._bend = bend
        self._lock = threading.Lock()

    def perform(self, op: Op) -> Any:
        with self._lock:
            return self._bend(self.inner, op)

    async def perform_async(self, op: Op) -> Any:
        return self.perform(op)

    @property
    def keys(self) -> list[str]:
        return [info.key for info in self.inner.perform(ListPage()).objects]


def overwrite(store: MemoryStore, key: str, body: bytes) -> Any:
    store.perform(Delete(key))
    return store.perform(PutIfAbsent(key, body))


def in_race(op: Op) -> bool:
    """Whether it is a write of a race for a new key."""
    return isinstance(op, PutIfAbsent) and "-create-" in op.key


def found(bend: Bend, size: ProbeSize = SMALL) -> dict[str, Finding]:
    """Probe, and return what was found."""
    return {one.check: one for one in probe_store(Bent(bend), "logs/", size)}


def wrong(bend: Bend) -> dict[str, str]:
    """Return the checks that fail, with the end of what they say."""
    return {
        name: one.seen.partition(": ")[2]
        for name, one in found(bend).items()
        if one.verdict is Verdict.BAD
    }


# ---------------------------------------------------------------------------- right stores


def test_a_store_that_keeps_its_word_passes_every_check() -> None:
    findings = found(MemoryStore.perform)
    assert list(findings) == CHECKS
    assert all(one.verdict is Verdict.GOOD for one in findings.values())
    admit("memory:", list(findings.values()))


def test_what_the_probe_wrote_is_taken_away_and_nothing_else_is_touched() -> None:
    seen: list[Op] = []

    def noting(store: MemoryStore, op: Op) -> Any:
        seen.append(op)
        return store.perform(op)

    store = Bent(noting)
    store.inner.perform(PutIfAbsent("logs/ours", b"x"))
    probe_store(store, "logs/", SMALL)
    assert store.keys == ["logs/ours"]
    touched = [op.prefix if isinstance(op, ListPage) else op.key for op in seen]
    assert all(key.startswith("logs/lakelog-probe/") for key in touched)


def test_it_is_taken_away_after_a_mistake_of_ours_as_well() -> None:
    def broken(store: MemoryStore, op: Op) -> Any:
        if isinstance(op, PutIfMatch):
            raise RuntimeError("a bug")
        return store.perform(op)

    store = Bent(broken)
    with pytest.raises(RuntimeError, match="a bug"):
        probe_store(store, "", SMALL)
    assert store.keys == []


def test_all_writers_of_all_keys_are_under_way_at_the_same_moment() -> None:
    """Each waits for all others, so one that came in turn would wait in vain."""
    size = ProbeSize(writers=4, keys=3)
    meeting = threading.Barrier(size.writers * size.keys)
    calls = itertools.count()

    class Meeting(MemoryStore):
        def perform(self, op: Op) -> Any:
            if in_race(op) and next(calls) < meeting.parties:
                meeting.wait(20)
            return super().perform(op)

    findings = probe_store(Meeting(), "", size)
    assert not meeting.broken
    assert all(one.is_fine for one in findings)


def test_time_and_bytes_come_from_the_caller() -> None:
    numbers = itertools.count()
    ticks = itertools.count()
    store = MemoryStore()
    kept: list[Op] = []

    def noting(inner: MemoryStore, op: Op) -> Any:
        kept.append(op)
        return store.perform(op)

    findings = probe_store(
        Bent(noting),
        "",
        SMALL,
        unique=lambda size: next(numbers).to_bytes(size, "big"),
        now_s=lambda: float(next(ticks)),
    )
    keys = {op.key for op in kept if not isinstance(op, ListPage)}
    assert all(key.startswith("lakelog-probe/" + "0" * 32) for key in keys)
    assert all(one.took_s >= 1 and one.took_s == int(one.took_s) for one in findings)


# ---------------------------------------------------------------------------- wrong stores


def test_a_store_that_ignores_the_condition_of_a_create_has_many_winners() -> None:
    def bend(store: MemoryStore, op: Op) -> Any:
        return (
            overwrite(store, op.key, join_body(op.body))
            if isinstance(op, PutIfAbsent)
            else store.perform(op)
        )

    told = wrong(bend)
    assert set(told) == {"create", "taken"}
    assert told["create"] == "3 of 3 racing writers were told that they won"
    assert "overwritten" in told["taken"]


def test_a_store_that_ignores_etags_has_many_winners() -> None:
    def bend(store: MemoryStore, op: Op) -> Any:
        if isinstance(op, PutIfMatch):
            return Replaced(etag=overwrite(store, op.key, op.body).etag)
        return store.perform(op)

    assert set(wrong(bend)) == {"replace", "stale"}


def test_a_store_that_stores_what_it_refuses_is_found() -> None:
    def bend(store: MemoryStore, op: Op) -> Any:
        answer = store.perform(op)
        if isinstance(answer, Exists) and isinstance(op, PutIfAbsent):
            overwrite(store, op.key, join_body(op.body))
        return answer

    assert wrong(bend)["create"] == "a writer was told that it won, and the bytes are not its own"


def test_a_store_that_refuses_what_it_stores_is_found() -> None:
    def bend(store: MemoryStore, op: Op) -> Any:
        answer = store.perform(op)
        return Exists() if isinstance(answer, Created) and in_race(op) else answer

    told = "a writer was told that it came too late, and its bytes are there"
    assert wrong(bend)["create"] == told


def test_a_store_that_says_exists_where_nothing_is_is_found() -> None:
    def bend(store: MemoryStore, op: Op) -> Any:
        if in_race(op):
            return Exists()
        return store.perform(op)

    assert "nobody's bytes are there" in wrong(bend)["create"]


def test_a_store_that_keeps_other_bytes_is_found() -> None:
    def bend(store: MemoryStore, op: Op) -> Any:
        return store.perform(PutIfAbsent(op.key, b"?") if isinstance(op, PutIfAbsent) else op)

    assert "create" in wrong(bend)


def test_a_store_that_refuses_every_replacement_is_found() -> None:
    def bend(store: MemoryStore, op: Op) -> Any:
        return Changed() if isinstance(op, PutIfMatch) else store.perform(op)

    told = wrong(bend)
    assert "nobody's bytes are there" in told["replace"]
    assert told["stale"] == "the right etag was refused"


def test_a_store_without_etags_is_found() -> None:
    def bend(store: MemoryStore, op: Op) -> Any:
        answer = store.perform(op)
        if isinstance(answer, Created):
            return Created(etag="")
        if isinstance(answer, Fetched):
            return replace(answer, info=replace(answer.info, etag=""))
        return answer

    assert set(wrong(bend)) == {"replace", "stale"}


def lagging(kind: type[Op], blind: Callable[[Op, Any], Any]) -> Bend:
    """A store whose reads of one kind do not see the objects of the check of reads."""

    def bend(store: MemoryStore, op: Op) -> Any:
        answer = store.perform(op)
        return blind(op, answer) if isinstance(op, kind) else answer

    return bend


def _gone(op: Any, answer: Any) -> Any:
    if "-read-" in op.key:
        raise NotFoundError("an old answer")
    return answer


def _not_listed(op: Any, page: Any) -> Any:
    return Page(objects=tuple(one for one in page.objects if "-read-" not in one.key), more=False)


def _short(op: Any, answer: Any) -> Any:
    return replace(answer, body=answer.body[:-1])


def _empty(op: Any, answer: ObjectInfo) -> Any:
    return replace(answer, size=0)


@pytest.mark.parametrize(
    ("bend", "name"),
    [
        (lagging(Get, _gone), "get"),
        (lagging(GetRange, _gone), "range"),
        (lagging(GetRange, _short), "range"),
        (lagging(GetSuffix, _short), "suffix"),
        (lagging(Head, _gone), "head"),
        (lagging(Head, _empty), "head"),
        (lagging(ListPage, _not_listed), "list"),
    ],
)
def test_a_read_that_does_not_see_a_write_is_found(bend: Bend, name: str) -> None:
    assert wrong(bend) == {"read": f"{name} does not show what was written before it"}


def test_a_listing_that_begins_too_early_is_found() -> None:
    def bend(store: MemoryStore, op: Op) -> Any:
        return store.perform(ListPage(op.prefix) if isinstance(op, ListPage) else op)

    assert wrong(bend)["read"] == "list behind it does not show what was written before it"


def test_a_delete_that_does_nothing_is_found() -> None:
    def bend(store: MemoryStore, op: Op) -> Any:
        return None if isinstance(op, Delete) else store.perform(op)

    assert wrong(bend) == {"delete": "an object that was deleted is still there"}


# ---------------------------------------------------------------------------- no answers


def losing(every: int, kind: Any = PutIfAbsent | PutIfMatch, *, stores: bool = True) -> Bend:
    """A store that loses one answer of so many, after or before it has done what was asked."""
    count = itertools.count(1)

    def bend(store: MemoryStore, op: Op) -> Any:
        lost = isinstance(op, kind) and next(count) % every == 0
        answer = store.perform(op) if stores or not lost else None
        if lost:
            raise UnavailableError("no answer: retry")
        return answer

    return bend


@pytest.mark.parametrize("stores", [True, False])
@pytest.mark.parametrize("every", [4, 5, 7])
def test_a_store_that_loses_answers_is_not_called_wrong(every: int, stores: bool) -> None:
    size = ProbeSize(writers=4, keys=6)
    store = Bent(losing(every, stores=stores))
    findings = probe_store(store, "", size)
    assert Verdict.BAD not in [one.verdict for one in findings]
    assert store.keys == []


def test_a_winner_whose_answer_was_lost_is_found_by_its_bytes() -> None:
    def bend(store: MemoryStore, op: Op) -> Any:
        answer = store.perform(op)
        if isinstance(answer, Created) and in_race(op):
            raise UnavailableError("no answer: retry")
        return answer

    assert found(bend)["create"].verdict is Verdict.GOOD


@pytest.mark.parametrize("stores", [True, False])
def test_a_store_that_never_answers_is_unknown_and_no_more_is_tried(stores: bool) -> None:
    findings = found(losing(1, Op, stores=stores))
    assert list(findings) == ["create", "replace"]
    with pytest.raises(UnavailableError, match="probe again when it answers"):
        admit("bent:", list(findings.values()))


def test_a_read_that_fails_once_is_repeated() -> None:
    failed: set[str] = set()

    def bend(store: MemoryStore, op: Op) -> Any:
        if isinstance(op, Get) and op.key not in failed:
            failed.add(op.key)
            raise UnavailableError("no answer: retry")
        return store.perform(op)

    assert all(one.verdict is Verdict.GOOD for one in found(bend).values())
    assert failed


def test_a_refusal_is_told_as_it_is() -> None:
    def bend(store: MemoryStore, op: Op) -> Any:
        raise InvalidInputError("access denied: check credentials")

    findings = found(bend)
    assert {one.verdict for one in findings.values()} == {Verdict.REFUSED}
    with pytest.raises(InvalidInputError, match="access denied: check credentials"):
        admit("bent:", list(findings.values()))


def test_a_place_where_nothing_can_be_written_is_told() -> None:
    def bend(store: MemoryStore, op: Op) -> Any:
        if isinstance(op, PutIfAbsent):
            raise NotFoundError("nothing there: check the bucket")
        return store.perform(op)

    assert {one.verdict for one in found(bend).values()} == {Verdict.REFUSED}


# ---------------------------------------------------------------------------- values


def test_what_is_wrong_comes_before_what_is_unknown() -> None:
    unknown = Finding(check="a", verdict=Verdict.UNANSWERED, seen="nothing", next_step="again")
    bad = Finding(check="b", verdict=Verdict.BAD, seen="two winners", next_step="use another")
    with pytest.raises(InvalidInputError) as raised:
        admit("s3://bucket", [unknown, bad])
    assert str(raised.value) == "s3://bucket: b: two winners: use another"


def test_rules_that_are_not_known_do_not_keep_a_store_from_being_used() -> None:
    rule = ExpiryRule(id="old", prefix="")
    for rules, verdict in ((None, Verdict.UNCHECKED), ((), Verdict.GOOD), ((rule,), Verdict.BAD)):
        finding = expiry_finding(Expiry(rules=rules, said="so"), 2.0)
        assert (finding.verdict, finding.seen, finding.took_s) == (verdict, "so", 2.0)
        assert finding.is_fine is (verdict is not Verdict.BAD)


@pytest.mark.parametrize(("writers", "keys"), [(1, 5), (0, 5), (257, 5), (3, 0), (3, 1001)])
def test_a_probe_has_a_size_at_which_it_says_something(writers: int, keys: int) -> None:
    with pytest.raises(InvalidInputError, match="use 2 to 256 writers"):
        ProbeSize(writers=writers, keys=keys)


def test_a_probe_is_made_below_a_folder() -> None:
    with pytest.raises(InvalidInputError, match="does not end in '/'"):
        probe_store(MemoryStore(), "logs")
