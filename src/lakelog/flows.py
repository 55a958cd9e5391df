"""Flows: generators that yield what they need as values, and are sent the answers.

    run, run_async   to the end, by a function that performs what is asked for
    through          as a part of another flow: each request becomes a flow of its own
    Items            one that also yields what it finds: the next item, and on the way its requests

An error by remedy is thrown into the flow that asked, which may know what to do about it; any other
is a bug or a cancellation, and ends it.
"""

from collections.abc import Awaitable, Callable, Generator, Iterator
from types import UnionType
from typing import Any, Generic, TypeVar

from lakelog.errors import LakelogError

__all__ = ["Items", "asked_for", "items_of", "run", "run_async", "through"]

T = TypeVar("T")
W = TypeVar("W")
V = TypeVar("V")

Ask = Callable[[Any], Generator[V, Any, Any]]
"""Makes a flow out of a request: it returns the answer."""


Wishes = type | UnionType | tuple[type, ...]


def run(flow: Generator[W, Any, T], perform: Callable[[W], Any]) -> T:
    """Run ``flow`` to its end and return what it returns."""
    answer: Any = None
    error: LakelogError | None = None
    try:
        while True:
            try:
                wish = flow.send(answer) if error is None else flow.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result
            try:
                answer, error = perform(wish), None
            except LakelogError as raised:
                answer, error = None, raised
    finally:
        error = None  # Its traceback knows this frame: nobody must need to find that circle.
        flow.close()


async def run_async(flow: Generator[W, Any, T], perform: Callable[[W], Awaitable[Any]]) -> T:
    """Run ``flow`` to its end on the running loop and return what it returns."""
    answer: Any = None
    error: LakelogError | None = None
    try:
        while True:
            try:
                wish = flow.send(answer) if error is None else flow.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result
            try:
                answer, error = await perform(wish), None
            except LakelogError as raised:
                answer, error = None, raised
    finally:
        error = None  # As above.
        flow.close()


def through(flow: Generator[Any, Any, T], ask: Ask[V]) -> Generator[V, Any, T]:
    """Run ``flow`` as a part of another one, which asks for what it needs by ``ask``."""
    answer: Any = None
    error: LakelogError | None = None
    try:
        while True:
            try:
                wish = flow.send(answer) if error is None else flow.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result
            answer = error = None  # What was read is let go before more is.
            try:
                answer = yield from ask(wish)
            except LakelogError as raised:
                error = raised
    finally:
        error = None
        flow.close()


def asked_for(wish: V) -> Generator[V, Any, Any]:
    """Ask for a thing as it is: for a part of a flow that asks for the same things."""
    return (yield wish)


class Items(Generic[V]):
    """What a flow finds, one item after the other. What it asks for is of the types ``wishes``."""

    __slots__ = ("_ask", "_flow", "_wishes")

    def __init__(self, flow: Generator[Any, Any, Any], wishes: Wishes, ask: Ask[V]) -> None:
        self._flow, self._wishes, self._ask = flow, wishes, ask

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
            if not isinstance(item, self._wishes):
                return item
            try:
                answer = yield from self._ask(item)
            except LakelogError as raised:
                error = raised


def items_of(
    flow: Generator[Any, Any, Any], wishes: Wishes, perform: Callable[[Any], Any]
) -> Iterator[Any]:
    """Yield what a flow finds, and perform what it asks for on the way."""

    def each(item: Any) -> Generator[Any, Any, Any]:
        if isinstance(item, wishes):
            return perform(item)
        yield item

    return through(flow, each)
