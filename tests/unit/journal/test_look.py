"""The head-check rule: when a look at the head counts, and when it has to be taken again."""

from collections.abc import Callable

import pytest

from lakelog.journal import Lane, Stored, floor_holds, look
from lakelog.model import Rules
from lakelog.names import bundle_key, head_key
from lakelog.store import Get, Op, PutIfAbsent
from tests.unit.journal.script import RULES, Clock, Script, plain

QUARTER = RULES.grace_ms // 4

Turn = Callable[[Clock], None]


def reads(script: Script) -> int:
    return sum(isinstance(op, Get) and op.key == head_key(0) for op in script.asked)


def turn(*, wall: int = 0, boot: int = 0) -> Turn:
    def do(clock: Clock) -> None:
        clock.wall += wall
        clock.boot += boot

    return do


@pytest.mark.parametrize(
    ("passes", "again"),
    [
        (turn(), False),
        (turn(wall=QUARTER - 1, boot=QUARTER - 1), False),
        (turn(wall=QUARTER, boot=QUARTER), True),
        (turn(wall=QUARTER), True),
        (turn(boot=QUARTER), True),
        (turn(wall=QUARTER * 1000), True),
        (turn(wall=-QUARTER * 1000), False),
        (turn(wall=-QUARTER * 1000, boot=QUARTER), True),
        (turn(wall=-QUARTER * 1000, boot=QUARTER - 1), False),
    ],
    ids=[
        "at once",
        "just before a quarter",
        "at a quarter",
        "suspended, and only the wall clock knows",
        "the wall clock stands",
        "the wall clock jumps ahead",
        "the wall clock is set back",
        "the wall clock is set back, and time has passed",
        "the wall clock is set back, and little time has passed",
    ],
)
def test_a_look_is_saved_for_a_quarter_of_the_grace_by_both_clocks(
    passes: Turn, again: bool
) -> None:
    script = Script()
    lane = script.lane()
    script.run(look(lane))
    passes(script.clock)
    assert script.run(floor_holds(lane, 0)) is True
    assert reads(script) == 1 + again


def test_a_look_counts_from_its_start() -> None:
    """The answer came late: what it shows is as old as the question."""
    script = Script()
    lane = script.lane()
    slow = script.before(lambda: script.pass_ms(QUARTER - 1))
    script.on(Get, head_key(0), slow)
    script.run(look(lane))
    script.run(floor_holds(lane, 0))
    assert reads(script) == 1
    script.pass_ms(1)
    script.run(floor_holds(lane, 0))
    assert reads(script) == 2


def test_a_look_that_showed_a_higher_floor_is_enough_to_say_no() -> None:
    script = Script()
    lane = script.lane()
    script.grow(lane, 8)
    script.raise_floor(6, 7)
    script.run(look(lane))
    script.pass_ms(RULES.grace_ms * 9)
    before = reads(script)
    assert script.run(floor_holds(lane, 5)) is False
    assert reads(script) == before
    assert script.run(floor_holds(lane, 6)) is True
    assert reads(script) == before + 1


def test_a_look_without_an_answer_does_not_renew_the_last_one() -> None:
    script = Script()
    lane = script.lane()
    script.run(look(lane))
    seen = lane.last_look
    script.pass_ms(QUARTER)
    script.on(Get, head_key(0), script.lose_request)
    with pytest.raises(Exception, match="lost"):
        script.run(floor_holds(lane, 0))
    assert lane.last_look is seen


# ---------------------------------------------------------------------------- at W4


def appended(script: Script, happen: Callable[[], object]) -> tuple[Lane, int]:
    """Append while something happens to the put, and return how often the head was read then."""
    lane = script.lane()
    script.append(lane, plain(1))
    before = reads(script)
    script.on(PutIfAbsent, bundle_key(0, 1), script.before(happen))
    (outcome,) = script.append(lane, plain(2))
    assert isinstance(outcome, Stored)
    return lane, reads(script) - before


def test_a_quick_put_needs_no_look() -> None:
    script = Script()
    assert appended(script, lambda: script.pass_ms(QUARTER - 1))[1] == 0


def test_a_slow_put_needs_one() -> None:
    script = Script()
    assert appended(script, lambda: script.pass_ms(QUARTER))[1] == 1


def test_a_machine_that_slept_through_its_put_needs_one() -> None:
    """The clock of the kernel stood still; the wall clock was set right when it woke."""
    script = Script()
    assert appended(script, lambda: turn(wall=QUARTER)(script.clock))[1] == 1


def test_the_look_of_w4_begins_after_the_answer_of_the_put() -> None:
    script = Script()
    lane = script.lane()
    script.append(lane, plain(1))
    script.pass_ms(QUARTER)
    before = len(script.asked)
    script.append(lane, plain(2))
    kinds: list[type[Op]] = [type(op) for op in script.asked[before:]]
    assert kinds == [PutIfAbsent, Get]


def test_the_shortest_grace_looks_always() -> None:
    """A quarter of less than 4 ms would be none: then every fact needs a look of its own."""
    script = Script(Rules(grace_ms=4, checkpoint_every=4))
    lane = script.lane()
    script.append(lane, plain(1))
    script.pass_ms(1)
    before = reads(script)
    script.append(lane, plain(2))
    assert reads(script) == before + 1
