"""Whose request is next: the clients of each address have one turn in each turn of the loop.

    address A   ####################   one
    address B   #                      one     ---> the loop, or a thread ---> the loop again
    address C   ##                     one

A request of a few bytes may take milliseconds to answer, and a connection may send a hundred at
once. If each began as soon as it came, a client with some connections could put seconds of work
before everybody else's. So requests of one address stand in line, and between two of them the loop
looks after all others. What is decoded or encoded in a thread keeps the turn until it is done:
those threads also write to local files, for everybody.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

__all__ = ["Lines"]


class Lines:
    """The lines in which requests stand."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, who: str) -> AsyncIterator[None]:
        """Wait until it is the turn of this request of an address; keep it as short as it can be.

        Whoever has it must not wait for another request.
        """
        line = self._lines.setdefault(who, asyncio.Lock())
        async with line:
            await asyncio.sleep(0)  # Whoever comes behind stands in line now, and others go on.
            yield
