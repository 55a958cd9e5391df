"""A namespace is made once, whoever dies or races, and opened by everybody."""

import json
from dataclasses import replace
from typing import Any

import pytest

from lakelog.catalog import Namespace, add_lanes, make_namespace, open_namespace
from lakelog.errors import (
    ConflictError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from lakelog.journal import Head, encode_head
from lakelog.log import store_now
from lakelog.model import Rules
from lakelog.names import CLUSTER_KEY, head_key
from lakelog.store import Delete, PutIfAbsent, PutIfMatch
from lakelog.store import Head as HeadOp
from tests.unit.log.site import Dying, Killed, Site, first, lose_answer

RULES = Rules(lanes=3, grace_ms=1234, checkpoint_every=7)
ME, OTHER = bytes(15) + b"\1", bytes(15) + b"\2"


@pytest.fixture
def site() -> Site:
    return Site(made=False)


def test_what_is_made_is_what_everybody_opens(site: Site) -> None:
    made = site.run(make_namespace(ME, RULES))
    assert site.run(open_namespace()) == made == Namespace(id=ME, rules=RULES)
    assert set(site.objects()) == {CLUSTER_KEY, *map(head_key, range(3))}


def test_a_second_maker_is_told_and_changes_nothing(site: Site) -> None:
    site.run(make_namespace(ME, RULES))
    before = site.objects()
    with pytest.raises(ConflictError, match="use it, or choose another folder"):
        site.run(make_namespace(OTHER, Rules(lanes=9)))
    assert site.objects() == before


def test_a_second_maker_does_not_bring_a_lost_head_back(site: Site) -> None:
    """A head with floor 0 would bring everything back that was ever deleted."""
    site.run(make_namespace(ME, RULES))
    site.perform(Delete(head_key(1)))
    with pytest.raises(ConflictError):
        site.run(make_namespace(OTHER, RULES))
    assert head_key(1) not in site.objects()


@pytest.mark.parametrize("steps", range(5))
def test_a_maker_that_died_is_finished_by_the_next(site: Site, steps: int) -> None:
    with pytest.raises(Killed):
        site.run(make_namespace(ME, RULES), Dying(site, steps))
    assert CLUSTER_KEY not in site.objects()
    assert site.run(make_namespace(OTHER, RULES)).id == OTHER
    assert site.run(open_namespace()).id == OTHER
    assert set(site.objects()) == {CLUSTER_KEY, *map(head_key, range(3))}


def test_where_the_cluster_stands_every_lane_has_had_its_head(site: Site) -> None:
    """The last thing that is written is what others look for."""
    for steps in range(20):
        try:
            site.run(make_namespace(ME, RULES), Dying(site, steps))
        except Killed:
            heads = set(map(head_key, range(3)))
            assert CLUSTER_KEY not in site.objects() or heads <= set(site.objects())
        else:
            break
    else:
        pytest.fail("it never ended")


def test_a_head_that_is_in_use_is_left_as_it_is(site: Site) -> None:
    used = encode_head(Head(lane=1, floor=5, checkpoint=7))
    site.perform(PutIfAbsent(head_key(1), used))
    site.run(make_namespace(ME, RULES))
    assert site.objects()[head_key(1)] == used


def test_a_maker_whose_answer_was_lost_knows_its_own(site: Site) -> None:
    made = site.run(make_namespace(ME, RULES), lose_answer(site, PutIfAbsent, CLUSTER_KEY))
    assert made.id == ME
    assert site.run(make_namespace(ME, RULES)).id == ME


def test_of_two_makers_one_wins(site: Site) -> None:
    def other() -> None:
        site.run(make_namespace(OTHER, RULES))

    with pytest.raises(ConflictError):
        site.run(make_namespace(ME, RULES), first(site, PutIfAbsent, CLUSTER_KEY, other))
    assert site.run(open_namespace()).id == OTHER


@pytest.mark.parametrize("steps", range(9))
def test_lanes_are_added_head_first_wherever_it_is_killed(site: Site, steps: int) -> None:
    site.run(make_namespace(ME, RULES))
    try:
        site.run(add_lanes(6), Dying(site, steps))
    except Killed:
        lanes = site.run(open_namespace()).rules.lanes
        assert lanes == 3 or set(map(head_key, range(lanes))) <= set(site.objects())
        site.run(add_lanes(6))
    assert site.run(open_namespace()) == Namespace(id=ME, rules=replace(RULES, lanes=6))
    assert set(site.objects()) == {CLUSTER_KEY, *map(head_key, range(6))}


def test_of_two_who_add_lanes_the_one_that_wants_more_is_heard(site: Site) -> None:
    site.run(make_namespace(ME, RULES))

    def other() -> None:
        site.run(add_lanes(9))

    grown = site.run(add_lanes(6), first(site, PutIfMatch, CLUSTER_KEY, other))
    assert grown.rules.lanes == site.run(open_namespace()).rules.lanes == 9


def test_lanes_that_were_added_in_a_lost_answer_are_added_once(site: Site) -> None:
    site.run(make_namespace(ME, RULES))
    grown = site.run(add_lanes(6), lose_answer(site, PutIfMatch, CLUSTER_KEY))
    assert grown.rules.lanes == 6


@pytest.mark.parametrize("lanes", [0, 2, 1025])
def test_there_are_never_fewer_lanes_nor_too_many(site: Site, lanes: int) -> None:
    site.run(make_namespace(ME, RULES))
    before = site.objects()
    with pytest.raises(InvalidInputError):
        site.run(add_lanes(lanes))
    assert site.objects() == before


def test_where_there_is_none_one_is_told_how_to_make_one(site: Site) -> None:
    with pytest.raises(NotFoundError, match="lakelog init"):
        site.run(open_namespace())


GOOD = {"format": 1, "id": ME.hex(), "lanes": 4, "grace_ms": 60000, "checkpoint_every": 64}


WRONG: list[dict[str, Any]] = [
    {"id": "xyz"}, {"id": 7}, {"id": "00"}, {"lanes": 0}, {"lanes": 5000}, {"lanes": []},
    {"lanes": float("inf")}, {"lanes": 2.5}, {"lanes": "4"}, {"lanes": True}, {"grace_ms": 0},
    {"checkpoint_every": 0}, {"checkpoint_every": float("nan")},
]  # fmt: skip
NOISE = [b"", b"{", b"[]", b"7", b'"x"', b"\xff\xfe", b"[" * 100_000]


@pytest.mark.parametrize(
    "body",
    [
        *NOISE,
        *(json.dumps({**GOOD, **wrong}).encode() for wrong in WRONG),
        *(json.dumps({k: v for k, v in GOOD.items() if k != name}).encode() for name in GOOD),
    ],
)
def test_what_is_no_namespace_is_refused(site: Site, body: bytes) -> None:
    site.perform(PutIfAbsent(CLUSTER_KEY, body))
    with pytest.raises(CorruptError, match=r"cluster\.json"):
        site.run(open_namespace())


def test_a_namespace_of_a_later_version_asks_for_a_newer_reader(site: Site) -> None:
    later: dict[str, Any] = {**GOOD, "format": 2}
    site.perform(PutIfAbsent(CLUSTER_KEY, json.dumps(later).encode()))
    with pytest.raises(UnsupportedError, match="newer"):
        site.run(open_namespace())


# ---------------------------------------------------------------------------- time


def test_the_time_is_the_stores_and_nothing_is_left_behind(site: Site) -> None:
    assert site.run(store_now(site.id)) == site.now_ms
    site.pass_ms(1234)
    assert site.run(store_now(site.id)) == site.now_ms
    assert site.objects() == {}


def test_the_time_is_when_the_object_was_made_and_not_when_it_was_looked_at(site: Site) -> None:
    """Too early is safe for who waits before deleting; too late is not."""
    then = site.now_ms
    late = first(site, HeadOp, "", lambda: site.pass_ms(5000))
    assert site.run(store_now(site.id), late) == then
