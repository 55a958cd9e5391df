"""Who should own what: everybody says the same, nobody has too much, and little moves."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.coordination import LOAD_MAX, owners_of

NODES = st.sets(st.integers(0, 2**31 - 1), min_size=1, max_size=20)


@given(NODES, st.integers(1, 64))
def test_loads_are_bounded_and_nobody_is_idle(nodes: set[int], lanes: int) -> None:
    owners = owners_of(nodes, lanes, "lane")
    assert sorted(owners) == list(range(lanes))
    loads = {node: list(owners.values()).count(node) for node in nodes}
    assert sum(loads.values()) == lanes
    assert max(loads.values()) <= math.ceil(LOAD_MAX * lanes / len(nodes))
    if lanes >= len(nodes):
        assert min(loads.values()) >= 1


@given(NODES, st.integers(1, 64))
def test_it_does_not_depend_on_the_order_of_members(nodes: set[int], lanes: int) -> None:
    assert owners_of(sorted(nodes), lanes, "lane") == owners_of(sorted(nodes)[::-1], lanes, "lane")


def test_without_members_nobody_owns_anything() -> None:
    assert owners_of((), 8, "lane") == {}


def test_shards_do_not_follow_lanes() -> None:
    assert owners_of(range(5), 64, "lane") != owners_of(range(5), 64, "shard")


@pytest.mark.parametrize(("brokers", "lanes"), [(3, 8), (10, 64), (100, 1024)])
def test_a_member_that_goes_takes_little_more_than_its_own_with_it(
    brokers: int, lanes: int
) -> None:
    nodes = set(range(brokers))
    before = owners_of(nodes, lanes, "lane")
    moves = ideal = 0
    for gone in range(min(brokers, 10)):
        after = owners_of(nodes - {gone}, lanes, "lane")
        moves += sum(after[lane] != owner for lane, owner in before.items())
        ideal += sum(owner == gone for owner in before.values())
        assert owners_of(nodes - {gone} | {gone}, lanes, "lane") == before
    assert moves <= 3 * ideal


def test_a_change_costs_little_at_100_brokers_and_1024_lanes() -> None:
    owners_of(range(101), 1024, "lane")
    begun = time.process_time()
    owners_of(set(range(101)) - {50}, 1024, "lane")
    assert time.process_time() - begun < 0.05
