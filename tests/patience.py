"""What a test says when a machine was too slow for it, and not the log wrong.

    in_time(time.monotonic() < deadline, "nothing has been deleted")

A neighbour who takes the processor away makes any limit too short. So a test that was late is run
again, twice at most, and the run says so (``--reruns`` in pyproject.toml); of the end-to-end tests
that run beside each other, when nothing else does (tests/e2e/late.py). Whatever else fails stays
failed: a record that is lost once is lost, and so is a wake-up. Therefore what comes by
itself is waited for, and what has not come after a minute is a failure and not late:

    await until(lambda: len(reports) == 2)
    answer = await asyncio.wait_for(client.answer(), HANGS_S)
"""

import asyncio
import inspect
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

__all__ = ["HANGS_S", "LateError", "heard", "in_time", "until"]

HANGS_S = 60.0
"""No machine is so slow: what takes longer does not come at all."""

_LOOK_S = 0.002


class LateError(AssertionError):
    """Something has not come, or not enough of it, in the time it was given."""


def in_time(is_so: bool, otherwise: object) -> None:
    """Assert what depends on how fast the machine is."""
    if not is_so:
        raise LateError(otherwise)


def heard(asked: Iterable["Future[Any]"], within_s: float = HANGS_S) -> None:
    """Wait for the answers of somebody else's part, such as a real Kafka, which may be late.

    Those of lakelog are waited for as they are: one that does not come is wrong.
    """
    for one in asked:
        try:
            one.result(timeout=within_s)
        except TimeoutError as error:
            raise LateError(f"no answer after {within_s} s") from error


async def until(is_so: Callable[[], object]) -> None:
    """Wait for what comes by itself: look again and again, awaiting the answer if need be.

    Raises:
        TimeoutError: it does not come, which is no matter of patience.
    """
    async with asyncio.timeout(HANGS_S):
        while True:
            found = is_so()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(_LOOK_S)
