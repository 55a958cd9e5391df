"""Flows of the log, driven by threads in a process that reads it; those that give Arrow, too."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from lakelog.flows import items_of
from lakelog.store import WORK, Perform, Work, run, run_by_threads, working_by_threads

if TYPE_CHECKING:
    import pyarrow as pa

    from lakelog.log.rows import Reads

__all__ = ["Driver"]

T = TypeVar("T")


class Driver:
    """Runs flows by a function that performs operations."""

    def __init__(self, perform: Perform) -> None:
        self._work = working_by_threads(perform)

    def run(self, flow: Work[T]) -> T:
        """Run one flow to its end."""
        return run(flow, self._work)

    def run_all(self, flows: Sequence[Work[T]]) -> list[T]:
        """Run flows side by side, and return what they return, in their order."""
        return run_by_threads(flows, self._work)

    def batches(self, reads: "Reads") -> "Iterator[pa.RecordBatch]":
        """Run a flow that gives Arrow batches on its way."""
        return items_of(reads, WORK, self._work)
