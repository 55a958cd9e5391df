"""Fetch (key 1, versions 4 to 18).

Behaviour
    What is in memory is answered at once. Otherwise the store is read, many partitions at a time,
    through a cache that all consumers share. At least one batch is always answered, however large.
    With nothing to answer a fetch waits for its ``max_wait_ms``, and is woken by appends.
    A partition that is named twice is answered once. One fetch asks the store for so much and no
    more: what is left is answered without records, and is for the next one.
    When clients leave many answers unread there is less in an answer, and then fetches wait.
    OFFSET_OUT_OF_RANGE is said only after asking the lane and the manifest again.
    For a partition that another broker leads the answer is NOT_LEADER_OR_FOLLOWER, with its leader
    (KIP-951), after a look at the members that began with the request.
    A consumer that tells its rack is sent to the broker that reads the lane for that rack
    (KIP-392): it looks where the lane ends with each fetch, and serves consumers of its rack only.

Not done
    Followers: a fetch of a replica closes the connection. Leader epochs are not compared: nothing
    is ever truncated.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from kio.schema.errors import ErrorCode

from lakelog.broker.allowance import begin_request, is_spent
from lakelog.broker.meters import RUNNING
from lakelog.broker.partition_finder import PartitionFinder
from lakelog.broker.partitions import Partition
from lakelog.broker.services import Call, Services
from lakelog.broker.sessions import Session, Wanted, wanted_of
from lakelog.broker.supervision import awaited
from lakelog.broker.turns import in_turns
from lakelog.broker.watches import Watch
from lakelog.errors import InvalidInputError
from lakelog.formats import Bytes
from lakelog.wire import (
    FetchedPartition,
    FetchedTopic,
    FetchRequest,
    encode_fetch_response,
)

__all__ = ["Fetching"]

WAIT_MS_MAX = 300_000
IDS_FROM = 13
"""From this version on topics have ids and no names."""

COLD_AT_ONCE = 64
"""Partitions that are read from the store at the same time, for one fetch."""

AT_ONCE = 500
"""Partitions that are looked at before others have their turn on the loop."""

RESPONSE_BYTES_MIN = 1 << 20

Answer = Callable[[list[Bytes], str], None]
"""Takes the answer, and Kafka's name of the first error in it. It does not know the fetch: what
refers to itself is garbage that only a collector finds.
"""

EXPECTED = (ErrorCode.none, ErrorCode.offset_out_of_range)
"""Of a partition that is there: anything else has failed."""


class Fetching:
    """One fetch, from its request to its answer."""

    __slots__ = (
        "_address",
        "_answer",
        "_call",
        "_deadline",
        "_fail",
        "_finder",
        "_has_grown",
        "_is_full",
        "_is_unknown",
        "_least",
        "_meter",
        "_most",
        "_refused",
        "_request",
        "_reserved",
        "_services",
        "_session",
        "_task",
        "_timer",
        "_wanted",
        "_watches",
    )

    def __init__(
        self,
        services: Services,
        call: Call,
        request: FetchRequest,
        answer: Answer,
        fail: Callable[[BaseException], None],
        address: str,
    ) -> None:
        if request.replica_id >= 0:
            raise InvalidInputError(
                f"a fetch of replica {request.replica_id} is refused: brokers have no replicas"
                " here, and consumers fetch with replica id -1"
            )
        self._services, self._call, self._request = services, call, request
        self._answer, self._fail = answer, fail
        self._address = address
        self._meter = RUNNING.meter
        self._finder = PartitionFinder(services, request.rack, call)
        self._most = self._least = 0
        self._reserved = 0
        """Bytes for an answer that is being read from the store."""
        self._session: Session | None = None
        self._is_full = request.session_epoch <= 0
        self._wanted: list[tuple[Wanted, Partition | None]] = []
        self._refused: dict[tuple[str, bytes, int], FetchedPartition] = {}
        """Partitions that are not read here: nobody has them, another broker leads them or stands
        nearer, or the store did not say."""
        self._watches: list[tuple[Partition, Watch]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._deadline = 0.0
        self._is_unknown = self._has_grown = False

    def start(self) -> None:
        """Answer, or begin to wait."""
        self._guard(self._start)

    def _guard(self, step: Callable[[], None]) -> None:
        """Run a step; an error in it ends the connection, so that the client does not wait on."""
        try:
            step() if self._meter is None else self._meter.run(step)
        except Exception as error:  # noqa: BLE001 (it ends this connection, and no other)
            self._fail(error)

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        wait_ms = min(max(self._request.max_wait_ms, 0), WAIT_MS_MAX)
        self._deadline = loop.time() + wait_ms / 1000
        call, has_ids = self._call, self._call.version >= IDS_FROM
        session = self._services.sessions.find(
            self._request,
            self._services.clock.boot_ms(),
            has_ids=has_ids,
            principal=call.principal,
        )
        if isinstance(session, ErrorCode):
            self._answer(encode_fetch_response(call.version, [], error=session), "")
            return
        if session is not None and call.rules is not None:
            self._finder.verdicts = session.verdicts(call.rules)
        self._session = session
        said = sum(len(partitions) for _, _, partitions in self._request.topics)
        if max(said, 0 if session is None else len(session.wanted)) > AT_ONCE:
            self._run_in_task(self._begin_many())
            return
        for _ in self._begin():
            pass
        self._go_on()

    # What is done for each partition yields behind each: a fetch of many lets others have their
    # turn on the loop.

    def _begin(self) -> Iterator[None]:
        """Find the partitions that are known here."""
        session, find = self._session, self._finder.known
        wanted = wanted_of(self._request.topics) if session is None else session.wanted
        for one in list(wanted.values()):
            found = find(one)
            if isinstance(found, FetchedPartition):
                self._refused[one.name, one.id, one.partition.partition] = found
                found = None
            else:
                self._is_unknown = self._is_unknown or found is None
            self._wanted.append((one, found))
            yield

    async def _begin_many(self) -> None:
        async for _ in in_turns(self._begin()):
            pass
        self._go_on()

    def _go_on(self) -> None:
        if self._is_unknown:
            self._run_in_task(self._find_partitions())
        else:
            self._try()

    def cancel(self) -> None:
        """End it: the connection is closed."""
        self._stop_waiting()
        self._services.answers.forget(self._again, self._address)
        if self._task is not None:
            self._task.cancel()
        self._reserve(0)

    async def _find_partitions(self) -> None:
        """Ask for partitions that are not known or not led here."""
        begin_request()
        for at, (one, partition) in enumerate(self._wanted):
            key = one.name, one.id, one.partition.partition
            if partition is None and key not in self._refused:
                found = await self._finder.find(one)
                if isinstance(found, FetchedPartition):
                    self._refused[key] = found
                else:
                    self._wanted[at] = one, found
        self._try()

    def _missing(self, one: Wanted) -> FetchedPartition:
        """Return what is answered for a partition that is not read here."""
        return self._refused[one.name, one.id, one.partition.partition]

    # ------------------------------------------------------------------------ collecting

    def _try(self) -> None:
        """Answer from memory, or wait, or ask the store."""
        if not self._find_room():
            return
        if len(self._wanted) > AT_ONCE:
            self._run_in_task(self._collect())
            return
        parts: list[FetchedPartition] = []
        left, size, failed = self._most, 0, False
        for one, partition in self._wanted:
            if partition is None:
                parts.append(self._missing(one))
                failed = True
                continue
            asked = one.partition
            part = partition.read_now(asked.offset, max(min(asked.max_bytes, left), 0))
            if part is None:
                self._run_in_task(self._collect())
                return
            part = self._fitted(part, left)
            left -= part.size
            size += part.size
            parts.append(part)
        for _ in self._finish_or_wait(parts, size, is_final=failed):
            pass

    def _find_room(self) -> bool:
        """Say whether there is room for an answer, and find out how much; if not, wait for it."""
        answers, most = self._services.answers, self._services.settings.limits.fetch_bytes_max
        if answers.is_spent(self._address):
            answers.wait(self._again, self._address)
            return False
        # Not all of it: others come, too. And always so much that a consumer gets on.
        room = max(answers.room(self._address) // 2, RESPONSE_BYTES_MIN)
        room = room if self._meter is None else self._meter.fetch_bytes(room)
        self._most = min(max(self._request.max_bytes, 0), most, room)
        self._least = min(self._request.min_bytes, max(self._most, 1))
        return True

    def _again(self) -> None:
        """There is room for an answer."""
        self._guard(self._try)

    def _reserve(self, size: int) -> None:
        """Have so much room, and no more."""
        change, self._reserved = size - self._reserved, size
        self._services.answers.change(change, self._address)

    async def _collect(self) -> None:
        """Answer with what memory and the store have, as much as there is room for.

        A fetch of many partitions takes a slice of them after the other, and is content with what
        it has when its time is up, or when it has asked the store for enough.
        """
        begin_request()
        self._reserve(self._most)
        parts = [FetchedPartition(one.partition.partition, 0) for one, _ in self._wanted]
        loop = asyncio.get_running_loop()
        left, at = self._most, 0
        while at < len(self._wanted) and (left > 0 or left == self._most):
            late = self._most - left >= max(self._least, 1) and loop.time() >= self._deadline
            if late or is_spent():
                break
            some: list[tuple[int, Partition, int]] = []
            room, last = left, min(at + AT_ONCE, len(self._wanted))
            while at < last and len(some) < COLD_AT_ONCE:
                one, partition = self._wanted[at]
                if partition is None:
                    parts[at] = self._missing(one)
                elif room > 0 or not some:
                    most = max(min(one.partition.max_bytes, room), 0)
                    now = partition.read_now(one.partition.offset, most)
                    if now is not None:
                        parts[at] = now = self._fitted(now, left)
                        left, room = left - now.size, room - now.size
                    else:
                        some.append((at, partition, most))
                        if not partition.is_at_end(one.partition.offset):
                            room -= most
                else:
                    break
                at += 1
            reads = [
                partition.read(self._wanted[number][0].partition.offset, most)
                for number, partition, most in some
            ]
            for (number, _, _), part in zip(some, await asyncio.gather(*reads), strict=True):
                parts[number] = self._fitted(part, left)
                left -= parts[number].size
            await asyncio.sleep(0)  # Others want to go on, too.
        for number in range(at, len(self._wanted)):
            unread = self._wanted[number][1]
            if unread is not None:
                parts[number] = unread.marks()
            if not number % AT_ONCE:
                await asyncio.sleep(0)
        size = self._most - left
        failed = any(part.error for part in parts)
        await asyncio.sleep(0)
        steps = self._finish_or_wait(parts, size, is_final=failed or is_spent())
        async for _ in in_turns(steps):
            pass

    def _finish_or_wait(
        self, parts: list[FetchedPartition], size: int, *, is_final: bool
    ) -> Iterator[None]:
        """Answer if that is all there will be, if it is enough or the time is up; else wait."""
        is_late = asyncio.get_running_loop().time() >= self._deadline
        is_done = is_final or size >= self._least or is_late
        return self._finish(parts) if is_done else self._wait(parts)

    def _fitted(self, part: FetchedPartition, left: int) -> FetchedPartition:
        """Return a part without its bytes if there is no room for them: another time."""
        if part.size > left and left < self._most:
            return part._replace(pieces=[], size=0)
        return part

    # ------------------------------------------------------------------------ waiting

    def _wait(self, parts: list[FetchedPartition]) -> Iterator[None]:
        """Wait for more than there is, until a partition grows or the time is up.

        What grows meanwhile is remembered.
        """
        self._reserve(0)
        self._has_grown = False
        for (_, partition), part in zip(self._wanted, parts, strict=True):
            if partition is not None:
                watch = Watch(partition.topic_id_partition, part.high_watermark, self._woken)
                self._watches.append((partition, watch))
                partition.lane.watch(watch)
            yield
        self._timer = asyncio.get_running_loop().call_at(self._deadline, self._late)
        if self._has_grown:
            self._woken()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for partition, watch in self._watches:
            partition.lane.forget(watch)
        self._watches = []

    def _woken(self) -> None:
        self._has_grown = True
        if self._timer is not None:
            self._late()

    def _late(self) -> None:
        self._stop_waiting()
        self._guard(self._try)

    def _run_in_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = awaited(work)
        task.add_done_callback(self._ended)
        self._task = task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Give back what a task had reserved; an error in it ends the connection."""
        if task.cancelled():
            self._reserve(0)
        elif (error := task.exception()) is not None:
            self._reserve(0)
            self._fail(error)

    # ------------------------------------------------------------------------ answering

    def _finish(self, parts: list[FetchedPartition]) -> Iterator[None]:
        """Answer."""
        topics: dict[tuple[str, bytes], list[FetchedPartition]] = {}
        metrics, error_name = self._services.metrics, ""
        for (one, partition), part in zip(self._wanted, parts, strict=True):
            if partition is not None and part.error == ErrorCode.unknown_topic_or_partition:
                part = part._replace(error=self._services.catalog.gone(partition.topic))
            topics.setdefault((one.name, one.id), []).append(part)
            if partition is not None:
                counters = metrics.topic(partition.topic.name)
                counters.bytes_out += part.size
                counters.fetch_requests += 1
                counters.failed_fetch_requests += part.error not in EXPECTED
            if part.error and not error_name:
                error_name = ErrorCode(part.error).name.upper()
            yield
        found = [FetchedTopic(*key, rows) for key, rows in topics.items()]
        session = self._session
        if session is not None:
            found = session.news(found, full=self._is_full)
            yield
        size = sum(one.size for one in parts)
        session_id = session.id if session is not None else 0
        nodes = {one.leader.node_id for one in self._refused.values() if one.leader is not None}
        body = encode_fetch_response(
            self._call.version,
            found,
            throttle_ms=0 if self._meter is None else self._meter.fetched(size),
            session_id=session_id,
            endpoints=self._services.cluster.addresses(nodes, self._call.listener),
        )
        self._answer(body, error_name)
        self._reserve(0)  # The answer counts for itself now.
