"""Rounds, medians and the closing line: how every figure here is taken and told."""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from tests.parts.processors import ticks

__all__ = ["Rounds", "arguments", "closing_line", "cpu_rounds", "median_ratio", "undisturbed"]

ATTEMPTS = 3
T = TypeVar("T")


def arguments(
    what: str | None, more: Callable[[argparse.ArgumentParser], object] = lambda _: None
) -> argparse.Namespace:
    """Every benchmark takes ``--quick``: the same measurement, smaller, within 50 seconds."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, less data")
    more(parser)
    return parser.parse_args()


def cpu_rounds(sides: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each side, round by round, taking turns; one unmeasured round warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds + 1):
        # The order alternates, so that neither side always finds the other's caches.
        for name in list(sides)[:: 1 if turn % 2 else -1]:
            start = time.process_time()
            sides[name]()
            if turn:
                seconds[name].append(time.process_time() - start)
    return seconds


class Rounds(NamedTuple, Generic[T]):
    """What was measured while this machine had its processors to itself."""

    found: list[T]
    disturbed: int
    """Rounds that are not among them."""


def undisturbed(measure: Callable[[], T], rounds: int, *, again: bool = True) -> Rounds[T]:
    """Measure in rounds. One in which others on the host had more than a tenth of the processors'
    time is taken again, up to three times as many in all. If not even half of what was asked for
    is undisturbed, all count.

    For what must be measured by the clock: where CPU time tells enough, ``cpu_rounds``.
    """
    calm: list[T] = []
    every: list[T] = []
    while len(calm) < rounds and len(every) < rounds * (ATTEMPTS if again else 1):
        before = ticks()
        every.append(measure())
        if not ticks().since(before).is_disturbed:
            calm.append(every[-1])
    if 2 * len(calm) < rounds:
        return Rounds(every, 0)
    return Rounds(calm, len(every) - len(calm))


def median_ratio(
    slow: list[float], fast: list[float], *, slow_work: float, fast_work: float
) -> float:
    """How many times more work a second the fast side does: the median over rounds."""
    pairs = zip(slow, fast, strict=True)
    return statistics.median((fast_work / f) / (slow_work / s) for s, f in pairs)


def closing_line(*, name: str, value: float, bar: float, **more: Any) -> NoReturn:
    """Print the one JSON object, and exit by whether the bar was reached."""
    passed = value >= bar
    figure = {"name": name, "value": round(value, 2), "bar": bar, "pass": passed, **more}
    print(json.dumps(figure))
    sys.exit(0 if passed else 1)
