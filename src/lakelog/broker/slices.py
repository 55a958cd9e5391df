"""Every partition of every topic that a request names: asked a slice at a time.

A topic is looked for once, in the store if it is not known. Then so many of its partitions are
asked at the same time, and others have their turn on the loop before the next of them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from lakelog.broker.catalog import Entry
from lakelog.broker.codes import read_code
from lakelog.broker.services import Services
from lakelog.errors import LakelogError
from lakelog.wire import Fields

__all__ = ["ask_partitions"]

AT_ONCE = 64


async def ask_partitions(
    services: Services,
    topics: Iterable[Any],
    ask: Callable[[Entry | None, Any], Awaitable[Fields]],
    refuse: Callable[[Any, ErrorCode], Fields],
) -> list[Fields]:
    """Return a row for each topic, with a row for each of its partitions.

    ``ask`` answers for a partition, of a topic that may not be there; ``refuse`` says that the
    store did not tell whether it is.
    """
    found: list[Fields] = []
    for topic in topics:
        rows: list[Fields] = []
        try:
            await services.catalog.topic(str(topic.name))
        except LakelogError as error:
            rows = [refuse(one, read_code(error)) for one in topic.partitions]
        else:
            entry = services.catalog.known(str(topic.name))
            for at in range(0, len(topic.partitions), AT_ONCE):
                some = topic.partitions[at : at + AT_ONCE]
                rows += await asyncio.gather(*(ask(entry, one) for one in some))
        found.append({"name": topic.name, "partitions": rows})
    return found
