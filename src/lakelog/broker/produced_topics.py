"""The topics of a Produce request: known, to be asked for, or not for this client.

That a client may not write to one is said before anybody is asked whether it is there.
"""

from collections.abc import Sequence

from kio.schema.errors import ErrorCode
from structlog.typing import FilteringBoundLogger

from lakelog.broker.codes import read_code
from lakelog.broker.request_items import find_entry
from lakelog.broker.services import Call, Services
from lakelog.broker.topic_entry import Entry
from lakelog.broker.turns import in_turns
from lakelog.errors import LakelogError
from lakelog.security import Operation
from lakelog.wire import ProduceRequest, ProduceTopic

__all__ = ["DENIED", "Found", "find_topics", "known_topics"]

DENIED = ErrorCode.topic_authorization_failed

Found = Entry | ErrorCode | None
"""None: there is none, or none is known; a code: it may not be written to, or nothing is known."""


def known_topics(services: Services, call: Call, request: ProduceRequest) -> list[Found]:
    """Return the topics of a request, as far as they are in memory."""
    entry = services.catalog.entry
    return [_judged(call, topic, entry(topic.name, topic.id)) for topic in request.topics]


def _judged(call: Call, topic: ProduceTopic, entry: Entry | None) -> Found:
    """Return a topic if it may be written to. By its id it is judged when it is known."""
    name = topic.name if entry is None else entry.topic.name
    return entry if not name or call.may_topic(Operation.WRITE, name) else DENIED


async def find_topics(
    services: Services,
    call: Call,
    request: ProduceRequest,
    known: Sequence[Found],
    log: FilteringBoundLogger,
) -> list[Found]:
    """Return the topics of a request; but for those that may not be written to they are asked for
    if they are not known by now.
    """
    found: list[Found] = []
    async for topic, entry in in_turns(zip(request.topics, known, strict=True)):
        if entry is DENIED:
            found.append(DENIED)
            continue
        try:
            asked = await find_entry(services, call, topic.name, topic.id)
            found.append(_judged(call, topic, asked))
        except LakelogError as error:
            log.warning("the store did not say whether a topic exists", error=str(error))
            found.append(read_code(error))
    return found
