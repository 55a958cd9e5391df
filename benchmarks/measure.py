"""Rounds, medians and the closing line: how every figure here is taken and told."""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

__all__ = ["arguments", "closing_line", "cpu_rounds", "median_ratio"]


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
