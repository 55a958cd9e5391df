"""Produce (key 0, versions 3 to 13).

Behaviour
    acks=0 gets no answer; its connection ends when something was not stored, as Kafka does it.
    acks=1 and acks=all both wait until the bundle is stored.
    One batch for each partition, as Kafka since version 3. It is stored as it came. Its CRC and
    header are checked, and that its bytes can hold the records that it claims; its records are not
    looked at, except that they have keys on compacted topics, beside the loop and in turns.
    A second copy of an idempotent batch is answered with the offset of the first.
    When nothing is known of the outcome the answer is REQUEST_TIMED_OUT, on which clients retry.
    For a partition that another broker leads the answer is NOT_LEADER_OR_FOLLOWER, with its leader
    (KIP-951), after a look at the members that began with the request.

One owner
    A request hands its batches to their lanes, and owns its answer (``Producing``). Whether its
    time is up is asked there alone: by the sweep of the broker, and by lanes, which do not store
    what has been answered as unknown.

Not done
    Transactions: a transactional id is refused. Recompression: ``compression.type`` is the
    pipeline's business.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from crc32c import crc32c
from kio.schema.errors import ErrorCode

from lakelog.broker.codes import REFUSALS, batch_code, read_code
from lakelog.broker.metrics.counters import TopicCounters
from lakelog.broker.partitions import Partition
from lakelog.broker.request_items import find_partition
from lakelog.broker.response_slots import ResponseSlot
from lakelog.broker.services import Services
from lakelog.broker.topic_entry import Entry
from lakelog.errors import LakelogError, UnavailableError
from lakelog.journal import Append, Outcome, Refusal, Refused, Stored, Unknown, new_append
from lakelog.model import TimestampType
from lakelog.records import CRC_START, LENGTH_END, without_keys
from lakelog.wire import (
    Produced,
    ProduceRequest,
    ProduceShape,
    answer_again,
    encode_produce_response,
)

__all__ = ["AT_ONCE", "Producing"]

TIMEOUT_MS_MAX = 600_000
AT_ONCE = 200
"""Topics and partitions of a request that are checked before others have their turn."""

BLAMED_MAX = 1_000
"""Records that are named in an answer. The others of a batch that is refused are told no less."""

LATE = "the store has not answered within the timeout of the request"

_ATTRIBUTES_AT, _MAX_TIMESTAMP_AT, _CRC_AT = 21, 35, 17
_APPEND_TIME_BIT = 0x08
_UNKNOWN = ErrorCode.unknown_topic_or_partition
_DELETED = Refused(Refusal.TOPIC_DELETED)

Rows = list[int | Partition | Produced]
"""Of the partitions of a topic: its number until a batch is looked at, the partition while the
batch is on its way to the store, and then what is answered."""


class Producing:
    """One request, from its batches to its answer."""

    __slots__ = (
        "_acks",
        "_address",
        "_begun_ms",
        "_begun_s",
        "_deadline_ms",
        "_left",
        "_listener",
        "_services",
        "_shape",
        "_slot",
        "_start",
        "_topics",
        "_version",
        "is_answered",
        "redirecting",
    )

    def __init__(
        self,
        services: Services,
        request: ProduceRequest,
        version: int,
        start: bytes,
        slot: ResponseSlot,
        address: str,
        listener: str,
        begun_s: float,
        shape: ProduceShape | None = None,
    ) -> None:
        self._services, self._acks, self._version = services, request.acks, version
        self._start, self._slot, self._address, self._begun_s = start, slot, address, begun_s
        self._listener = listener
        self._shape = shape
        """What the request has in common with the one before it on its connection, if it has."""
        self._begun_ms = services.clock.boot_ms()
        self._deadline_ms = self._begun_ms + min(max(request.timeout_ms, 0), TIMEOUT_MS_MAX)
        self._topics: list[tuple[str, bytes, Rows]] = []
        self._left = 1
        """Partitions without an answer, and one until all have been handed over."""
        self.is_answered = False
        self.redirecting = 0
        """Partitions whose leader is being looked for."""

    # ------------------------------------------------------------------------ handing over

    def submit_all(
        self, request: ProduceRequest, entries: Sequence[Entry | ErrorCode | None]
    ) -> Iterator[None]:
        """Hand every batch to its lane; yields behind each, so that others may have their turn."""
        refused = _refused(request)
        for topic, entry in zip(request.topics, entries, strict=True):
            rows = self.add_topic(topic.name, topic.id, [index for index, _ in topic.partitions])
            yield
            if isinstance(entry, Entry) and refused is None:
                entry.counters.produce_requests += 1
                for at, (index, records) in enumerate(topic.partitions):
                    self.submit(entry, rows, at, index, records)
                    yield
            else:
                unknown = ErrorCode.unknown_topic_id if topic.id else _UNKNOWN
                code = refused or (entry if isinstance(entry, ErrorCode) else unknown)
                for at, (index, _) in enumerate(topic.partitions):
                    self._put(rows, at, Produced(index, code))
        self.count_down()

    def add_topic(self, name: str, topic_id: bytes, indexes: Sequence[int]) -> Rows:
        """Return where the answers for the partitions of a topic go."""
        rows: Rows = [*indexes]
        self._topics.append((name, topic_id, rows))
        self._left += len(rows)
        return rows

    def submit(
        self, entry: Entry, rows: Rows, at: int, index: int, records: memoryview | None
    ) -> None:
        """Check the batch of one partition and hand it to its lane, or refuse it."""
        services, counters = self._services, entry.counters
        partition = entry.partition(index)
        if partition is None or not services.cluster.leads(partition.lane_number):
            if partition is not None and records is not None:
                partition.refused(records)
            self.redirecting += 1
            redirect = self._redirect(entry, rows, at, index)
            services.tasks.once("Produce elsewhere", redirect)
            return
        if records is None:
            self._put(rows, at, Produced(index, ErrorCode.invalid_record))
            return
        checked = _checked(services, entry, partition, records)
        if isinstance(checked, Produced):
            counters.failed_produce_requests += 1
            self._put(rows, at, checked)
            return
        append, stamp = checked
        counters.messages_in += append.offsets
        counters.bytes_in += len(records)
        rows[at] = partition
        done = partial(self._done, rows, at, partition, counters, stamp)
        if what := entry.configs.refuse_keyless(entry.topic.name):
            keyed = self._submit_keyed(partition, append, done, what)
            services.tasks.once("Produce of keys", keyed)
        else:
            partition.lane.submit(append, done, self._begun_ms, self, self._address)

    async def _redirect(self, entry: Entry, rows: Rows, at: int, index: int) -> None:
        try:
            await self._refuse_elsewhere(entry, rows, at, index)
        finally:
            self.redirecting -= 1

    async def _refuse_elsewhere(self, entry: Entry, rows: Rows, at: int, index: int) -> None:
        """Say who leads a partition that is not led here; or that there is none, if that is so.

        One that is found or led meanwhile is refused as well, and sent again: so batches keep their
        order as clients send them.
        """
        services = self._services
        try:
            partition = await find_partition(services, entry, index)
        except LakelogError as error:
            self._put(rows, at, Produced(index, read_code(error), message=str(error)[:256]))
            return
        if partition is None:
            self._put(rows, at, Produced(index, _UNKNOWN))
            return
        leader = await services.cluster.current_leader(partition.lane_number)
        self._put(rows, at, Produced(index, ErrorCode.not_leader_or_follower, leader=leader))

    async def _submit_keyed(
        self,
        partition: Partition,
        append: Append,
        done: Callable[[Outcome | LakelogError | Produced], None],
        what: str,
    ) -> None:
        """Store batches of a compacted topic if every record has a key, or say ``what`` is wrong.

        They are stored in the order they came.
        """
        async with partition.in_turn:
            try:
                scan = without_keys(append.body, BLAMED_MAX)
                blamed = await self._services.scans.run(scan, self._address)
            except LakelogError as error:
                done(error)
                return
            except Exception as error:
                done(UnavailableError(f"the keys of its records could not be read: {error!r}"))
                raise
            if blamed:
                errors, code = tuple((at, what) for at in blamed), ErrorCode.invalid_record
                done(Produced(partition.index, code, message=what, record_errors=errors))
                return
            partition.lane.submit(append, done, self._begun_ms, self, self._address)

    # ------------------------------------------------------------------------ answering

    def _done(
        self,
        rows: Rows,
        at: int,
        partition: Partition,
        counters: TopicCounters,
        stamp: int,
        outcome: Outcome | LakelogError | Produced,
    ) -> None:
        """Take in what became of a batch."""
        if self.is_answered:
            return
        if self._shape is not None and type(outcome) is Stored and not self._slot.throttle_ms():
            # It is the only batch of the request, and the answer is the usual one but for numbers.
            self.is_answered = True
            self._count("")
            if self._acks:
                index, start, base = partition.index, self._start[:4], outcome.base_offset
                self._slot.send(
                    answer_again(self._shape, start, index, base, stamp, partition.log_start)
                )
            else:
                self._slot.done()
            return
        produced = _produced(partition, stamp, outcome)
        if produced.error:
            counters.failed_produce_requests += 1
        if outcome == _DELETED:
            produced = produced._replace(error=self._services.catalog.gone(partition.topic))
        self._put(rows, at, produced)

    def _put(self, rows: Rows, at: int, produced: Produced) -> None:
        rows[at] = produced
        self.count_down()

    def count_down(self) -> None:
        """Count one partition that has its answer, or that all were handed over; with the last one
        answer the request.
        """
        self._left -= 1
        if not self._left and not self.is_answered:
            self._answer()

    def expire(self, now_ms: int) -> bool:
        """Answer with what is known if the time is up; say whether the request is answered."""
        if not self.is_answered and self._deadline_ms < now_ms:
            self._services.tasks.call("Produce", self._answer)
        return self.is_answered

    def _answer(self) -> None:
        self.is_answered = True
        services, slot = self._services, self._slot
        topics = [
            (
                name,
                topic_id,
                [one if isinstance(one, Produced) else self._late(one) for one in rows],
            )
            for name, topic_id, rows in self._topics
        ]
        self._topics = []
        refused = [row for _, _, rows in topics for row in rows if row.error]
        errors = [services.refusals.note(row) for row in refused]
        self._count(errors[0] if errors else "")
        if not self._acks and refused:
            slot.end(_unacknowledged(refused[0]))
        elif not self._acks:
            slot.done()
        else:
            endpoints = services.cluster.addresses(
                {row.leader.node_id for row in refused if row.leader is not None}, self._listener
            )
            body = encode_produce_response(
                self._version, topics, endpoints=endpoints, throttle_ms=slot.throttle_ms()
            )
            slot.answer([self._start, body])

    def _count(self, error: str) -> None:
        seconds = asyncio.get_running_loop().time() - self._begun_s
        self._services.metrics.api("Produce").count(seconds, error)

    def _late(self, row: int | Partition) -> Produced:
        """Return what is answered for a partition of which nothing is known yet."""
        if isinstance(row, int):
            return Produced(row, ErrorCode.request_timed_out, message=LATE)
        counters = self._services.metrics.topic(row.topic.name)
        counters.failed_produce_requests += 1
        return _produced(row, -1, Unknown())


# ---------------------------------------------------------------------------- checks


def _refused(request: ProduceRequest) -> ErrorCode | None:
    if request.transactional_id is not None:
        return ErrorCode.transactional_id_authorization_failed
    if request.acks not in (-1, 0, 1):
        return ErrorCode.invalid_required_acks
    return None


def _checked(
    services: Services, entry: Entry, partition: Partition, records: memoryview
) -> tuple[Append, int] | Produced:
    """Return a batch as it is stored and the time it was stamped with; or why it is refused."""
    configs, index = entry.configs, partition.index
    if services.time.problem:
        return Produced(index, ErrorCode.request_timed_out, message=services.time.problem[:256])
    if len(records) > configs.max_message_bytes and _is_one(records):
        what = f"a batch of {len(records)} bytes: max.message.bytes is {configs.max_message_bytes}"
        return Produced(index, ErrorCode.message_too_large, message=what)
    try:
        append = new_append(entry.topic.id, index, records)
        if entry.is_virtual:
            what = f"{entry.topic.name} can only be read: write to another topic"
            return Produced(index, ErrorCode.invalid_topic_exception, message=what)
        now_ms = services.clock.now_ms()
        if configs.timestamp_type is TimestampType.LOG_APPEND_TIME:
            fold = partition.lane.lane.fold
            stamp = max(now_ms, partition.stamped_ms, fold.created_ms if fold is not None else 0)
            partition.stamped_ms = stamp
            _stamp(records, append, stamp)
            return new_append(entry.topic.id, index, records), stamp
    except LakelogError as error:
        return Produced(index, batch_code(error), message=str(error)[:256])
    if any(row.attributes & _APPEND_TIME_BIT for row in append.rows):
        what = "a batch says LogAppendTime, and the topic has CreateTime: send it with CreateTime"
    else:
        times = append.min_timestamp, append.max_timestamp
        what = configs.refuse_times(entry.topic.name, *times, now_ms)
    if what:
        return Produced(index, ErrorCode.invalid_timestamp, message=what)
    return append, -1


def _is_one(records: memoryview) -> bool:
    """Say whether a batch is said to be as long as all that came for its partition."""
    return int.from_bytes(records[LENGTH_END - 4 : LENGTH_END], "big") == len(records) - LENGTH_END


def _stamp(records: memoryview, append: Append, stamp: int) -> None:
    """Let batches say that they were appended at a time, under a new CRC."""
    at = 0
    for row in append.rows:
        batch = records[at : at + row.length]
        batch[_ATTRIBUTES_AT + 1] |= _APPEND_TIME_BIT
        batch[_MAX_TIMESTAMP_AT : _MAX_TIMESTAMP_AT + 8] = stamp.to_bytes(8, "big")
        batch[_CRC_AT:CRC_START] = crc32c(batch[CRC_START:]).to_bytes(4, "big")
        at += row.length


def _produced(
    partition: Partition, stamp: int, outcome: Outcome | LakelogError | Produced
) -> Produced:
    index = partition.index
    if type(outcome) is Produced:
        return outcome
    if type(outcome) is Stored:
        return Produced(index, 0, outcome.base_offset, stamp, partition.log_start)
    if isinstance(outcome, Refused):
        return Produced(index, REFUSALS[outcome.why], message=outcome.why.value)
    if isinstance(outcome, LakelogError):
        return Produced(index, batch_code(outcome), message=str(outcome)[:256])
    why = partition.lane.trouble() or LATE
    return Produced(index, ErrorCode.request_timed_out, message=why[:256])


def _unacknowledged(failed: Produced) -> str:
    """Say why a producer is ended that wants no answers: it has no other way to notice."""
    code = ErrorCode(failed.error).name
    return f"Produce with acks=0: partition {failed.partition}: {failed.message or code}"
