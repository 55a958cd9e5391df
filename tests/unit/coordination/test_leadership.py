"""Who leads: taken by an epoch, told by what is stored, given up when another has announced."""

from collections.abc import Mapping

from lakelog.coordination import Leadership, Member, State, Told, View

LANES = 8
RUNS = {node: bytes([node]) * 16 for node in range(4)}


def member(node: int, epochs: Mapping[int, int] | None = None, **more: object) -> Member:
    return Member(
        node=node,
        run=RUNS[node],
        epochs=epochs or {},
        **{"state": State.SERVING, **more},  # type: ignore[arg-type]
    )


def view(*living: Member, dead: tuple[Member, ...] = ()) -> View:
    return View(living={one.node: one for one in living}, dead={one.node: one for one in dead})


def test_a_broker_alone_takes_everything_once() -> None:
    leadership = Leadership(0, LANES, {})
    seen = view(member(0))
    assert leadership.to_take(seen, serves=True) == list(range(LANES))
    for lane in range(LANES):
        leadership.took(lane, 1)
    assert leadership.to_take(seen, serves=True) == []
    assert leadership.to_drop(seen, serves=True) == []


def test_members_share_the_lanes_and_nobody_takes_anothers() -> None:
    everybody = view(*(member(node) for node in range(3)))
    taken = [Leadership(node, LANES, {}).to_take(everybody, serves=True) for node in range(3)]
    assert sorted(lane for lanes in taken for lane in lanes) == list(range(LANES))


def test_the_living_member_that_announces_the_highest_epoch_is_told() -> None:
    leadership = Leadership(0, LANES, {})
    seen = view(member(0), member(1, {3: 7}), member(2, {3: 6}))
    leadership.saw(seen)
    assert leadership.told(3, seen) == Told(1, 7)
    assert leadership.told(4, seen) is None


def test_nobody_is_told_while_a_dead_one_led_by_a_higher_epoch() -> None:
    leadership = Leadership(0, LANES, {})
    seen = view(member(0, {3: 6}), dead=(member(1, {3: 7}),))
    leadership.saw(seen)
    assert leadership.told(3, seen) is None
    later = view(member(0, {3: 8}), dead=(member(1, {3: 7}),))
    leadership.saw(later)
    assert leadership.told(3, later) == Told(0, 8)


def test_an_epoch_that_was_seen_once_is_never_undercut() -> None:
    leadership = Leadership(0, LANES, {})
    leadership.saw(view(member(1, {3: 9})))
    forgotten = view(member(0), member(2, {3: 8}))
    leadership.saw(forgotten)
    assert leadership.told(3, forgotten) is None


def test_what_is_told_of_this_broker_is_what_its_object_says() -> None:
    leadership = Leadership(0, LANES, {})
    leadership.took(3, 9)
    before = view(member(0, {3: 5}))
    leadership.saw(before)
    assert leadership.told(3, before) == Told(0, 5)


def test_a_leader_goes_on_until_another_has_announced() -> None:
    alone = view(member(0))
    leadership = Leadership(0, LANES, {})
    for lane in leadership.to_take(alone, serves=True):
        leadership.took(lane, 1)
    both = view(member(0, dict(leadership.epochs)), member(1))
    owners = leadership.owners(both, serves=True)
    moved = [lane for lane, owner in owners.items() if owner == 1]
    assert moved
    assert leadership.to_drop(both, serves=True) == []
    announced = view(member(0, dict(leadership.epochs)), member(1, {moved[0]: 2}))
    assert leadership.to_drop(announced, serves=True) == [moved[0]]
    leadership.dropped(moved[0])
    assert moved[0] not in leadership.epochs
    assert leadership.past[moved[0]] == 1


def test_who_drains_gives_up_what_others_have_taken_and_takes_nothing() -> None:
    leadership = Leadership(0, LANES, {})
    leadership.took(0, 4)
    leadership.took(1, 4)
    seen = view(member(0, {0: 4, 1: 4}, state=State.DRAINING), member(1, {0: 5}))
    assert leadership.to_take(seen, serves=False) == []
    assert leadership.to_drop(seen, serves=False) == [0]


def test_a_lane_that_another_has_announced_meanwhile_is_taken_again() -> None:
    leadership = Leadership(0, LANES, {})
    both = view(member(0), member(1))
    mine = leadership.to_take(both, serves=True)
    for lane in mine:
        leadership.took(lane, 3)
    assert leadership.to_take(both, serves=True) == []
    late = view(member(0, {mine[0]: 3}), member(1, {mine[0]: 3}))
    assert leadership.to_take(late, serves=True) == [mine[0]]


def test_a_new_run_takes_its_lanes_by_epochs_above_its_past() -> None:
    leadership = Leadership(0, LANES, dict.fromkeys(range(LANES), 5))
    alone = view(member(0))
    assert leadership.to_take(alone, serves=True) == list(range(LANES))
    leadership.took(0, 5)
    assert 0 in leadership.to_take(alone, serves=True)
    leadership.took(0, 6)
    assert 0 not in leadership.to_take(alone, serves=True)
