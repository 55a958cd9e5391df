"""A worker that makes topics, deletes them and makes them anew, and adds partitions to one.

    python -m tests.cluster.admin PLAN DIARY

Whatever it makes it writes to and reads at once, by librdkafka. Each topic that is made gives its
partitions numbers that no other one has, of the same name or not: so a record of a topic that was
deleted, read from the one that was made in its place, is a record at two places.
"""

import json
import sys
import threading
from collections.abc import Sequence
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
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.cluster.history import Diary, value_of
from tests.cluster.workers import Plan

ASKED_S = 20.0
"""For each request of an operator; what is not done by then is asked for again."""
READ_S = 30.0
RECORDS = 8
NAMES = 3
FIRST, GROWN = 1000, 500
"""The first number of a partition of topics that are made anew, and of the one that grows."""
GROWN_MAX = 40


class Operator:
    """Makes, fills, reads and deletes, one thing after another."""

    def __init__(self, plan: Plan, diary: Diary, quiet: threading.Event) -> None:
        self._plan, self._diary, self._quiet = plan, diary, quiet
        self._settings: dict[str, Any] = {"bootstrap.servers": plan.bootstrap, "log_level": 0}
        self._settings |= plan.librdkafka
        self._admin = AdminClient(self._settings)
        self._sent = self._made = 0

    def run(self) -> None:
        grown, turn = 0, 0
        while not self._quiet.is_set():
            name = f"{self._plan.topic}-anew-{turn % NAMES}"
            turn += 1
            if not self._asked("make", lambda name=name: self._create(name, 2)):
                continue
            keys = [FIRST + 10 * self._made, FIRST + 10 * self._made + 1]
            self._made += 1
            self._fill(name, keys)
            self._asked("delete", lambda name=name: self._delete(name))
            if grown < GROWN_MAX:
                grown = self._grow(f"{self._plan.topic}-grown", grown)
        self._diary.write("quiet", self._diary.now(), self._plan.name)

    def _grow(self, name: str, count: int) -> int:
        """Make a topic of one partition, or add one; return how many it has."""
        if count == 0:
            done = self._asked("make", lambda: self._create(name, 1))
        else:
            done = self._asked("grow", lambda: self._add(name, count + 1))
        if done:
            self._fill(name, [GROWN + count], first=count)
        return count + done

    # ------------------------------------------------------------------------ asking

    def _asked(self, what: str, ask: Any) -> bool:
        """Ask until it is done; False: there is no time left.

        An answer that was lost may have been a yes: then the next one says that there is nothing
        left to do. Without such a reason that is an error that an operator sees.
        """
        is_unsure = False
        while True:
            try:
                ask()
            except KafkaException as error:
                code = error.args[0].code()
                if code in (KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.UNKNOWN_TOPIC_OR_PART,
                            KafkaError.INVALID_PARTITIONS) and is_unsure:  # fmt: skip
                    return True
                is_unsure = True
                self._tell(f"{what}: {error.args[0].name()}")
            else:
                return True
            if self._quiet.wait(0.2):
                return False

    def _create(self, name: str, partitions: int) -> None:
        topic = NewTopic(name, partitions, 1, config={"retention.ms": "-1"})
        self._admin.create_topics([topic], request_timeout=ASKED_S)[name].result()

    def _delete(self, name: str) -> None:
        self._admin.delete_topics([name], request_timeout=ASKED_S)[name].result()

    def _add(self, name: str, count: int) -> None:
        more = [NewPartitions(name, count)]
        self._admin.create_partitions(more, request_timeout=ASKED_S)[name].result()

    # ------------------------------------------------------------------------ records

    def _fill(self, name: str, keys: Sequence[int], first: int = 0) -> None:
        """Write to partitions, and read what was acknowledged."""
        acked: dict[int, set[str]] = {key: set() for key in keys}
        diary, who = self._diary, self._plan.name
        producer = Producer({**self._settings, "enable.idempotence": True})

        def delivered(number: int, key: int, error: KafkaError | None, message: Message) -> None:
            if error is not None:
                diary.write("refused", diary.now(), who, number, error.name())
                return
            acked[key].add(value_of(who, number))
            diary.write("acked", diary.now(), who, number, key, message.offset())

        for at, key in enumerate(keys):
            for _ in range(RECORDS):
                number, self._sent = self._sent, self._sent + 1
                diary.write("sent", diary.now(), who, number, key)
                value = value_of(who, number).encode()
                producer.produce(
                    name, value, partition=first + at,
                    on_delivery=lambda error, message, number=number, key=key: delivered(
                        number, key, error, message
                    ),
                )  # fmt: skip
        while len(producer):
            producer.flush(0.5)
        self._read(name, keys, first, acked)

    def _read(
        self, name: str, keys: Sequence[int], first: int, awaited: dict[int, set[str]]
    ) -> None:
        diary, reader = self._diary, f"/{self._plan.name}-{self._made}-{keys[0]}"
        consumer = Consumer({**self._settings, "group.id": "nobody", "enable.auto.commit": False})
        consumer.assign(
            [TopicPartition(name, first + at, OFFSET_BEGINNING) for at in range(len(keys))]
        )
        end = diary.now() + READ_S
        while any(awaited.values()) and diary.now() < end:
            begun = diary.now()
            rows: dict[int, list[tuple[int, str]]] = {}
            for message in consumer.consume(100, 0.2):
                error, value, partition = message.error(), message.value(), message.partition()
                if error is not None:
                    self._tell(f"read: {error.name()}")
                elif value is not None and partition is not None:
                    key = keys[partition - first]
                    rows.setdefault(key, []).append((message.offset() or 0, value.decode()))
                    awaited[key].discard(value.decode())
            if rows:
                diary.write("polled", begun, diary.now(), reader, rows)
        if any(awaited.values()):
            self._tell(f"not read in {READ_S:g} s")
        consumer.close()

    def _tell(self, what: str) -> None:
        self._diary.write("error", self._diary.now(), self._plan.name, what)


def main() -> None:
    plan = Plan(**json.loads(sys.argv[1]))
    quiet = threading.Event()
    thread = threading.Thread(target=Operator(plan, Diary(Path(sys.argv[2])), quiet).run)
    thread.start()
    for line in sys.stdin:
        quiet.set()
        if line.strip() == "end":
            break
    quiet.set()
    thread.join()


if __name__ == "__main__":
    main()
