"""Budgets of bytes: who waits is called when there is room, and an address has its share."""

import pytest

from lakelog.broker.budget import Budget, Buffers, address_of


def test_it_is_spent_when_all_of_it_is_taken() -> None:
    budget = Budget(10)
    spent = []
    for size in (9, 5, -5):
        budget.take(size, "a")
        spent.append(budget.is_spent("a"))
    assert spent == [False, True, False]


def test_those_who_wait_are_called_in_their_order_as_far_as_there_is_room() -> None:
    budget = Budget(10)
    called: list[int] = []

    def resume(number: int) -> None:
        called.append(number)
        budget.take(6, "a")

    budget.take(20, "a")
    for number in range(4):
        budget.wait(lambda number=number: resume(number), "a")  # type: ignore[misc]
    budget.give(5, "a")
    assert called == []
    budget.give(12, "a")
    assert called == [0, 1]
    budget.give(6, "a")
    assert called == [0, 1, 2]


def test_who_has_gone_is_not_called() -> None:
    budget = Budget(10)
    called: list[str] = []

    def one() -> None:
        called.append("one")

    def two() -> None:
        called.append("two")

    budget.take(10, "a")
    budget.wait(one, "a")
    budget.wait(two, "a")
    budget.forget(one, "a")
    budget.forget(one, "a")
    budget.give(10, "a")
    budget.give(0, "a")
    assert called == ["two"]


def test_an_address_takes_its_share_and_the_others_find_room() -> None:
    budget = Budget(100, address_percent=50)
    budget.take(50, "greedy")
    assert budget.is_spent("greedy")
    assert not budget.is_spent("other")
    called: list[str] = []
    budget.take(50, "other")
    for who in ("greedy", "greedy", "third", "fourth"):
        budget.wait(lambda who=who: called.append(who), who)  # type: ignore[misc]
    assert budget.waiting == 4
    budget.give(50, "other")
    assert budget.waiting == 2
    assert called == ["third", "fourth"], "there is room, but not for who has its share"
    budget.give(1, "greedy")
    assert called[2:] == ["greedy", "greedy"]


def test_addresses_take_turns_when_there_is_room_for_one() -> None:
    budget = Budget(10)
    called: list[str] = []

    def resume(who: str) -> None:
        called.append(who)
        budget.take(10, who)

    budget.take(10, "x")
    for who in ("a", "a", "a", "b", "c"):
        budget.wait(lambda who=who: resume(who), who)  # type: ignore[misc]
    for who in ("x", "a", "b", "c", "a"):
        budget.give(10, who)
    assert called == ["a", "b", "c", "a", "a"]


@pytest.mark.parametrize(
    ("host", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("", "", True),
    ],
)
def test_a_client_of_ipv6_is_its_network(host: str, other: str, same: bool) -> None:
    assert (address_of(host) == address_of(other)) is same


class One:
    """Somebody whose request is not whole."""

    def __init__(self, buffers: Buffers, who: str, size: int, *, is_stopped: bool = False) -> None:
        self.buffers, self.who, self.size, self.is_stopped = buffers, who, size, is_stopped
        self.why = ""
        buffers.begin(self, who)
        buffers.count(size, who)
        buffers.fit()

    def drop(self, why: str) -> None:
        self.why = why
        self.buffers.end(self, self.who)
        self.buffers.count(-self.size, self.who)


def test_the_oldest_request_of_the_address_that_has_most_must_go() -> None:
    buffers = Buffers(100)
    honest = One(buffers, "honest", 30)
    greedy = [One(buffers, "greedy", 20, is_stopped=not at) for at in range(3)]
    assert [bool(one.why) for one in (honest, *greedy)] == [False] * 4
    late = One(buffers, "late", 20)
    assert [bool(one.why) for one in (honest, *greedy, late)] == [False, False, True, False, False]
    large = One(buffers, "large", 90)
    assert large.why
    assert buffers.used == 90
