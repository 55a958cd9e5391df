"""How long producers went without an acknowledgement, by their history."""

from collections.abc import Collection
from itertools import pairwise

from tests.cluster.history import History

__all__ = ["gaps", "until_served"]


def until_served(history: History, since: float, partitions: Collection[int]) -> list[float]:
    """Return how long each producer waited in each partition: from a moment to the first
    acknowledgement of what it sent after it; infinity if there is none.
    """
    producers = sorted({value.partition(":")[0] for value in history.sent})
    first = {(one, at): float("inf") for one in producers for at in partitions}
    for value, acked in history.acked.items():
        where = (value.partition(":")[0], acked.partition)
        if where in first and history.sent[value].at >= since:
            first[where] = min(first[where], acked.at - since)
    return list(first.values())


def gaps(history: History, since: float, until: float, partitions: Collection[int]) -> list[float]:
    """Return the longest time between two acknowledgements of each producer in each partition."""
    times: dict[tuple[str, int], list[float]] = {}
    for value, acked in history.acked.items():
        if acked.partition in partitions and since <= acked.at <= until:
            where = (value.partition(":")[0], acked.partition)
            times.setdefault(where, [since]).append(acked.at)
    return [max(b - a for a, b in pairwise([*sorted(one), until])) for one in times.values()]
