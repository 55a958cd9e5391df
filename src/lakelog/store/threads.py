"""Work by threads, where no loop runs: many requests at once, and flows side by side.

The store's library waits without holding the interpreter, and to a bucket a request takes as long
as thousands of lines of Python. So what a flow asks for at once (``Many``) is asked for by threads.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from lakelog.flows import run
from lakelog.store.drive import Perform, working
from lakelog.store.operations import Many, Op, Wait, Work

__all__ = ["run_by_threads", "working_by_threads"]

REQUESTS = 16
FLOWS = 16

T = TypeVar("T")


def working_by_threads(perform: Perform) -> Callable[[Op | Many | Wait], Any]:
    """Return what performs work: many operations at once, some at a time.

    It may be shared by flows that run side by side.
    """
    pool = ThreadPoolExecutor(REQUESTS, thread_name_prefix="lakelog-request")

    def many(attempt: Callable[[Op], Any], ops: Sequence[Op]) -> Iterable[Any]:
        return pool.map(attempt, ops) if len(ops) > 1 else map(attempt, ops)

    return working(perform, many=many)


def run_by_threads(flows: Sequence[Work[T]], perform: Callable[[Op | Many | Wait], Any]) -> list[T]:
    """Run flows that share nothing side by side, and return what they return, in their order."""
    if len(flows) < 2:
        return [run(flow, perform) for flow in flows]
    with ThreadPoolExecutor(FLOWS, thread_name_prefix="lakelog-flow") as pool:
        return list(pool.map(lambda flow: run(flow, perform), flows))
