"""A worker with librdkafka: a producer, members of a group, and somebody who asks for its offsets.

    python -m tests.cluster.rdkafka PLAN DIARY

It does what ``workers.Plan`` says, and writes what it sees into its diary (``history``). A line on
standard input tells it what to do next: ``quiet`` (send no more, and wait for all answers), or
``end``.

Settings are librdkafka's own, but for idempotence: what a user gets who changes nothing.
"""

import json
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.cluster.history import Diary, value_of
from tests.cluster.workers import COMMIT_S, LARGE_BYTES, OBSERVE_S, Plan

POLL_S = 0.01
ASKED_S = 60.0
BOUNDS_S, BOUNDS_AGAIN_S = 10.0, 0.5
"""A question of an operator whose broker has died is not asked elsewhere: soon another one is."""
_REPLACED = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.FENCED_MEMBER_EPOCH,
    KafkaError._ASSIGNMENT_LOST,
)
"""What a member is told whose partitions are another's by now: it reads on from what it is given,
and its application has nothing to do."""

_ASK_AGAIN = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""What librdkafka hands to whoever asks for offsets, after it has looked for the coordinator."""


def _settings(plan: Plan) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap.servers": plan.bootstrap, "log_level": 0}
    settings |= plan.librdkafka
    if plan.reconnect_ms_max:
        settings["reconnect.backoff.max.ms"] = plan.reconnect_ms_max
    return settings


class Sending:
    """Sends numbers, so many in a second, to all partitions by turns."""

    def __init__(self, plan: Plan, diary: Diary, quiet: threading.Event) -> None:
        self._plan, self._diary, self._quiet = plan, diary, quiet
        self._lines: list[tuple[object, ...]] = []

    def run(self) -> None:
        plan, sent = self._plan, 0
        producer = Producer(
            {
                **_settings(plan),
                "client.id": plan.name,
                "enable.idempotence": plan.idempotent,
                "error_cb": self._complain,
            }
        )
        began = self._diary.now()
        while not self._quiet.is_set():
            due = int((self._diary.now() - began) * plan.rate)
            while sent < due:
                partition = sent % plan.partitions
                self._lines.append(("sent", self._diary.now(), plan.name, sent, partition))
                try:
                    producer.produce(
                        plan.topic,
                        self._value(sent),
                        partition=partition,
                        on_delivery=self._delivered,
                    )
                except BufferError:
                    self._lines.pop()
                    break
                sent += 1
            producer.poll(POLL_S)
            self._write()
        while len(producer):
            producer.flush(0.5)
            self._write()
        self._diary.write("quiet", self._diary.now(), plan.name)

    def _value(self, number: int) -> bytes:
        value, every = value_of(self._plan.name, number).encode(), self._plan.large_every
        is_large = every and number % every == every - 1
        return value.ljust(LARGE_BYTES) if is_large else value

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        if lines:
            self._diary.write_all(lines)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        now, name = self._diary.now(), self._plan.name
        value = message.value()
        assert value is not None
        number = int(value.decode().rpartition(":")[2])  # Which does not mind spaces.
        if error is not None:
            why = error.name()
            if error.code() == KafkaError.MSG_SIZE_TOO_LARGE and len(value) < LARGE_BYTES:
                # It was in one batch with a large one, the last time. An earlier try may be stored.
                why = f"in a batch: {why}"
            self._lines.append(("refused", now, name, number, why))
        else:
            place = (message.partition(), message.offset())
            self._lines.append(("acked", now, name, number, *place))

    def _complain(self, error: KafkaError) -> None:
        if error.fatal():
            self._lines.append(
                ("error", self._diary.now(), self._plan.name, f"fatal: {error.name()}")
            )


class Reading:
    """One member: reads, and commits what it has read, all the while."""

    def __init__(self, plan: Plan, member: int, diary: Diary, end: threading.Event) -> None:
        self._plan, self._diary, self._end = plan, diary, end
        self._name = f"{plan.group}/{member}"
        self._next: dict[int, int] = {}
        self._begun: dict[int, float] = {}
        """Of partitions of which nothing has been read yet: when they were given."""
        self._consumer = Consumer(
            {
                **_settings(plan),
                "client.id": f"{plan.name}-{member}",
                "group.id": plan.group,
                "group.protocol": plan.protocol,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )

    def run(self) -> None:
        consumer, plan = self._consumer, self._plan
        if plan.assign:
            numbers = list(range(plan.partitions))
            self._diary.write("assigned", self._diary.now(), self._name, numbers)
            consumer.assign([TopicPartition(plan.topic, one, OFFSET_BEGINNING) for one in numbers])
        else:
            consumer.subscribe(
                [plan.topic],
                on_assign=self._assigned,
                on_revoke=self._revoked,
                on_lost=self._lost,
            )
        due = self._diary.now() + COMMIT_S
        while not self._end.is_set():
            begun = self._diary.now()
            self._take(begun, consumer.consume(500, 0.1))
            if self._diary.now() >= due:
                self._commit()
                due = self._diary.now() + COMMIT_S
        self._commit()
        consumer.close()

    def _take(self, asked: float, messages: Sequence[Message]) -> None:
        lines: list[tuple[object, ...]] = []
        rows: dict[int, list[tuple[int, str]]] = {}
        now = self._diary.now()
        for message in messages:
            error, value = message.error(), message.value()
            partition, offset = message.partition(), message.offset()
            if error is not None or value is None or partition is None or offset is None:
                lines.append(("error", now, self._name, f"read: {error and error.name()}"))
                continue
            if partition in self._begun and not self._plan.expires:
                begun = self._begun.pop(partition)
                # It begins where the coordinator says, or at 0 if that says nothing.
                lines.append(("fetched", begun, now, self._plan.group, {partition: offset or -1}))
            rows.setdefault(partition, []).append((offset, value.decode().rstrip()))
            self._next[partition] = offset + 1
        if rows:
            lines.append(("polled", asked, now, self._name, rows))
        if lines:
            self._diary.write_all(lines)

    def _commit(self) -> None:
        if not self._next or self._plan.assign:
            return
        topic, begun = self._plan.topic, self._diary.now()
        wanted = [TopicPartition(topic, number, offset) for number, offset in self._next.items()]
        self._next = {}
        try:
            done = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            self._failed(error.args[0])
            return
        offsets = {one.partition: one.offset for one in done if one.error is None}
        for one in done:
            if one.error is not None:
                self._failed(one.error)
        if offsets:
            self._diary.write("committed", begun, self._diary.now(), self._plan.group, offsets)

    def _failed(self, error: KafkaError) -> None:
        if error.code() not in _REPLACED:
            self._diary.write("error", self._diary.now(), self._name, f"commit: {error.name()}")

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        now = self._diary.now()
        numbers = [one.partition for one in partitions]
        self._begun |= dict.fromkeys(numbers, now)
        self._diary.write("assigned", now, self._name, numbers)

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit()
        self._forget(partitions)

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._forget(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        numbers = [one.partition for one in partitions]
        for number in numbers:
            self._next.pop(number, None)
            self._begun.pop(number, None)
        self._diary.write("revoked", self._diary.now(), self._name, numbers)


class Observing:
    """Asks for the offsets of a group of which it is no member, and keeps its coordinator."""

    def __init__(self, plan: Plan, diary: Diary, end: threading.Event) -> None:
        self._plan, self._diary, self._end = plan, diary, end

    def run(self) -> None:
        plan = self._plan
        consumer = Consumer({**_settings(plan), "group.id": plan.group})
        wanted = [TopicPartition(plan.topic, number) for number in range(plan.partitions)]
        while not self._end.wait(OBSERVE_S):
            begun = self._diary.now()
            try:
                found = consumer.committed(wanted, timeout=ASKED_S)
            except KafkaException as error:
                if error.args[0].code() not in _ASK_AGAIN:
                    what = f"offsets: {error.args[0].name()}"
                    self._diary.write("error", self._diary.now(), f"{plan.group}/observer", what)
                continue
            offsets = {one.partition: max(one.offset, -1) for one in found if one.error is None}
            self._diary.write("fetched", begun, self._diary.now(), plan.group, offsets)
        consumer.close()


class Bounding:
    """Asks where partitions begin and end, one after another.

    Not by ``get_watermark_offsets``: that asks for both at once, and was seen to tell the end for
    the start while a lane moved. By its source it does so when only the start is refused.
    """

    def __init__(self, plan: Plan, diary: Diary, end: threading.Event) -> None:
        self._plan, self._diary, self._end = plan, diary, end

    def run(self) -> None:
        admin = AdminClient(_settings(self._plan))
        number = 0
        while not self._end.wait(OBSERVE_S / 4):
            number = (number + 1) % self._plan.partitions
            self._ask(admin, "starts", number, OffsetSpec.earliest())
            self._ask(admin, "ends", number, OffsetSpec.latest())

    def _ask(self, admin: AdminClient, verb: str, number: int, spec: OffsetSpec) -> None:
        diary, who = self._diary, f"/{self._plan.name}-bounds"
        where, begun = TopicPartition(self._plan.topic, number), diary.now()
        try:
            asked = admin.list_offsets({where: spec}, request_timeout=BOUNDS_S)[where]
            offset = asked.result().offset
        except KafkaException as error:
            diary.write("error", diary.now(), who, f"bounds: {error.args[0].name()}")
            self._end.wait(BOUNDS_AGAIN_S)
        else:
            if offset < 0:  # It has heard nothing, and does not call that an error.
                diary.write("error", diary.now(), who, "bounds: no offset")
            else:
                diary.write(verb, begun, diary.now(), who, {number: offset})


def main() -> None:
    plan = Plan(**json.loads(sys.argv[1]))
    diary = Diary(Path(sys.argv[2]))
    quiet, end = threading.Event(), threading.Event()
    parts: list[Callable[[], None]] = []
    if plan.rate:
        parts.append(Sending(plan, diary, quiet).run)
    parts += [Reading(plan, member, diary, end).run for member in range(plan.members)]
    if plan.members and not plan.assign:
        parts.append(Observing(plan, diary, end).run)
    if plan.bounds:
        parts.append(Bounding(plan, diary, end).run)
    threads = [threading.Thread(target=_told(part, plan, diary)) for part in parts]
    for thread in threads:
        thread.start()
    for line in sys.stdin:
        if line.strip() == "quiet":
            quiet.set()
        if line.strip() == "end":
            break
    quiet.set()
    end.set()
    for thread in threads:
        thread.join()


def _told(part: Callable[[], None], plan: Plan, diary: Diary) -> Callable[[], None]:
    """Let an end that nobody asked for be an error that an application sees."""

    def run() -> None:
        try:
            part()
        except BaseException as error:
            what: Any = repr(error)[:200]
            diary.write("error", diary.now(), plan.name, f"ended: {what}")
            raise

    return run


if __name__ == "__main__":
    main()
