"""A bulk write is in the log once and as a whole, or not at all, whoever dies or comes late.

The stories have three lanes, a topic with a partition in each, and producers that go on meanwhile.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from lakelog.catalog import Topic
from lakelog.errors import ConflictError, LakelogError, NotFoundError, UnavailableError
from lakelog.formats.lanes import Write
from lakelog.journal import CommitWrite, DeleteTopic, Lane, append, new_append
from lakelog.log import (
    Chunk,
    Committed,
    Identity,
    Staged,
    abandon_write,
    announce_write,
    commit_write,
    read,
    read_decision,
)
from lakelog.log.staging import RUNS_MAX, create_part
from lakelog.maintenance import BulkWriteReport, SealSettings, finish_writes, maintain
from lakelog.names import COMMITS_PREFIX, STAGED_PREFIX, commit_key
from lakelog.records import decode_batches
from lakelog.store import Delete, Op, PutIfAbsent, PutIfMatch, Work
from tests.unit.log.site import GRACE_MS, Dying, Killed, Site, cut, first, lose_answer

LANES = 3
PATIENCE_MS = 31_000
QUERY = b"q" * 16


@pytest.fixture(params=[RUNS_MAX, 2], ids=["whole", "in pieces"], autouse=True)
def runs_max(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Every story is told twice: also of writes that are cut, of which a lane gets two pieces."""
    monkeypatch.setattr("lakelog.log.staging.RUNS_MAX", request.param)
    return int(request.param)


def created(write: bytes, lane: int, window: int, body: bytes) -> Work[int]:
    """Stage an object, as a task that is tried again when it fails; return its number."""
    attempt = 0
    while True:
        try:
            return (yield from create_part(write, lane, (0, attempt, window), body))[0]
        except UnavailableError:
            attempt += 1


class Place:
    """A namespace with a topic, and what a driver of Spark does."""

    def __init__(self) -> None:
        self.site = Site(lanes=LANES)
        self.topic: Topic = self.site.topic("t", partitions=LANES)
        for partition in range(LANES):
            self.produce(partition)

    def lanes(self) -> dict[int, Lane]:
        return {number: self.site.lane(number) for number in range(LANES)}

    def produce(self, partition: int) -> None:
        request = new_append(self.topic.id, partition, self.site.batch())
        self.site.run(append(self.site.lane(self.topic.lane(partition)), [request]))

    def staged(self, write: bytes, *, rows: int = 2) -> Work[list[Staged]]:
        """Two objects for each lane, with two runs in the first."""
        runs: list[Staged] = []
        for partition in range(LANES):
            lane = self.topic.lane(partition)
            for window in range(2):
                bodies = [self.site.batch(rows) for _ in range(2 - window)]
                part = yield from created(write, lane, window, b"".join(bodies))
                at = 0
                for body in bodies:
                    (batch,) = decode_batches(body)
                    time = batch.header.max_timestamp
                    runs.append(
                        Staged(
                            lane, self.topic.id, partition, part, at, len(body), rows, time, time
                        )
                    )
                    at += len(body)
        return runs

    def attempt(
        self, number: int = 0, *, write: bytes = b"", stream: bool = True
    ) -> Work[Committed]:
        """Stage and commit, as one driver with its tasks."""
        identity, write = Identity(QUERY, number, stream), write or self.site.id()
        yield from announce_write(identity, write)
        runs = yield from self.staged(write)
        done = yield from commit_write(self.lanes(), identity, write, runs, now_ms=self.site.now_ms)
        return done

    def log(self) -> list[list[bytes]]:
        """Every record of every partition, whose offsets have no gap."""
        found = []
        for partition in range(LANES):
            lane = self.site.lane(self.topic.lane(partition))
            at, values = 0, []
            while True:
                chunk = self.site.run(read(lane, self.topic.path_of(partition), at, 1 << 20))
                assert isinstance(chunk, Chunk)
                if not chunk.body:
                    break
                for batch in decode_batches(chunk.body):
                    assert batch.header.base_offset == at
                    at = batch.header.next_offset
                    values += [one.value or b"" for one in batch.records]
            found.append(values)
        return found

    def keep(self) -> BulkWriteReport:
        flow = finish_writes(self.lanes(), now_ms=self.site.now_ms, grace_ms=GRACE_MS)
        kept = self.site.run(flow)
        assert not kept.failures, kept.failures
        return kept

    def seal(self) -> None:
        """Seal everything, and let what was staged for it go."""
        for _ in range(2):
            kept = self.site.run(maintain(self.lanes(), SealSettings(), idle=True))
            assert not kept.failures, kept.failures
            self.site.pass_ms(2 * GRACE_MS)
        assert not self.site.run(maintain(self.lanes(), SealSettings(), idle=True)).failures
        assert self.left() == set()

    def left(self) -> set[str]:
        return set(self.site.objects(STAGED_PREFIX))


BEFORE = [2] * LANES
AFTER = [2 + 3 * 2] * LANES


def counts(place: Place) -> list[int]:
    log = place.log()
    values = [value for partition in log for value in partition]
    assert max(values.count(value) for value in values) <= 2, "a batch has two equal values"
    return [len(partition) for partition in log]


def died_at_every_step(**how: Any) -> Iterator[tuple[Place, bool]]:
    """Yield places in which a driver died after 0, 1, 2, ... operations; and one where not."""
    for steps in range(1_000):
        place = Place()
        try:
            place.site.run(place.attempt(**how), Dying(place.site, steps))
        except Killed:
            yield place, False
        else:
            assert steps > 20
            yield place, True
            return


# ---------------------------------------------------------------------------- once


def test_a_write_is_in_every_lane_behind_what_was_there() -> None:
    place = Place()
    before = place.log()
    done = place.site.run(place.attempt())
    assert (done.is_mine, done.records) == (True, 9 * 2)
    after = place.log()
    assert [some[: len(old)] for some, old in zip(after, before, strict=True)] == before
    assert counts(place) == AFTER
    place.produce(0)
    assert counts(place) == [AFTER[0] + 2, *AFTER[1:]]


def test_wherever_a_driver_dies_the_keeper_leaves_all_or_nothing() -> None:
    seen = set()
    for place, _ in died_at_every_step():
        place.site.pass_ms(PATIENCE_MS)
        place.keep()
        found = counts(place)
        assert found in (BEFORE, AFTER), found
        seen.add(tuple(found))
        place.site.pass_ms(2 * GRACE_MS)
        place.keep()
        assert counts(place) == found
        assert bool(place.left()) == (found == AFTER), "what nobody committed is swept"
    assert len(seen) == 2


def test_wherever_a_driver_dies_the_next_attempt_writes_everything_once() -> None:
    for place, _ in died_at_every_step():
        place.site.run(place.attempt())
        assert counts(place) == AFTER
        place.site.run(place.attempt(1))
        assert counts(place) == [one + 6 for one in AFTER]


def test_a_driver_that_dies_again_and_again_writes_everything_once() -> None:
    for place, _ in died_at_every_step():
        for steps in (5, 25, 30, 35, 40, 45):
            try:
                place.site.run(place.attempt(), Dying(place.site, steps))
            except Killed:
                continue
        place.site.run(place.attempt())
        assert counts(place) == AFTER


def test_whichever_answer_is_lost_everything_is_written_once() -> None:
    place = Place()
    ops: list[Op] = []

    def note(op: Op) -> Any:
        ops.append(op)
        return place.site.perform(op)

    place.site.run(place.attempt(), note)
    changing = [op for op in ops if isinstance(op, PutIfAbsent | PutIfMatch)]
    assert len(changing) > 10
    for nth in range(len(changing)):
        place = Place()
        answer = lose_nth(place.site, nth)
        place.site.run(place.attempt(), answer)
        assert counts(place) == AFTER, nth


def lose_nth(site: Site, nth: int) -> Callable[[Op], Any]:
    left = [nth + 1]
    lost = lose_answer(site, (PutIfAbsent, PutIfMatch), "")  # type: ignore[arg-type]

    def perform(op: Op) -> Any:
        if isinstance(op, PutIfAbsent | PutIfMatch):
            left[0] -= 1
            if left[0] == 0:
                return lost(op)
        return site.perform(op)

    return perform


# ---------------------------------------------------------------------------- two at once


def interrupted(nth: int, do: Callable[[Place], object]) -> tuple[Place, Committed | LakelogError]:
    """Let somebody act just before the n-th operation of an attempt."""
    place = Place()
    left = [nth + 1]

    def perform(op: Op) -> Any:
        left[0] -= 1
        if left[0] == 0:
            do(place)
        return place.site.perform(op)

    try:
        return place, place.site.run(place.attempt(), perform)
    except LakelogError as error:
        return place, error


STEPS = range(60)


@pytest.mark.parametrize("nth", STEPS)
def test_of_two_attempts_at_once_one_counts_and_both_are_told_so(nth: int) -> None:
    others: list[Committed] = []
    place, mine = interrupted(nth, lambda place: others.append(place.site.run(place.attempt())))
    assert isinstance(mine, Committed)
    assert counts(place) == AFTER
    assert all(other.write == mine.write for other in others)
    assert mine.is_mine != any(other.is_mine for other in others)


@pytest.mark.parametrize("nth", STEPS)
def test_an_attempt_that_sleeps_through_its_sweep_writes_nothing(nth: int) -> None:
    """Whatever it is told, what is in the log can be read."""

    def sweep(place: Place) -> None:
        place.site.pass_ms(2 * GRACE_MS)
        place.keep()

    place, mine = interrupted(nth, sweep)
    found = counts(place)
    assert found == (AFTER if isinstance(mine, Committed) else BEFORE)
    if not isinstance(mine, Committed):
        assert isinstance(mine, ConflictError | NotFoundError), mine


@pytest.mark.parametrize("nth", STEPS)
def test_a_later_batch_makes_an_earlier_one_void(nth: int) -> None:
    """Also when the cell that would have said so is gone: that removed its fence."""

    def overtake(place: Place) -> None:
        place.site.run(place.attempt())
        place.site.run(place.attempt(1))
        place.site.perform(Delete(commit_key(QUERY, 0)))

    place, mine = interrupted(nth, overtake)
    behind = place.site.run(read_decision(Identity(QUERY, 1, True))) is not None
    assert counts(place) == ([one + 6 for one in AFTER] if behind else AFTER)
    if behind and isinstance(mine, Committed):
        assert mine.is_mine, "it was decided before"
    else:
        assert isinstance(mine, ConflictError if behind else Committed), mine


def test_the_cells_of_earlier_batches_go_and_the_last_one_stays() -> None:
    place = Place()
    for number in range(3):
        place.site.run(place.attempt(number))
    log = place.log()
    place.site.pass_ms(2 * GRACE_MS)
    place.keep()
    assert len(place.site.objects(COMMITS_PREFIX)) == 3, "nothing is sealed, all are needed"
    place.seal()
    place.keep()
    assert set(place.site.objects(COMMITS_PREFIX)) == {commit_key(QUERY, 2)}
    assert place.log() == log


# ---------------------------------------------------------------------------- given up


def test_an_attempt_that_was_given_up_is_swept_and_another_may_come() -> None:
    place = Place()
    identity, write = Identity(QUERY, 0, True), b"w" * 16
    place.site.run(announce_write(identity, write))
    runs = place.site.run(place.staged(write))
    assert place.site.run(abandon_write(identity, write))
    with pytest.raises(ConflictError):
        place.site.run(commit_write(place.lanes(), identity, write, runs, now_ms=place.site.now_ms))
    place.site.pass_ms(2 * GRACE_MS)
    assert place.keep().swept
    assert place.left() == set()
    assert counts(place) == BEFORE
    place.site.run(place.attempt())
    assert counts(place) == AFTER


def test_what_was_decided_cannot_be_given_up() -> None:
    place = Place()
    done = place.site.run(place.attempt())
    assert not place.site.run(abandon_write(Identity(QUERY, 0, True), done.write))


def test_an_attempt_without_rows_leaves_nothing() -> None:
    place = Place()
    identity = Identity(QUERY, 0, True)
    done = place.site.run(commit_write(place.lanes(), identity, b"w" * 16, [], now_ms=0))
    assert done.records == 0
    assert not place.site.objects(COMMITS_PREFIX)


def test_the_cell_of_a_batch_job_is_forgotten_after_a_day_and_that_of_a_query_is_not() -> None:
    for stream in (False, True):
        place = Place()
        place.site.run(place.attempt(stream=stream))
        place.site.pass_ms(25 * GRACE_MS)
        place.keep()
        assert place.site.objects(COMMITS_PREFIX), "what is staged is still needed"
        assert counts(place) == AFTER
        place.seal()
        place.site.pass_ms(25 * GRACE_MS)
        place.keep()
        assert bool(place.site.objects(COMMITS_PREFIX)) == stream
        assert counts(place) == AFTER


# ---------------------------------------------------------------------------- afterwards


def test_staged_objects_go_when_the_floor_has_passed_them_for_a_grace() -> None:
    place = Place()
    place.site.run(place.attempt())
    log, staged = place.log(), place.left()
    assert staged

    def pass_() -> None:
        kept = place.site.run(maintain(place.lanes(), SealSettings(), idle=True))
        assert not kept.failures

    pass_()
    assert place.left() == staged, "sealed, and somebody may still read them"
    place.site.pass_ms(GRACE_MS // 2)
    pass_()
    assert place.left() == staged
    place.site.pass_ms(GRACE_MS)
    pass_()
    assert place.left() == set()
    assert place.log() == log


def test_what_was_staged_for_a_topic_that_is_gone_is_left_out() -> None:
    place = Place()

    def delete() -> None:
        for lane in place.lanes().values():
            place.site.run(append(lane, [DeleteTopic(topic=place.topic.id)]))

    perform = first(place.site, PutIfAbsent, "/plan", delete)
    done = place.site.run(place.attempt(), perform)
    assert done.is_mine
    place.site.pass_ms(2 * GRACE_MS)
    place.keep()


def test_a_write_shares_its_bundle_with_nothing() -> None:
    place = Place()
    request = CommitWrite(query=QUERY, number=0, write=b"w" * 16, decided_ms=0, runs=())
    with pytest.raises(LakelogError, match="alone"):
        place.site.run(append(place.site.lane(), [request, request]))


def test_a_lane_that_may_have_forgotten_a_write_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.journal.fold.WRITES_MAX", 2)
    place = Place()
    lane = place.lanes()[0]
    place.site.run(append(lane, [new_append(place.topic.id, 0, place.site.batch())]))
    late = place.site.now_ms + 3_600_000
    writes = {bytes([at]) * 16: Write(bytes([at]) * 16, 0, b"w" * 16, late) for at in range(1, 3)}
    fold = replace(lane.known.fold, writes=writes)
    request = CommitWrite(
        query=QUERY, number=0, write=b"w" * 16, decided_ms=place.site.now_ms, runs=()
    )
    known = fold.judge_write(request)
    assert known is not None
    assert "nobody knows" in str(getattr(known, "value", ""))


def test_batches_of_a_write_keep_their_bytes() -> None:
    place = Place()
    place.site.run(place.attempt())
    staged = b"".join(place.site.objects(STAGED_PREFIX).values())
    for partition in range(LANES):
        lane = place.site.lane(place.topic.lane(partition))
        chunk = place.site.run(read(lane, place.topic.path_of(partition), 2, 1 << 20))
        assert isinstance(chunk, Chunk)
        for batch in cut(chunk.body):
            assert batch[21:] in staged
