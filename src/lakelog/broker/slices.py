"""Every partition of every topic that a request names: asked a slice at a time.

A topic is looked for once, in the store if it is not known. Then so many of its partitions are
asked at the same time, and others have their turn on the loop before the next of them. A partition
is asked once, however often it is named, and a lane is looked at once for all its partitions.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from lakelog.broker.allowance import is_spent
from lakelog.broker.catalog import Entry
from lakelog.broker.codes import read_code
from lakelog.broker.lanes import LaneWriter
from lakelog.broker.services import Services
from lakelog.broker.supervision import awaited
from lakelog.broker.turns import in_turns
from lakelog.errors import LakelogError
from lakelog.wire import Fields

__all__ = ["Looks", "ask_partitions"]

AT_ONCE = 64


class Looks:
    """The looks at lanes that one request takes: one for each, whatever it asks."""

    def __init__(self) -> None:
        self._looks: dict[LaneWriter, asyncio.Task[None]] = {}

    async def at(self, lane: LaneWriter) -> None:
        """Know where a lane ends, by a look that began with the request or later.

        Raises:
            LakelogError: there was no answer.
        """
        look = self._looks.get(lane)
        if look is None:
            look = self._looks[lane] = awaited(lane.refresh())
        await asyncio.shield(look)


async def ask_partitions(
    services: Services,
    topics: Iterable[Any],
    ask: Callable[[Entry | None, Any], Awaitable[Fields]],
    refuse: Callable[[Any, ErrorCode], Fields],
    *,
    named_twice: ErrorCode = ErrorCode.none,
) -> list[Fields]:
    """Return a row for each topic, with a row for each of its partitions.

    ``ask`` answers for a partition, of a topic that may not be there; ``refuse`` says why one is
    not asked: the store did not tell whether the topic is there, the request has asked for enough,
    or it is ``named_twice`` and that has a code. Else it is asked as it was named last.
    """
    wanted: dict[str, dict[int, Any]] = {}
    again: set[tuple[str, int]] = set()
    async for topic in in_turns(topics):
        named = wanted.setdefault(str(topic.name), {})
        for one in topic.partitions:
            if one.partition_index in named and named_twice is not ErrorCode.none:
                again.add((str(topic.name), one.partition_index))
            named[one.partition_index] = one
    found: list[Fields] = []
    async for name, named in in_turns(wanted.items()):
        partitions = list(named.values())
        rows: list[Fields] = []
        try:
            await services.catalog.topic(name)
        except LakelogError as error:
            rows = [refuse(one, read_code(error)) for one in partitions]
        else:
            entry = services.catalog.known(name)
            for at in range(0, len(partitions), AT_ONCE):
                some = partitions[at : at + AT_ONCE]
                if is_spent():
                    rows += [refuse(one, ErrorCode.leader_not_available) for one in some]
                    continue
                rows += await asyncio.gather(
                    *(
                        _refused(refuse(one, named_twice))
                        if (name, one.partition_index) in again
                        else ask(entry, one)
                        for one in some
                    )
                )
        found.append({"name": name, "partitions": rows})
    return found


async def _refused(row: Fields) -> Fields:
    return row
