"""What readers see while the owner of a lane appends to it, or learns it again.

A flow that changes the lane is driven one operation at a time. Between any two a reader asks for
everything it may ask for, on the same lane. It is told what was true before the flow began, or
something later: never less, never that nothing is known, and never an end that is too small.
"""

from collections.abc import Callable
from typing import Any

import pytest

from lakelog.errors import CorruptError, LakelogError
from lakelog.journal import Lane, Snapshot, append, follow, learn, locate_run, probe
from lakelog.names import bundle_key, checkpoint_key, head_key
from lakelog.store import Get, GetSuffix, PutIfAbsent, Work
from tests.unit.journal.script import TOPIC, Script, plain

PLACE = (TOPIC, 0)


def stepwise(script: Script, work: Work[Any], between: Callable[[], None]) -> Any:
    """Drive a flow, and let something happen before each of its operations and at its end."""
    answer: Any = None
    while True:
        try:
            if isinstance(answer, LakelogError):
                wish = work.throw(answer)
            else:
                wish = work.send(answer)
        except StopIteration as end:
            between()
            return end.value
        except LakelogError:
            between()
            raise
        between()

        def one(wish: Any = wish) -> Work[Any]:
            return (yield wish)

        try:
            answer = script.run(one())
        except LakelogError as error:
            answer = error


class Reader:
    """Somebody who reads a lane that others change."""

    def __init__(self, script: Script, lane: Lane) -> None:
        self.script, self.lane = script, lane
        self.asked, self.end = 0, lane.known.fold.end(PLACE)

    def ask(self) -> None:
        """Ask where the partition ends, and for each of its offsets."""
        known = self.lane.snapshot
        assert isinstance(known, Snapshot), "what was known is still there"
        end = known.fold.end(PLACE)
        assert end >= self.end, "an end never goes down"
        self.asked, self.end = self.asked + 1, end
        seen = self.lane.last_look
        assert seen is not None
        for offset in range(2 * seen.head.floor, end):
            found = self.script.run(locate_run(self.lane, PLACE, offset))
            assert found, f"offset {offset} of {end} is there, and was not found"


def grown(script: Script) -> Lane:
    """A lane with a partition of two records in each of ten bundles."""
    lane = script.lane()
    for number in range(10):
        script.append(lane, plain(number, 2))
    return lane


def test_a_reader_sees_the_lane_while_it_is_learned_again() -> None:
    script = Script()
    lane = grown(script)
    reader = Reader(script, lane)
    lane.forget()
    stepwise(script, learn(lane), reader.ask)
    assert reader.asked > 5


def test_a_reader_sees_the_lane_while_others_have_appended_and_its_floor_has_risen() -> None:
    """A broker idles, another process appends, a third trims: the next look learns all of it."""
    script = Script()
    lane, other = grown(script), script.learned()
    for number in range(4):
        script.append(other, plain(100 + number, 2))
    script.grow(other, 6)
    script.run(learn(other))
    reader = Reader(script, lane)

    def trim() -> None:
        script.raise_floor(12, 15)
        script.pass_ms(script.rules.grace_ms)

    script.on(GetSuffix, bundle_key(0, 10), script.before(trim))
    stepwise(script, probe(lane), reader.ask)
    assert lane.counters["floor passed walk"] == 1
    assert lane.known.fold == other.known.fold
    assert reader.asked > 7


def test_a_reader_sees_the_lane_while_it_is_appended_to_and_races_are_lost() -> None:
    script = Script()
    lane, other = grown(script), script.learned()
    reader = Reader(script, lane)
    script.on(
        PutIfAbsent,
        bundle_key(0, 10),
        script.before(lambda: script.append(other, plain(200, 2))),
    )
    script.on(PutIfAbsent, bundle_key(0, 11), script.lose_answer)
    stepwise(script, append(lane, [plain(300, 2)]), reader.ask)
    assert reader.end == 24


def test_a_reader_that_is_halfway_goes_on_when_the_lane_is_learned_again() -> None:
    """It waits for a checkpoint when the owner begins anew, and gets what it asked for."""
    script = Script()
    lane = grown(script)
    script.grow(lane, 10)
    lane.slice_indexes.clear()
    lane.slice_index = None
    script.on(Get, checkpoint_key(0, 7), script.before(lane.forget))
    found = script.run(locate_run(lane, PLACE, 3))
    assert found[0].seq == 1
    assert not lane.is_sure


def test_what_was_learned_is_not_published_before_it_is_verified() -> None:
    """The walk finds that the floor has passed it: nobody has seen what it read."""
    script = Script()
    lane = grown(script)
    before = lane.snapshot
    script.raise_floor(9, 12)
    script.pass_ms(script.rules.grace_ms)
    assert not script.run(follow(lane, 8))
    assert lane.snapshot is before
    assert not lane.is_sure


def test_a_lane_that_has_become_shorter_is_refused() -> None:
    """Somebody restored an older copy of the bucket under a running process."""
    script = Script()
    lane = grown(script)
    before = lane.snapshot
    script.delete([bundle_key(0, 9), bundle_key(0, 8)])
    lane.forget()
    with pytest.raises(CorruptError, match=r"(?s)ends at bundle 7.*has read bundle 9.*restore"):
        script.run(learn(lane))
    assert lane.snapshot is before


def test_a_look_that_began_earlier_and_ends_later_does_not_lower_the_floor() -> None:
    script = Script()
    lane = grown(script)
    old = lane.last_look
    assert old is not None
    script.raise_floor(4, 7)
    script.pass_ms(script.rules.grace_ms)
    script.run(probe(lane))
    lane.saw(old)
    assert lane.last_look is not None
    assert lane.last_look.head.floor == 4
    assert script.has(head_key(0))
