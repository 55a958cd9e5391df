"""Work by threads, where no loop runs: many requests at once, and flows side by side.

The store's library waits without holding the interpreter, and to a bucket a request takes as long
as thousands of lines of Python. So what a flow asks for at once (``Many``) is asked for by threads.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from lakelog.flows import run
from lakelog.store.drive import Perform, attempt, working
from lakelog.store.operations import Many, Op, Wait, Work

__all__ = ["run_by_threads", "working_by_threads"]

REQUESTS = 16
FLOWS = 16

T = TypeVar("T")


def working_by_threads(perform: Perform) -> Callable[[Op | Many | Wait], Any]:
    """Return what performs work: many operations at once, some at a time.

    It may be shared by flows that run side by side.
    """
    one = working(perform)
    pool = ThreadPoolExecutor(REQUESTS, thread_name_prefix="lakelog-request")

    def work(wish: Op | Many | Wait) -> Any:
        if isinstance(wish, Many) and len(wish.ops) > 1:
            return tuple(pool.map(partial(attempt, perform), wish.ops))
        return one(wish)

    return work


def run_by_threads(flows: Sequence[Work[T]], perform: Callable[[Op | Many | Wait], Any]) -> list[T]:
    """Run flows that share nothing side by side, and return what they return, in their order."""
    if len(flows) < 2:
        return [run(flow, perform) for flow in flows]
    with ThreadPoolExecutor(FLOWS, thread_name_prefix="lakelog-flow") as pool:
        return list(pool.map(lambda flow: run(flow, perform), flows))
