"""Produce (key 0, versions 3 to 13).

Behaviour
    acks=0 gets no answer; its connection ends when something was not stored, as Kafka does it.
    acks=1 and acks=all both wait until the bundle is stored.
    One batch for each partition, as Kafka since version 3. It is stored as it came. Its CRC and
    header are checked, and that its bytes can hold the records that it claims; its records are not
    looked at, except that they have keys on compacted topics, beside the loop and in turns.
    A second copy of an idempotent batch is answered with the offset of the first.
    When nothing is known of the outcome the answer is REQUEST_TIMED_OUT, on which clients retry.

Not done
    Transactions: a transactional id is refused. Recompression: ``compression.type`` is the
    pipeline's business.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from crc32c import crc32c
from kio.schema.errors import ErrorCode

from lakelog.broker.catalog import Entry
from lakelog.broker.codes import REFUSALS, batch_code, read_code
from lakelog.broker.metrics.counters import TopicCounters
from lakelog.broker.partitions import Partition
from lakelog.broker.services import Services
from lakelog.broker.turns import in_turns
from lakelog.errors import LakelogError, UnavailableError
from lakelog.journal import Append, Outcome, Refused, Stored, Unknown, new_append
from lakelog.model import TimestampType
from lakelog.records import CRC_START, LENGTH_END, without_keys
from lakelog.wire import (
    Produced,
    ProduceRequest,
    ProduceShape,
    ProduceTopic,
    encode_produce_response,
)

__all__ = ["Answer", "One", "Pending", "find_topics", "produce", "produce_again", "submitting"]

TIMEOUT_MS_MAX = 600_000
AT_ONCE = 200
"""Topics and partitions of a request that are checked before others have their turn."""

_ATTRIBUTES_AT, _MAX_TIMESTAMP_AT, _CRC_AT = 21, 35, 17
_APPEND_TIME_BIT = 0x08

Answer = Callable[[bytes, Sequence[Produced]], None]
"""The body of an answer, and the partitions in it that were refused."""

LATE = "the store has not answered within the timeout of the request"


Reply = Callable[[int, int, int], None]
"""Base offset, append time, and where the log begins."""


class One:
    """A request of one partition, which is on its way to the store. Called with the outcome."""

    __slots__ = (
        "_counters",
        "_partition",
        "_refuse",
        "_reply",
        "_stamp",
        "deadline_ms",
        "is_answered",
    )

    def __init__(
        self,
        partition: Partition,
        counters: TopicCounters,
        stamp: int,
        deadline_ms: int,
        reply: Reply,
        refuse: Callable[[Produced], None],
    ) -> None:
        self._partition, self._counters, self._stamp = partition, counters, stamp
        self._reply, self._refuse = reply, refuse
        self.deadline_ms = deadline_ms
        self.is_answered = False

    def __call__(self, outcome: Outcome | LakelogError) -> None:
        if self.is_answered:
            return
        self.is_answered = True
        if type(outcome) is Stored:
            self._reply(outcome[0], self._stamp, self._partition.log_start)
        else:
            self._counters.failed_produce_requests += 1
            self._refuse(_produced(self._partition, self._stamp, outcome))

    def finish(self) -> None:
        """Answer that nothing is known."""
        self(Unknown())


class Pending:
    """A request of which some partitions are on their way to the store."""

    __slots__ = ("_answer", "_left", "_topics", "_version", "deadline_ms", "is_answered")

    def __init__(self, version: int, answer: Answer) -> None:
        self._version = version
        self._answer = answer
        self._topics: list[tuple[ProduceTopic, list[Produced | None]]] = []
        self._left = 1
        """Partitions without an answer, and one until all have been handed over."""
        self.deadline_ms = 0
        self.is_answered = False

    def add_topic(self, topic: ProduceTopic) -> list[Produced | None]:
        """Return where the answers for the partitions of a topic go; all are unknown as yet."""
        rows: list[Produced | None] = [None] * len(topic.partitions)
        self._topics.append((topic, rows))
        self._left += len(rows)
        return rows

    def put(self, rows: list[Produced | None], at: int, produced: Produced) -> None:
        """Answer for one partition."""
        rows[at] = produced
        self.settle()

    def settle(self) -> None:
        """Count one down, and answer with the last."""
        self._left -= 1
        if not self._left:
            self.finish()

    def finish(self) -> None:
        """Answer with what is known now."""
        if not self.is_answered:
            self.is_answered = True
            topics = [(one.name, one.id, _known(one, rows)) for one, rows in self._topics]
            self._topics.clear()  # The records of the request may go.
            refused = [row for _, _, rows in topics for row in rows if row.error]
            self._answer(encode_produce_response(self._version, topics), refused)


def _known(topic: ProduceTopic, rows: list[Produced | None]) -> list[Produced]:
    """Return what is answered for the partitions of a topic: nobody knows yet of some."""
    late = ErrorCode.request_timed_out
    told = zip(topic.partitions, rows, strict=True)
    return [row or Produced(index, late, message=LATE) for (index, _), row in told]


def produce_again(
    services: Services,
    shape: ProduceShape,
    index: int,
    records: memoryview,
    reply: Reply,
    refuse: Callable[[Produced], None],
    who: str,
) -> One | None:
    """Hand one batch to its lane, if the request is like one before; None: see ``produce``."""
    (topic,) = shape.request.topics
    entry = services.catalog.entry(topic.name, topic.id)
    partition = None if entry is None else entry.partition(index)
    if entry is None or partition is None or entry.configs.is_compacted:
        return None
    try:
        append, stamp, flaw = _checked(services, entry, partition, records)
    except LakelogError:
        return None
    if append is None or flaw is not None:
        return None
    counters = entry.counters
    counters.produce_requests += 1
    counters.messages_in += append.offsets
    counters.bytes_in += len(records)
    now_ms = services.clock.boot_ms()
    deadline_ms = now_ms + min(max(shape.request.timeout_ms, 0), TIMEOUT_MS_MAX)
    one = One(partition, counters, stamp, deadline_ms, reply, refuse)
    partition.lane.submit(append, one, now_ms, deadline_ms, who)
    return one


def produce(
    services: Services, version: int, request: ProduceRequest, answer: Answer, who: str
) -> Pending | None:
    """Hand batches to their lanes; ``answer`` is called when all is known.

    None: a topic is not known here, or they are many. Ask for it (``find_topics``) and come again.
    """
    if sum(1 + len(topic.partitions) for topic in request.topics) > AT_ONCE:
        return None
    entries = [services.catalog.entry(topic.name, topic.id) for topic in request.topics]
    if None in entries:
        return None
    pending = Pending(version, answer)
    for _ in submitting(services, request, entries, pending, who):
        pass
    return pending


async def find_topics(
    services: Services, request: ProduceRequest, complain: Callable[[LakelogError], None]
) -> list[Entry | ErrorCode | None]:
    """Return the topics of a request; None: there is none; a code: whether there is is unknown."""
    found: list[Entry | ErrorCode | None] = []
    async for topic in in_turns(request.topics):
        try:
            found.append(await services.catalog.find_entry(topic.name, topic.id))
        except LakelogError as error:
            complain(error)
            found.append(read_code(error))
    return found


def submitting(
    services: Services,
    request: ProduceRequest,
    entries: Sequence[Entry | ErrorCode | None],
    pending: Pending,
    who: str,
) -> Iterator[None]:
    """Check batches of an address and hand them to their lanes; yields when others should have
    their turn.
    """
    timeout_ms = min(max(request.timeout_ms, 0), TIMEOUT_MS_MAX)
    now_ms = services.clock.boot_ms()
    deadline_ms = pending.deadline_ms = now_ms + timeout_ms
    refused = _refused(request)
    since = 0
    for topic, entry in zip(request.topics, entries, strict=True):
        rows = pending.add_topic(topic)
        since += 1
        if since >= AT_ONCE:
            since = 0
            yield
        if entry is None or isinstance(entry, ErrorCode) or refused is not None:
            unknown = ErrorCode.unknown_topic_id if topic.id else _UNKNOWN
            code = refused or (entry if isinstance(entry, ErrorCode) else unknown)
            for at, (index, _) in enumerate(topic.partitions):
                pending.put(rows, at, Produced(index, code))
            continue
        counters = entry.counters
        counters.produce_requests += 1
        for at, (index, records) in enumerate(topic.partitions):
            since += 1
            if since >= AT_ONCE:
                since = 0
                yield
            partition = entry.partition(index)
            if partition is None or records is None:
                code = ErrorCode.invalid_record if partition else _UNKNOWN
                pending.put(rows, at, Produced(index, code))
                continue
            try:
                append, stamp, flaw = _checked(services, entry, partition, records)
            except LakelogError as error:
                append, stamp, flaw = None, -1, _Flaw(batch_code(error), str(error)[:256])
            if append is None or flaw is not None:
                assert flaw is not None
                counters.failed_produce_requests += 1
                pending.put(rows, at, Produced(index, flaw.code, message=flaw.message))
                continue
            counters.messages_in += append.offsets
            counters.bytes_in += len(records)
            done = partial(_done, pending, rows, at, partition, entry.counters, stamp)
            if entry.configs.is_compacted:
                what = entry.configs.refuse_keyless(entry.topic.name)
                work = _keyed(services, who, partition, append, done, now_ms, deadline_ms, what)
                services.tasks.once("Produce of keys", work)
            else:
                partition.lane.submit(append, done, now_ms, deadline_ms, who)
    pending.settle()


_UNKNOWN = ErrorCode.unknown_topic_or_partition

BLAMED_MAX = 1_000
"""Records that are named in an answer. The others of a batch that is refused are told no less."""


class _Flaw(NamedTuple):
    """Why batches are not taken."""

    code: ErrorCode
    message: str


def _refused(request: ProduceRequest) -> ErrorCode | None:
    if request.transactional_id is not None:
        return ErrorCode.transactional_id_authorization_failed
    if request.acks not in (-1, 0, 1):
        return ErrorCode.invalid_required_acks
    return None


def _checked(
    services: Services, entry: Entry, partition: Partition, records: memoryview
) -> tuple[Append | None, int, _Flaw | None]:
    """Return a batch as it is stored, the time it was stamped with, and what is wrong."""
    configs = entry.configs
    if services.time.problem:
        raise UnavailableError(services.time.problem)
    if len(records) > configs.max_message_bytes and _is_one(records):
        what = f"a batch of {len(records)} bytes: max.message.bytes is {configs.max_message_bytes}"
        return None, -1, _Flaw(ErrorCode.message_too_large, what)
    append = new_append(entry.topic.id, partition.index, records)
    if entry.is_virtual:
        what = f"{entry.topic.name} can only be read: write to another topic"
        return append, -1, _Flaw(ErrorCode.invalid_topic_exception, what)
    now_ms = services.clock.now_ms()
    if configs.timestamp_type is TimestampType.LOG_APPEND_TIME:
        fold = partition.lane.lane.fold
        stamp = max(now_ms, partition.stamped_ms, fold.created_ms if fold is not None else 0)
        partition.stamped_ms = stamp
        _stamp(records, append, stamp)
        return new_append(entry.topic.id, partition.index, records), stamp, None
    if any(row.attributes & _APPEND_TIME_BIT for row in append.rows):
        what = "times of the log, and the topic has those of producers: send plain times"
        return append, -1, _Flaw(ErrorCode.invalid_timestamp, what)
    name, least_ms, most_ms = entry.topic.name, append.min_timestamp, append.max_timestamp
    what = configs.refuse_times(name, least_ms, most_ms, now_ms)
    return append, -1, _Flaw(ErrorCode.invalid_timestamp, what) if what else None


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


async def _keyed(
    services: Services,
    who: str,
    partition: Partition,
    append: Append,
    done: Callable[[Outcome | LakelogError | Produced], None],
    now_ms: int,
    deadline_ms: int,
    what: str,
) -> None:
    """Store batches of a compacted topic if every record has a key, or say ``what`` is wrong.

    They are stored in the order they came.
    """
    async with partition.in_turn:
        try:
            blamed = await services.scans.run(without_keys(append.body, BLAMED_MAX), who)
        except LakelogError as error:
            done(error)
            return
        except Exception as error:
            done(UnavailableError(f"its keys were not read: {error!r}"))
            raise
        if blamed:
            told = tuple((at, what) for at in blamed)
            done(
                Produced(
                    partition.index, ErrorCode.invalid_record, message=what, record_errors=told
                )
            )
            return
        partition.lane.submit(append, done, now_ms, deadline_ms, who)


def _done(
    pending: Pending,
    rows: list[Produced | None],
    at: int,
    partition: Partition,
    counters: TopicCounters,
    stamp: int,
    outcome: Outcome | LakelogError | Produced,
) -> None:
    produced = _produced(partition, stamp, outcome)
    if produced.error:
        counters.failed_produce_requests += 1
    pending.put(rows, at, produced)


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
