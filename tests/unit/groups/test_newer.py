"""What the stories do not tell of the newer groups: limits, and what is asked of other bytes."""

import struct
from dataclasses import replace
from typing import Any

import pytest

from lakelog.coordination import encode_group
from lakelog.groups import (
    EXPRESSIONS_MAX,
    Code,
    ConsumerAnswer,
    ConsumerGroup,
    ConsumerHeartbeat,
    GroupRules,
    Kind,
    Now,
    Reply,
    State,
    TopicIdPartition,
    TopicShape,
    absent,
    advance,
    preferred_assignor,
    refusal,
    step,
)
from lakelog.groups.subscriptions import decode_subscription

RULES = GroupRules()
NOW = Now(0, 1_000)
TOPIC = bytes(16)


def join(member_id: str = "a", **changes: Any) -> ConsumerHeartbeat:
    event = ConsumerHeartbeat(
        ticket=1,
        member_id=member_id,
        epoch=0,
        rebalance_timeout_ms=60_000,
        names=("t",),
        owned=frozenset(),
        topics={"t": TopicShape(TOPIC, 2)},
    )
    return replace(event, **changes)


def answer_to(
    event: ConsumerHeartbeat, group: Any = None, rules: GroupRules = RULES
) -> tuple[Any, ConsumerAnswer]:
    after, effects = advance(absent("g") if group is None else group, event, NOW, rules)
    reply = effects[-1]
    assert isinstance(reply, Reply)
    assert isinstance(reply.answer, ConsumerAnswer)
    return after, reply.answer


@pytest.mark.parametrize(
    "wrong",
    [
        {"member_id": " "},
        {"member_id": "m" * 250},
        {"instance_id": ""},
        {"instance_id": "i" * 250},
        {"rack_id": ""},
        {"rack_id": "r" * 250},
        {"epoch": -3},
    ],
)
def test_ids_are_limited_and_not_empty(wrong: dict[str, Any]) -> None:
    after, answer = answer_to(join(**wrong))
    assert answer.code is Code.INVALID_REQUEST
    assert after == absent("g")


def test_what_members_say_of_themselves_is_limited_for_all_together() -> None:
    rules = replace(RULES, protocol_bytes_max=2_000)
    group, answer = answer_to(join("a"), rules=rules)
    assert answer.code is Code.NONE
    long = tuple(f"{number:0100}" for number in range(20))
    for event in (join("b", names=long), replace(join("a"), epoch=1, names=long)):
        after, answer = answer_to(event, group, rules)
        assert answer.code is Code.GROUP_MAX_SIZE_REACHED
        assert after == group


def test_a_group_has_so_many_different_expressions_and_members_may_share_them() -> None:
    every = {f"t{at}": frozenset({"t"}) for at in range(EXPRESSIONS_MAX + 1)}
    group: Any = None
    for at in range(EXPRESSIONS_MAX):
        group, answer = answer_to(join(f"m{at}", regex=f"t{at}", matches=every), group)
        assert answer.code is Code.NONE
    another = join("x", regex=f"t{EXPRESSIONS_MAX}", matches=every)
    after, answer = answer_to(another, group)
    assert answer.code is Code.GROUP_MAX_SIZE_REACHED
    assert after == group
    _, answer = answer_to(replace(another, regex="t0"), group)
    assert answer.code is Code.NONE
    member = group.roster.members["m0"]
    changes = replace(another, member_id="m0", epoch=member.epoch)
    _, answer = answer_to(changes, group)
    assert answer.code is Code.NONE, "one goes and one comes"


def test_an_id_is_not_taken_from_a_member_by_the_name_of_another() -> None:
    group, _ = answer_to(join("a"))
    group, _ = answer_to(join("b", instance_id="i"), group)
    away = replace(join("b"), epoch=-2, instance_id="i", names=None, owned=None)
    group, _ = answer_to(away, group)
    _, answer = answer_to(join("a", instance_id="i"), group)
    assert answer.code is Code.INVALID_REQUEST


def test_a_rebalance_timeout_beyond_a_day_is_cut() -> None:
    group, _ = answer_to(join(rebalance_timeout_ms=2**31 - 1))
    assert group.roster.members["a"].rebalance_timeout_ms == 86_400_000


def test_a_name_may_take_twelve_bytes_for_each_character() -> None:
    wave = "\N{WATER WAVE}" * 200
    group, _ = answer_to(join(wave, instance_id=wave, client_id=wave, regex=""))
    assert len(encode_group(group.durable)) <= group.size_bytes


def test_between_equals_the_first_assignor_by_name_is_preferred() -> None:
    group, _ = answer_to(join("a", assignor="uniform"))
    assert preferred_assignor(group.roster) == "uniform"
    group, _ = answer_to(join("b", assignor="range"), group)
    assert preferred_assignor(group.roster) == "range"
    assert preferred_assignor(ConsumerGroup(id="g").roster) == "uniform"


def test_a_listing_tells_the_kind() -> None:
    group, _ = answer_to(join())
    assert group.listing == ("g", "consumer", State.STABLE, Kind.CONSUMER)
    assert absent("g").listing == ("g", "", State.DEAD, Kind.CLASSIC)


def test_a_classic_group_by_itself_knows_nothing_of_the_newer_protocol() -> None:
    _, effects = step(absent("g"), join(), NOW, RULES)
    assert effects == (Reply(1, refusal(join(), Code.GROUP_ID_NOT_FOUND)),)


def test_an_assignment_is_told_again_when_everything_is_told() -> None:
    group, _ = answer_to(join())
    mine = frozenset({TopicIdPartition(TOPIC, 0), TopicIdPartition(TOPIC, 1)})
    quiet = ConsumerHeartbeat(member_id="a", epoch=1, topics=join().topics)
    assert answer_to(quiet, group)[1].assignment is None
    for some in ({"names": ("t",)}, {"owned": mine}, {"rebalance_timeout_ms": 60_000}):
        assert answer_to(replace(quiet, **some), group)[1].assignment is None
    whole = replace(quiet, names=("t",), owned=mine, rebalance_timeout_ms=60_000)
    assert answer_to(whole, group)[1].assignment == mine


# ---------------------------------------------------------------------------- subscriptions


def subscription(*names: bytes) -> bytes:
    texts = b"".join(struct.pack(f">h{len(name)}s", len(name), name) for name in names)
    return struct.pack(">hi", 3, len(names)) + texts + b"what later versions add"


def test_a_subscription_is_read_as_consumers_write_it() -> None:
    assert decode_subscription(subscription()) == frozenset()
    assert decode_subscription(subscription(b"t", b"orders")) == frozenset({"t", "orders"})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\1",
        struct.pack(">hi", 1, -1),
        struct.pack(">hi", 1, 2**31 - 1),
        struct.pack(">hih", 1, 1, -1),
        struct.pack(">hih", 1, 1, 5) + b"t",
        subscription(b"\xff"),
    ],
)
def test_bytes_of_others_are_no_subscription(data: bytes) -> None:
    assert decode_subscription(data) is None
