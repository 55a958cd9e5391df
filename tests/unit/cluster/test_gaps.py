"""How long producers waited is told by what they wrote."""

from tests.cluster.gaps import gaps, until_served
from tests.cluster.history import History


def history() -> History:
    """A producer that is answered every second, but for four seconds of partition 1."""
    found = History()
    for number in range(20):
        partition = number % 2
        late = 4 if partition and 8 <= number < 12 else 0
        found.take(["sent", number, "a", number, partition])
        found.take(["acked", number + 0.5 + late, "a", number, partition, number // 2])
    return found


def test_waiting_ends_with_the_answer_to_what_was_sent_afterwards() -> None:
    assert until_served(history(), 8.6, [0]) == [10.5 - 8.6]
    assert until_served(history(), 8.6, [1]) == [13.5 - 8.6]


def test_one_that_is_never_answered_waits_for_ever() -> None:
    assert until_served(history(), 100.0, [0]) == [float("inf")]


def test_the_longest_time_without_an_answer_is_a_gap() -> None:
    assert gaps(history(), 0.0, 19.5, [0]) == [2.0]
    assert gaps(history(), 0.0, 19.5, [1]) == [13.5 - 7.5]
