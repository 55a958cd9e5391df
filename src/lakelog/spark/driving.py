"""Flows of the log, driven in a process of Spark.

What a flow asks for at once (``Many``) is asked for by threads: the store's library waits without
holding the interpreter, and to a bucket a request takes as long as thousands of lines of Python.
Flows that do not share a lane may run side by side, too.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from lakelog.errors import LakelogError
from lakelog.store import Many, Op, Perform, Wait, Work, run, working

if TYPE_CHECKING:
    from lakelog.log.rows import Reads

__all__ = ["Driver"]

REQUESTS = 16
FLOWS = 8

T = TypeVar("T")


class Driver:
    """Runs flows by a function that performs operations."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform
        self._one: Callable[[Op | Many | Wait], Any] = working(perform)

    @cached_property
    def _requests(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(REQUESTS, thread_name_prefix="lakelog-request")

    def run(self, flow: Work[T]) -> T:
        """Run one flow to its end."""
        return run(flow, self._work)

    def run_all(self, flows: Sequence[Work[T]]) -> list[T]:
        """Run flows side by side, and return what they return, in their order."""
        if len(flows) == 1:
            return [self.run(flows[0])]
        with ThreadPoolExecutor(FLOWS, thread_name_prefix="lakelog-flow") as pool:
            return list(pool.map(self.run, flows))

    def batches(self, reads: "Reads") -> Iterator[pa.RecordBatch]:
        """Run a flow that gives Arrow batches on its way."""
        answer: Any = None
        error: LakelogError | None = None
        try:
            while True:
                try:
                    item = reads.send(answer) if error is None else reads.throw(error)
                except StopIteration:
                    return
                answer = error = None
                if isinstance(item, pa.RecordBatch):
                    yield item
                    continue
                try:
                    answer = self._work(item)
                except LakelogError as raised:
                    error = raised
        finally:
            reads.close()

    def _work(self, wish: Op | Many | Wait) -> Any:
        if isinstance(wish, Many) and len(wish.ops) > 1:
            return tuple(self._requests.map(self._attempt, wish.ops))
        return self._one(wish)

    def _attempt(self, op: Op) -> Any:
        try:
            return self._perform(op)
        except LakelogError as error:
            return error
