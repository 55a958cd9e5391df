"""Flows as one flow: what they ask for is asked for at once.

    a          put     get     put  -> done
    b          put     Wait    get     put  -> done
    together   Many    Many    Wait    Many   Many

All go step by step, so that the slowest request of a round holds up the others: it is for flows
that do about the same and share nothing. One that waits holds up none: it goes on when all that do
not wait have ended or wait as well, so that it may wait for longer than it asked for.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lakelog.errors import LakelogError
from lakelog.store.operations import AT_ONCE, Many, Op, Wait, Work

__all__ = ["isolated", "together", "tried"]

T = TypeVar("T")


@dataclass(slots=True)
class _Strand(Generic[T]):
    """One of the flows, and what it asks for."""

    index: int
    flow: Work[T]
    request: Op | Many | Wait | None = None
    left_ms: int = 0
    """If it waits: for how long."""

    def step(self, answer: Any, results: dict[int, T]) -> bool:
        """Give the flow an answer; whether it asks for more. Else its result is noted."""
        try:
            if isinstance(answer, LakelogError):
                self.request = self.flow.throw(answer)
            else:
                self.request = self.flow.send(answer)
        except StopIteration as done:
            results[self.index] = done.value
            return False
        if isinstance(self.request, Wait):
            self.left_ms = self.request.ms
        return True

    @property
    def waits(self) -> bool:
        return isinstance(self.request, Wait)

    @property
    def ops(self) -> tuple[Op, ...]:
        if isinstance(self.request, Many):
            return self.request.ops
        return () if self.request is None or isinstance(self.request, Wait) else (self.request,)

    def take(self, answers: Iterator[Any]) -> Any:
        """Return what is this flow's of all answers."""
        mine = tuple(next(answers) for _ in self.ops)
        if isinstance(self.request, Many):
            return mine
        return mine[0] if mine else None


def together(flows: Iterable[Work[T]], at_once: int = AT_ONCE) -> Work[list[T]]:
    """Run flows side by side, so many at a time, and return what they return, in their order.

    A flow is taken from ``flows`` when it begins. The first error of one ends them all.
    """
    waiting = enumerate(flows)
    strands: list[_Strand[T]] = []
    results: dict[int, T] = {}
    try:
        while True:
            while len(strands) < at_once and (found := next(waiting, None)) is not None:
                strands.append(_Strand(*found))
                if not strands[-1].step(None, results):
                    strands.pop()
            if not strands:
                return [results[index] for index in sorted(results)]
            ready = [strand for strand in strands if not strand.waits]
            if ready:
                ops = tuple(op for strand in ready for op in strand.ops)
                answers = iter((yield Many(ops)) if ops else ())
            else:
                answers = iter(())
                shortest = min(strand.left_ms for strand in strands)
                yield Wait(shortest)
                for strand in strands:
                    strand.left_ms -= shortest
                ready = [strand for strand in strands if strand.left_ms <= 0]
            ended = {one.index for one in ready if not one.step(one.take(answers), results)}
            strands = [one for one in strands if one.index not in ended]
    finally:
        for strand in strands:
            strand.flow.close()


def tried(flow: Work[T]) -> Work[T | LakelogError]:
    """Run a flow whose error is a value as well: so that it ends no other."""
    try:
        return (yield from flow)
    except LakelogError as error:
        return error


def isolated(flow: Work[T], what: str, failures: dict[str, LakelogError]) -> Work[T | None]:
    """Run a flow whose error ends no other; None: it failed, and ``failures[what]`` says why."""
    try:
        return (yield from flow)
    except LakelogError as error:
        failures[what] = error
        return None
