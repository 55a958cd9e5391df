"""Flows: generators that yield what they need as values, and are sent the answers.

    through          a flow as a part of another one: each request becomes a flow of its own
    run, run_async   a flow to its end, by a function that performs what is asked for
    Items            a flow that also yields what it finds: the next item, and its requests

A ``LakelogError`` is thrown into the flow that asked, which may know what to do about it; any other
exception is a bug or a cancellation, and ends the flow.
"""

import types
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any, Generic, TypeVar

from lakelog.errors import LakelogError

__all__ = ["Items", "asked_for", "items_of", "run", "run_async", "through"]

T = TypeVar("T")
R = TypeVar("R")
V = TypeVar("V")

Ask = Callable[[Any], Generator[V, Any, Any]]
"""Makes a flow out of a request: it returns the answer."""

Types = type | types.UnionType | tuple[type, ...]
"""What ``isinstance`` takes."""


def through(flow: Generator[Any, Any, T], ask: Ask[V]) -> Generator[V, Any, T]:
    """Run ``flow`` as a part of another one, which asks for what it needs by ``ask``."""
    answer: Any = None
    error: LakelogError | None = None
    try:
        while True:
            try:
                request = flow.send(answer) if error is None else flow.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result
            answer = error = None  # What was read is let go before more is.
            try:
                answer = yield from ask(request)
            except LakelogError as raised:
                error = raised
    finally:
        error = None  # Its traceback refers to this frame: a circle that only the collector ends.
        flow.close()


def run(flow: Generator[R, Any, T], perform: Callable[[R], Any]) -> T:
    """Run ``flow`` to its end and return what it returns."""
    steps = items_of(flow, object, perform)  # Whatever it yields is a request.
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result


async def run_async(flow: Generator[R, Any, T], perform: Callable[[R], Awaitable[Any]]) -> T:
    """Run ``flow`` to its end on the running loop and return what it returns."""
    return await _awaiting(flow, perform)


@types.coroutine
def _awaiting(
    flow: Generator[R, Any, T], perform: Callable[[R], Awaitable[Any]]
) -> Generator[Any, Any, T]:
    return (yield from through(flow, lambda request: perform(request).__await__()))


def asked_for(request: V) -> Generator[V, Any, Any]:
    """Ask for a thing as it is: for a part of a flow that asks for the same things."""
    return (yield request)


class Items(Generic[V]):
    """What a flow finds, one item after the other. Its requests are of the types ``requests``."""

    __slots__ = ("_ask", "_flow", "_requests")

    def __init__(self, flow: Generator[Any, Any, Any], requests: Types, ask: Ask[V]) -> None:
        self._flow, self._requests, self._ask = flow, requests, ask

    def next(self) -> Generator[V, Any, Any]:
        """Return the next item; None when there is none left."""
        answer: Any = None
        error: LakelogError | None = None
        while True:
            try:
                item = self._flow.send(answer) if error is None else self._flow.throw(error)
            except StopIteration:
                return None
            answer = error = None
            if not isinstance(item, self._requests):
                return item
            try:
                answer = yield from self._ask(item)
            except LakelogError as raised:
                error = raised


def items_of(
    flow: Generator[Any, Any, Any], requests: Types, perform: Callable[[Any], Any]
) -> Iterator[Any]:
    """Yield what a flow finds, and perform what it asks for on the way."""

    def each(item: Any) -> Generator[Any, Any, Any]:
        if isinstance(item, requests):
            return perform(item)
        yield item

    return through(flow, each)
