"""What the stories do not tell: limits, values, and what is hidden from whom."""

from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from lakelog.errors import InvalidInputError
from lakelog.groups import (
    Code,
    Commit,
    CommitAnswer,
    Committed,
    Delete,
    Effect,
    Group,
    GroupRules,
    Heartbeat,
    Identity,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    Listing,
    NewOffset,
    Now,
    Offer,
    Offsets,
    Reply,
    State,
    Sync,
    SyncAnswer,
    Tick,
    TopicIdPartition,
    absent,
    by_topic,
    describe,
    refusal,
    step,
)

RULES = GroupRules(initial_rebalance_delay_ms=0)
NOW = Now(0, 1_000)
HERE, THERE = TopicIdPartition(b"0" * 16, 0), TopicIdPartition(b"1" * 16, 0)


def join(member_id: str = "", new: str = "m", **changes: Any) -> Join:
    event = Join(
        ticket=1,
        member_id=member_id,
        new_member_id=new,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        offers=(Offer("range", b"meta"),),
        needs_id=False,
    )
    return replace(event, **changes)


def after(group: Group, *events: Any, rules: GroupRules = RULES) -> tuple[Group, list[Effect]]:
    effects: list[Effect] = []
    for event in events:
        group, more = step(group, event, NOW, rules)
        effects += more
    return group, effects


def stable(*names: str) -> Group:
    group, _ = after(absent("g"), *(join(new=name) for name in names), Tick())
    decided = tuple((name, b"work") for name in names)
    group, _ = after(group, Sync(member_id=names[0], generation=1, assignments=decided))
    assert group.state is State.STABLE
    return group


def last(effects: list[Effect]) -> Any:
    effect = effects[-1]
    assert isinstance(effect, Reply)
    return effect.answer


@pytest.mark.parametrize(
    "wrong",
    [
        {"session_timeout_ms_min": 0},
        {"session_timeout_ms_min": 10, "session_timeout_ms_max": 9},
        {"members_max": 0},
        {"protocols_max": 0},
        {"initial_rebalance_delay_ms": -1},
        {"consumer_heartbeat_interval_ms": 0},
        {"consumer_heartbeat_interval_ms": 45_000},
        {"partitions_max": 0},
    ],
)
def test_rules_that_nobody_could_keep_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError):
        GroupRules(**wrong)


def test_the_codes_have_the_numbers_of_kafka() -> None:
    assert (Code.UNKNOWN_MEMBER_ID, Code.REBALANCE_IN_PROGRESS) == (25, 27)
    assert (Code.MEMBER_ID_REQUIRED, Code.FENCED_INSTANCE_ID) == (79, 82)
    assert {code.value: code.name.lower() for code in Code} == {
        code.value: ErrorCode(code).name for code in Code
    }


def test_what_members_say_of_themselves_is_limited_for_all_together() -> None:
    rules = replace(RULES, protocol_bytes_max=20)
    group, _ = after(absent("g"), join(new="a"), join(new="b"), rules=rules)
    assert len(group.members) == 2
    full, effects = after(group, join(new="c"), rules=rules)
    assert last(effects).code is Code.GROUP_MAX_SIZE_REACHED
    assert full.members == group.members
    # Who is in may say as much as it did before, but not more.
    _, effects = after(group, join("a"), Tick(), rules=rules)
    assert last(effects).code is Code.NONE
    _, effects = after(group, join("a", offers=(Offer("range", b"more than before"),)), rules=rules)
    assert last(effects).code is Code.GROUP_MAX_SIZE_REACHED


def test_what_a_leader_decides_is_limited() -> None:
    group, _ = after(absent("g"), join(new="a"), Tick())
    event = Sync(member_id="a", generation=1, assignments=(("a", bytes(9)),))
    same, effects = after(group, event, rules=replace(RULES, assignment_bytes_max=9))
    assert last(effects) == SyncAnswer(code=Code.UNKNOWN_SERVER_ERROR)
    assert same == group
    _, effects = after(group, event, rules=replace(RULES, assignment_bytes_max=10))
    assert last(effects).code is Code.NONE


def test_timeouts_beyond_a_day_are_cut_and_old_clients_have_one_for_both() -> None:
    group, _ = after(absent("g"), join(new="a", rebalance_timeout_ms=2**31 - 1))
    assert group.members["a"].rebalance_timeout_ms == 86_400_000
    group, _ = after(absent("g"), join(new="a", rebalance_timeout_ms=-1))
    assert group.members["a"].rebalance_timeout_ms == 10_000


def test_an_id_that_was_given_out_is_not_for_a_static_member() -> None:
    group, _ = after(absent("g"), join(new="a", needs_id=True))
    _, effects = after(group, join("a", instance_id="i"))
    assert last(effects).code is Code.INVALID_REQUEST
    _, effects = after(group, join(new="b", instance_id="i" * 250))
    assert last(effects).code is Code.INVALID_REQUEST


def test_metadata_is_counted_in_bytes() -> None:
    def commit(said: str) -> Any:
        new = NewOffset(HERE, 1, -1, said)
        rules = replace(RULES, offset_metadata_bytes_max=4)
        return last(after(absent("g"), Commit(offsets=(new,)), rules=rules)[1]).codes

    assert commit("four") == commit("ää") == (Code.NONE,)
    assert commit("äää") == (Code.OFFSET_METADATA_TOO_LARGE,)


def test_a_commit_of_nothing_makes_no_group() -> None:
    group, effects = after(absent("g"), Commit(offsets=()))
    assert group == absent("g")
    assert effects == [Reply(0, CommitAnswer(codes=()))]


def test_a_commit_is_a_sign_of_life() -> None:
    group = stable("a")
    event = Commit(member_id="a", generation=1, offsets=(NewOffset(HERE, 1),))
    later, _ = step(group, event, Now(5_000, 6_000), RULES)
    assert later.members["a"].deadline_ms == 15_000
    assert later.offsets.get(HERE) == Committed(1, -1, "", 6_000)
    assert group.offsets.get(HERE) is None  # Whoever holds the old one sees what was then.


def test_the_last_of_two_offsets_for_one_partition_counts() -> None:
    table = Offsets().committed([NewOffset(HERE, 1), NewOffset(HERE, 2, 3, "x")], 5)
    assert table.rows == {HERE: Committed(2, 3, "x", 5)}
    assert table == Offsets.of(table.rows)
    rows = table.committed([NewOffset(THERE, 9)], 5).rows
    assert by_topic(rows) == {b"0" * 16: [0], b"1" * 16: [0]}


def test_offsets_that_stay_are_the_same_table() -> None:
    table = Offsets().committed([NewOffset(HERE, 1), NewOffset(THERE, 2)], 5)
    assert table.without(lambda *_: False) is table
    assert table.without(lambda place, _: place == HERE) == Offsets.of({THERE: table.rows[THERE]})


def test_bytes_of_members_are_shown_only_while_the_group_is_stable() -> None:
    group = stable("a", "b")
    found = describe(group)
    assert (found.state, found.protocol) == (State.STABLE, "range")
    assert [(one.metadata, one.assignment) for one in found.members] == [(b"meta", b"work")] * 2
    hidden = describe(after(group, join(new="c"))[0])
    assert (hidden.state, hidden.protocol) == (State.PREPARING, "")
    assert {(one.metadata, one.assignment) for one in hidden.members} == {(b"", b"")}
    assert group.listing == Listing("g", "consumer", State.STABLE)
    assert absent("x").listing == Listing("x", "", State.DEAD)


def test_nobody_expects_heartbeats_of_those_who_wait() -> None:
    group = stable("a", "b")
    group, _ = step(group, join("a", offers=(Offer("range", b"new"),)), Now(100, 0), RULES)
    assert group.next_deadline_ms == 10_000  # b's session; a waits, and the rebalance for b.
    assert absent("g").next_deadline_ms is None


def test_who_has_left_still_counts_until_the_next_generation_is_stored() -> None:
    group, _ = after(stable("a", "b"), Leave(members=(Identity("a"),)))
    assert group.durable is not None
    assert [one.id for one in group.durable.roster.members] == ["a", "b"]
    assert group.size_bytes > stable("b").size_bytes


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (join("a"), JoinAnswer(code=Code.NOT_COORDINATOR, member_id="a")),
        (Sync(member_id="a", generation=1), SyncAnswer(code=Code.NOT_COORDINATOR)),
        (Leave(members=(Identity("a"),)), LeaveAnswer(code=Code.NOT_COORDINATOR)),
        (
            Commit(offsets=(NewOffset(HERE, 1), NewOffset(THERE, 1))),
            CommitAnswer(codes=(Code.NOT_COORDINATOR,) * 2),
        ),
        (Heartbeat(member_id="a", generation=1), Code.NOT_COORDINATOR),
        (Delete(), Code.NOT_COORDINATOR),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_request_can_be_refused(request_: Any, answer: Any) -> None:
    assert refusal(request_, Code.NOT_COORDINATOR) == answer


def test_a_group_with_members_is_not_deleted() -> None:
    group = stable("a")
    same, effects = after(group, Delete(ticket=4))
    assert (same, effects) == (group, [Reply(4, Code.NON_EMPTY_GROUP)])
