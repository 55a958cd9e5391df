"""From a frame to an answer: which API, which handler, and what becomes of errors.

    Produce, Fetch   by hand, without a task: callbacks answer
    everything else  decoded by kio, a task for each, an answer in the fields of the newest version

Requests of one connection that change something (``CHANGING``) take effect in the order in which
they came: a handler has the turn until it returns. What it returns may be still to come, a commit
that is being stored or a rebalance that others take part in; the next one does not wait for that.
What only reads waits until those before it are done: it must not miss what they changed, and could
not be answered earlier anyway, because answers keep their order. Produce and Fetch have orders of
their own, and are not ordered with the others: a client that needs that waits for an answer.

All but Produce and Fetch begin in turns, one of each address at a time (``fair_scheduler``).

A request that cannot be read closes its connection, as in Kafka, and no other. An error that a
handler did not expect closes it as well: an answer that looks like success would be worse.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode
from structlog.typing import FilteringBoundLogger

from lakelog.broker.allowance import begin_request
from lakelog.broker.api.api_versions import api_versions_fields
from lakelog.broker.api.fetch import Fetching
from lakelog.broker.api.produce import AT_ONCE, Producing
from lakelog.broker.connection import Connection
from lakelog.broker.fair_scheduler import FairScheduler
from lakelog.broker.handlers import CHANGING, HANDLERS
from lakelog.broker.logins import Logins
from lakelog.broker.produced_topics import DENIED, Found, find_topics, known_topics
from lakelog.broker.response_slots import ResponseSlot
from lakelog.broker.secure_connection import SecureConnection
from lakelog.broker.services import Call, Services
from lakelog.broker.turns import in_turns
from lakelog.errors import CorruptError, LakelogError, UnsupportedError
from lakelog.formats import Bytes
from lakelog.wire import (
    APIS,
    ApiKey,
    FetchRequest,
    ProduceRequest,
    ProduceShape,
    RequestHeader,
    decode_fetch,
    decode_produce,
    decode_request,
    decode_request_header,
    encode_response,
    match_produce,
    response_start,
    shape_of,
)

__all__ = ["Dispatcher"]

LARGE_BYTES = 4 << 10
"""A request over this size is decoded beside the loop: an element of it may take a byte."""

LARGE_ELEMENTS = 500
"""An answer with more is encoded there."""

THROTTLED_FROM = 3
"""Of Metadata, which is written by hand."""

_CORRELATION_AT, _CORRELATION_END = 4, 8
_FETCHED_BYTES = 100
"""About how many bytes of memory a partition of a fetch takes."""


class Dispatcher:
    """Takes the frames of every connection."""

    def __init__(self, services: Services, logins: Logins, log: FilteringBoundLogger) -> None:
        self._services, self._logins = services, logins
        self._metrics = services.metrics
        self._log = log
        self._scheduler = FairScheduler()
        self._producing: list[Producing] = []
        self._time = asyncio.get_running_loop().time

    def frame(self, connection: Connection, frame: memoryview, slot: ResponseSlot) -> None:
        """Answer a request, now or later.

        Raises:
            LakelogError: this is no request that can be answered.
        """
        try:
            self._frame(connection, frame, slot)
        except LakelogError:
            raise
        except Exception as error:  # noqa: BLE001 (it ends this connection, and no other)
            self._bug(decode_request_header(frame), slot, error)

    def _frame(self, connection: Connection, frame: memoryview, slot: ResponseSlot) -> None:
        if connection.login is not None:
            assert isinstance(connection, SecureConnection)
            if self._logins.takes(connection, frame, slot):
                return
        shape = connection.shape
        if (
            shape is not None
            and connection.asking is None
            and self._produce_again(connection, shape, frame, slot)
        ):
            return
        try:
            header = decode_request_header(frame)
        except UnsupportedError:
            if len(frame) >= 8 and int.from_bytes(frame[:2], "big") == ApiKey.API_VERSIONS:
                self._tell_versions(frame, slot)
                return
            raise
        began = self._time()
        if header.api.key is ApiKey.PRODUCE:
            self._produce(connection, header, frame, slot, began)
        elif header.api.key is ApiKey.FETCH:
            self._fetch(connection, header, frame, slot, began)
        else:
            before = () if header.api.key in CHANGING else tuple(connection.changes)
            work = self._control(connection, header, frame, slot, began, before)
            slot.work = self._services.tasks.once(header.api.name, work)
            if header.api.key in CHANGING:
                connection.changes.add(slot.work)
                slot.work.add_done_callback(connection.changes.discard)

    @property
    def is_redirecting(self) -> bool:
        """Whether a producer is about to be told who leads instead."""
        return any(one.redirecting for one in self._producing if not one.is_answered)

    def sweep(self, now_ms: int) -> None:
        """Answer producers that have waited for as long as they wanted to."""
        self._producing = [one for one in self._producing if not one.expire(now_ms)]

    # ------------------------------------------------------------------------ by hand

    def _produce_again(
        self, connection: Connection, shape: ProduceShape, frame: memoryview, slot: ResponseSlot
    ) -> bool:
        """Produce what is like the last request of its connection; False: decode it in full."""
        authorizer = self._services.authorizer
        if authorizer is not None and connection.judged is not authorizer.rules.mark:
            return False
        found = match_produce(shape, frame)
        (topic,) = shape.request.topics
        entry = None if found is None else self._services.catalog.entry(topic.name, topic.id)
        if found is None or entry is None:
            return False
        index, records = found
        start = bytes(frame[_CORRELATION_AT:_CORRELATION_END]) + b"\0"
        one = Producing(
            self._services,
            shape.request,
            shape.header.version,
            start,
            slot,
            connection.address,
            connection.listener,
            self._time(),
            shape,
        )
        entry.counters.produce_requests += 1
        one.submit(entry, one.add_topic(topic.name, topic.id, (index,)), 0, index, records)
        one.count_down()
        self._producing.append(one)
        return True

    def _produce(
        self,
        connection: Connection,
        header: RequestHeader,
        frame: memoryview,
        slot: ResponseSlot,
        began: float,
    ) -> None:
        request = decode_produce(frame, header.body_at, header.version)
        start = response_start(header.api, header.version, header.correlation_id)
        begin = partial(
            Producing,
            self._services,
            request,
            header.version,
            start,
            slot,
            connection.address,
            connection.listener,
            began,
        )
        call = self._call(connection, header)
        entries = known_topics(self._services, call, request)
        connection.judged = None if call.rules is None else call.rules.mark
        is_judged = None not in entries and DENIED not in entries
        connection.shape = shape_of(frame, header, request) if is_judged else None
        size = sum(1 + len(topic.partitions) for topic in request.topics)
        if connection.asking is None and size <= AT_ONCE and None not in entries:
            producing = begin()
            for _ in producing.submit_all(request, entries):
                pass
            self._producing.append(producing)
        else:
            find = partial(find_topics, self._services, call, request, entries, self._log)
            work = self._produce_later(
                connection, connection.asking, header, request, slot, begin, find
            )
            connection.asking = slot.work = self._services.tasks.once("Produce", work)

    def _call(self, connection: Connection, header: RequestHeader) -> Call:
        """Return who asks, and by which ACLs that is judged."""
        authorizer = self._services.authorizer
        return Call(
            header.version,
            header.client_id,
            connection.host,
            connection.listener,
            connection.principal,
            None if authorizer is None else authorizer.rules,
            header.api.name,
            self._services.audit,
        )

    async def _produce_later(
        self,
        connection: Connection,
        before: asyncio.Task[None] | None,
        header: RequestHeader,
        request: ProduceRequest,
        slot: ResponseSlot,
        begin: Callable[[], Producing],
        find: Callable[[], Awaitable[list[Found]]],
    ) -> None:
        """Produce to topics that must be asked for first, or to many, behind what came before."""
        begin_request()
        if before is not None:
            await asyncio.wait((before,))
        try:
            entries = await find()
            producing = begin()
            async for _ in in_turns(producing.submit_all(request, entries)):
                pass
        except Exception as error:  # noqa: BLE001 (it ends this connection, and no other)
            self._bug(header, slot, error)
            return
        slot.work = None  # It is on its way.
        self._producing.append(producing)
        if connection.asking is asyncio.current_task():
            connection.asking = None

    def _bug(self, header: RequestHeader, slot: ResponseSlot, error: BaseException) -> None:
        """End a connection for an error that no handler expected."""
        name, version = header.api.name, header.version
        self._metrics.api(name).count(0.0, "UNKNOWN_SERVER_ERROR")
        self._log.error(
            "a bug",
            client_id=header.client_id,
            api=name,
            api_key=int(header.api.key),
            version=version,
            error=repr(error),
            exc_info=error,
        )
        slot.fail(f"{name} ended in an unexpected error, which is a bug: see the log")

    def _fetch(
        self,
        connection: Connection,
        header: RequestHeader,
        frame: memoryview,
        slot: ResponseSlot,
        began: float,
    ) -> None:
        request = decode_fetch(frame, header.body_at, header.version)
        slot.parsed(_memory_of(request))
        start = response_start(header.api, header.version, header.correlation_id)

        def answer(body: list[Bytes], error: str) -> None:
            self._metrics.api("Fetch").count(self._time() - began, error)
            slot.answer([start, *body])

        fail = partial(self._bug, header, slot)
        fetching = Fetching(
            self._services,
            self._call(connection, header),
            request,
            answer,
            fail,
            connection.address,
        )
        slot.work = fetching
        fetches = connection.fetches
        fetches.append(fetching)

        def sent() -> None:
            fetches.popleft()
            if fetches and not connection.is_lost:
                fetches[0].start()

        slot.sent = sent
        if len(fetches) == 1:
            fetching.start()

    # ------------------------------------------------------------------------ by kio

    async def _control(
        self,
        connection: Connection,
        header: RequestHeader,
        frame: memoryview,
        slot: ResponseSlot,
        began: float,
        before: tuple[asyncio.Task[None], ...],
    ) -> None:
        key, version, name = int(header.api.key), header.version, header.api.name
        call = self._call(connection, header)
        begin_request()
        try:
            if before:
                await asyncio.wait(before)
            async with connection.in_turn if key in CHANGING else nullcontext():
                async with self._scheduler.turn(connection.address):
                    body = frame[header.body_at :]
                    if len(body) > LARGE_BYTES:
                        request = await asyncio.to_thread(decode_request, key, version, body)
                    else:
                        request = decode_request(key, version, body)
                del frame, body  # It may wait for minutes, and all that came with it would stay.
                fields = await HANDLERS[key](self._services, call, request)
            if not isinstance(fields, bytes | dict):
                fields = await fields
            self._services.audit.changed(call, key, request, fields)
            if throttle_ms := slot.throttle_ms():
                fields = _throttled(fields, version, throttle_ms)
            if isinstance(fields, bytes):
                answer = fields
            elif _count(fields, LARGE_ELEMENTS) > LARGE_ELEMENTS:
                async with self._scheduler.turn(connection.address):
                    answer = await asyncio.to_thread(encode_response, key, version, fields)
            else:
                answer = encode_response(key, version, fields)
        except (CorruptError, UnsupportedError) as error:
            slot.fail(f"{name} {version}: {error}")
        except LakelogError as error:
            self._log.warning("a request failed", api=name, version=version, error=str(error))
            slot.fail(f"{name}: {error}")
        except Exception as error:  # noqa: BLE001 (it ends this connection, and no other)
            self._bug(header, slot, error)
        else:
            error_code = "" if isinstance(fields, bytes) else _error(fields)
            self._metrics.api(name).count(self._time() - began, error_code)
            start = response_start(header.api, version, header.correlation_id)
            slot.answer([start, answer])

    def _tell_versions(self, frame: memoryview, slot: ResponseSlot) -> None:
        """Answer a version of ApiVersions that is not known, in the oldest one."""
        fields = api_versions_fields()
        fields["error_code"] = ErrorCode.unsupported_version
        body = encode_response(ApiKey.API_VERSIONS, 0, fields)
        correlation_id = int.from_bytes(frame[_CORRELATION_AT:_CORRELATION_END], "big", signed=True)
        slot.answer([response_start(APIS[ApiKey.API_VERSIONS], 0, correlation_id), body])


def _memory_of(request: FetchRequest) -> int:
    """Return about how many bytes a fetch holds while it waits."""
    topics = sum(len(one.name) + _FETCHED_BYTES * len(one.partitions) for one in request.topics)
    forgotten = sum(len(name) + _FETCHED_BYTES * len(few) for name, _, few in request.forgotten)
    return _FETCHED_BYTES + topics + forgotten + len(request.rack)


def _count(fields: Any, most: int) -> int:
    """Return how many elements an answer has; with more than so many the rest is not counted."""
    count = 0
    for value in fields.values():
        if isinstance(value, dict):
            count += _count(value, most - count)
        elif isinstance(value, list | tuple):
            count += len(value)
            for one in value:
                if count > most or not isinstance(one, dict):
                    break
                count += _count(one, most - count)
        if count > most:
            break
    return count


def _throttled(fields: bytes | dict[str, Any], version: int, throttle_ms: int) -> Any:
    """Return an answer that says for how long its connection is not read."""
    if not isinstance(fields, bytes):
        return {**fields, "throttle_time": throttle_ms}
    # Metadata, which begins with it.
    return throttle_ms.to_bytes(4, "big") + fields[4:] if version >= THROTTLED_FROM else fields


def _error(fields: dict[str, Any]) -> str:
    code = fields.get("error_code", ErrorCode.none)
    return "" if code is ErrorCode.none else str(code.name)
