"""Cells: a change is made once, whatever gets lost on the way, and whoever else is changing it."""

from collections.abc import Callable
from typing import Any

import pytest

from lakelog.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
    TooLargeError,
    UnavailableError,
    UnsupportedError,
)
from lakelog.store import (
    CELL_BYTES_MAX,
    Changed,
    Delete,
    Get,
    MemoryStore,
    Op,
    PutIfAbsent,
    PutIfMatch,
    Wait,
    Work,
    change_cell,
    read_cell,
    run,
    working,
)

KEY = "a/cell"

Fault = Callable[[Op], Any]


class Story:
    """A store, and what happens to the puts of a cell, one after the other."""

    def __init__(self, start: bytes | None = b"") -> None:
        self.store = MemoryStore()
        self.waits: list[float] = []
        self.faults: dict[int, Fault] = {}
        self.puts: list[PutIfAbsent | PutIfMatch] = []
        self.read_faults: dict[int, Fault] = {}
        self.reads = 0
        if start is not None:
            self.store.perform(PutIfAbsent(KEY, start))

    def perform(self, op: Op) -> Any:
        if isinstance(op, Get):
            self.reads += 1
            return self.read_faults.pop(self.reads, self.store.perform)(op)
        assert isinstance(op, PutIfAbsent | PutIfMatch)
        self.puts.append(op)
        assert len(self.puts) < 500, "it runs in circles"
        return self.faults.pop(len(self.puts), self.store.perform)(op)

    def lose_request(self, _: Op) -> Any:
        raise UnavailableError("the request was lost")

    def lose_answer(self, op: Op) -> Any:
        self.store.perform(op)
        raise UnavailableError("the answer was lost")

    def change_first(self, more: bytes) -> Fault:
        """Somebody else is first."""

        def do(op: Op) -> Any:
            found = self.store.perform(Get(KEY))
            self.store.perform(PutIfMatch(KEY, found.body + more, found.info.etag))
            return self.store.perform(op)

        return do

    @property
    def body(self) -> bytes:
        body: bytes = self.store.perform(Get(KEY)).body
        return body

    def add(self, letter: bytes) -> Any:
        """Add a letter to the cell, once."""

        def alter(now: bytes | None) -> bytes | None:
            return None if now is not None and letter in now else (now or b"") + letter

        work = change_cell(KEY, alter, lambda body: letter in body)
        return run(work, working(self.perform, sleep=self.waits.append))


def test_a_cell_is_read_or_is_not_there() -> None:
    story = Story(b"x")
    found = run(read_cell(KEY), working(story.perform))
    assert found is not None
    assert found.body == b"x"
    assert run(read_cell("a/nother"), working(story.store.perform)) is None


def test_a_cell_too_large_is_not_read() -> None:
    story = Story(bytes(CELL_BYTES_MAX + 1))
    with pytest.raises(UnsupportedError):
        run(read_cell(KEY), working(story.perform))


@pytest.mark.parametrize("start", [None, b"x"], ids=["none", "some"])
def test_a_cell_is_not_made_too_large_to_be_read(start: bytes | None) -> None:
    story, most = Story(start), bytes(CELL_BYTES_MAX)
    with pytest.raises(InvalidInputError, match=f"a/cell would have {len(most) + 1} bytes"):
        run(change_cell(KEY, lambda _: most + b"x", lambda _: False), working(story.perform))
    assert not story.puts
    assert run(change_cell(KEY, lambda _: most, lambda _: False), working(story.perform)) == most
    found = run(read_cell(KEY), working(story.perform))
    assert found is not None
    assert found.body == most


@pytest.mark.parametrize("start", [None, b"", b"x"], ids=["none", "empty", "some"])
def test_a_change_is_one_read_and_one_put(start: bytes | None) -> None:
    story = Story(start)
    assert story.add(b"a") == (start or b"") + b"a"
    assert (story.body, story.reads, len(story.puts)) == ((start or b"") + b"a", 1, 1)
    assert isinstance(story.puts[0], PutIfAbsent) is (start is None)


def test_a_cell_that_needs_no_change_is_not_put() -> None:
    story = Story(b"xa")
    assert story.add(b"a") == b"xa"
    assert story.puts == []
    nothing = change_cell(KEY, lambda _: None, lambda _: False)
    assert run(nothing, working(Story(None).perform)) is None


@pytest.mark.parametrize("start", [None, b"x"])
def test_a_lost_answer_is_found_to_be_mine(start: bytes | None) -> None:
    story = Story(start)
    story.faults[1] = story.lose_answer
    assert story.add(b"a") == (start or b"") + b"a"
    assert story.body.count(b"a") == 1
    assert 0 <= story.waits[0] <= 0.1


@pytest.mark.parametrize("start", [None, b"x"])
@pytest.mark.parametrize("times", [1, 4])
def test_without_an_answer_the_same_bytes_are_put_again(start: bytes | None, times: int) -> None:
    story = Story(start)
    for number in range(times):
        story.faults[1 + number] = story.lose_request
    story.add(b"a")
    assert len(story.puts) == times + 1
    assert len({(type(put), put.body) for put in story.puts}) == 1
    assert story.body == (start or b"") + b"a"
    assert len(story.waits) == times
    assert all(wait <= 0.1 * 2**number for number, wait in enumerate(story.waits))


@pytest.mark.parametrize("start", [None, b"x"])
def test_a_store_that_never_answers_ends_a_change_and_its_outcome_is_unknown(
    start: bytes | None,
) -> None:
    story = Story(start)
    story.faults = dict.fromkeys(range(1, 400), story.lose_request)
    with pytest.raises(UnavailableError, match="10 attempts; whether one was stored is unknown"):
        story.add(b"a")
    assert len(story.puts) == 10


def test_who_comes_second_changes_what_the_first_has_made() -> None:
    story = Story(b"x")
    story.faults[1] = story.change_first(b"b")
    assert story.add(b"a") == b"xba"
    assert [put.body for put in story.puts] == [b"xa", b"xba"]


def test_a_change_that_was_built_upon_is_not_made_twice() -> None:
    """Our put was stored, its answer lost, and somebody else has added to it since."""
    story = Story(b"x")

    def stored_then_built_upon(op: Op) -> Any:
        self_answer = story.store.perform(op)
        found = story.store.perform(Get(KEY))
        story.store.perform(PutIfMatch(KEY, found.body + b"b", found.info.etag))
        raise UnavailableError(f"lost: {self_answer}")

    story.faults[1] = stored_then_built_upon
    story.add(b"a")
    assert story.body == b"xab"


def test_a_cell_that_was_made_and_removed_again_is_made_anew() -> None:
    story = Story(b"x")

    def removed(op: Op) -> Any:
        story.store.perform(Delete(KEY))
        return story.store.perform(op)

    story.faults[1] = removed
    assert story.add(b"a") == b"a"
    assert isinstance(story.puts[1], PutIfAbsent)


def test_two_who_make_a_cell_both_have_their_change() -> None:
    story = Story(None)

    def made_first(op: Op) -> Any:
        story.store.perform(PutIfAbsent(KEY, b"b"))
        return story.store.perform(op)

    story.faults[1] = made_first
    assert story.add(b"a") == b"ba"


def test_a_read_that_fails_after_a_lost_race_is_no_lost_change() -> None:
    """The second read has no answer: nothing is known, so the same put comes again."""
    story = Story(b"x")
    story.faults[1] = story.change_first(b"b")
    story.read_faults[2] = story.lose_request
    assert story.add(b"a") == b"xba"
    assert story.body == b"xba"


def test_the_first_read_that_fails_fails_the_change() -> None:
    story = Story(b"x")
    story.read_faults[1] = story.lose_request
    with pytest.raises(UnavailableError):
        story.add(b"a")
    assert story.puts == []


@pytest.mark.parametrize("start", [None, b"x"])
def test_a_change_that_the_store_refuses_is_put_once(start: bytes | None) -> None:
    story = Story(start)

    def refuse(_: Op) -> Any:
        raise TooLargeError("refused: split it")

    story.faults[1] = refuse
    with pytest.raises(TooLargeError):
        story.add(b"a")
    assert (len(story.puts), story.waits) == (1, [])


def test_who_is_always_second_gives_up_and_says_so() -> None:
    story = Story(b"x")
    for number in range(1, 200):
        story.faults[number] = story.change_first(b"b")
    with pytest.raises(ConflictError, match="retry later"):
        story.add(b"a")
    assert b"a" not in story.body
    assert len(story.puts) == 50
    assert max(story.waits) == 5
    assert story.waits == sorted(story.waits)


def test_what_alter_raises_comes_out_and_nothing_is_put() -> None:
    story = Story(b"x")

    def alter(now: bytes | None) -> bytes:
        raise NotFoundError(f"nothing to change in {now!r}")

    with pytest.raises(NotFoundError, match="nothing to change"):
        run(change_cell(KEY, alter, lambda _: False), working(story.perform))
    assert story.puts == []


def test_a_flow_of_a_change_asks_for_what_it_says() -> None:
    """Read, put, and after a lost race a wait."""
    flow: Work[bytes | None] = change_cell(KEY, lambda _: b"a", lambda body: body == b"a")
    assert isinstance(next(flow), Get)
    assert isinstance(flow.throw(NotFoundError("none")), PutIfAbsent)
    assert isinstance(flow.send(Changed()), Get)
    assert flow.throw(NotFoundError("none")) == Wait(20)
