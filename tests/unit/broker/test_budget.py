"""A budget of bytes: who waits is called when there is room, once, and not too many at a time."""

from lakelog.broker.budget import Budget


def test_it_is_spent_when_all_of_it_is_taken() -> None:
    budget = Budget(10)
    spent = []
    for size in (9, 5, -5):
        budget.take(size)
        spent.append(budget.is_spent)
    assert spent == [False, True, False]


def test_those_who_wait_are_called_in_their_order_as_far_as_there_is_room() -> None:
    budget = Budget(10)
    called: list[int] = []

    def resume(number: int) -> None:
        called.append(number)
        budget.take(6)

    budget.take(20)
    for number in range(4):
        budget.wait(lambda number=number: resume(number))  # type: ignore[misc]
    budget.give(5)
    assert called == []
    budget.give(12)
    assert called == [0, 1]
    budget.give(6)
    assert called == [0, 1, 2]


def test_who_has_gone_is_not_called() -> None:
    budget = Budget(10)
    called: list[str] = []

    def one() -> None:
        called.append("one")

    def two() -> None:
        called.append("two")

    budget.take(10)
    budget.wait(one)
    budget.wait(two)
    budget.forget(one)
    budget.forget(one)
    budget.give(10)
    budget.give(0)
    assert called == ["two"]
