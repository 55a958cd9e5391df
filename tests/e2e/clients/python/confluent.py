"""The stories, told by confluent-kafka."""

from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.clients.plan import PARTITIONS, told_plan
from tests.e2e.clients.python.stories import Client, Member, Place, Sending, Sight, tell

__all__ = ["Confluent"]

_MOMENT_S = 0.02


class Confluent(Client):
    def create(self, topics: Sequence[str]) -> None:
        admin = AdminClient({"bootstrap.servers": self.plan.bootstrap})
        made = admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in topics])
        for one in made.values():
            one.result(timeout=self.plan.patience_s)

    def partitions(self) -> dict[str, int]:
        admin = AdminClient({"bootstrap.servers": self.plan.bootstrap})
        found = admin.list_topics(timeout=self.plan.patience_s).topics
        return {name: len(about.partitions) for name, about in found.items()}

    def send(
        self,
        topic: str,
        records: Sequence[Sending],
        *,
        codec: str | None = None,
        idempotent: bool = False,
    ) -> list[Place]:
        settings: dict[str, object] = {"bootstrap.servers": self.plan.bootstrap}
        if codec:
            settings["compression.type"] = codec
        if idempotent:
            settings["enable.idempotence"] = True
        acked: dict[int, Place] = {}

        def noting(number: int) -> Callable[[KafkaError | None, Message], None]:
            def note(error: KafkaError | None, message: Message) -> None:
                assert error is None, error
                acked[number] = message.partition(), message.offset()

            return note

        producer = Producer(settings)
        for number, record in enumerate(records):
            chosen = {"partition": record.partition, "timestamp": record.timestamp}
            given = {name: value for name, value in chosen.items() if value is not None}
            producer.produce(topic, record.value, record.key, on_delivery=noting(number), **given)
        assert producer.flush(self.plan.patience_s) == 0
        return [acked[number] for number in range(len(records))]

    def join(
        self,
        group: str,
        topic: str,
        count: int | None = None,  # noqa: ARG002
    ) -> Member:
        consumer = self._consumer(group)
        consumer.subscribe([topic])
        return _Member(consumer, topic)

    def offsets_at(self, topic: str, time_ms: int) -> dict[int, int | None]:
        question = [TopicPartition(topic, partition, time_ms) for partition in range(PARTITIONS)]
        consumer = self._consumer(self.plan.topic("times"))
        answer = consumer.offsets_for_times(question, timeout=self.plan.patience_s)
        consumer.close()
        for found in answer:
            assert found.error is None, found.error
        # librdkafka says "the end" where there is no such record.
        return {one.partition: one.offset if one.offset >= 0 else None for one in answer}

    def read_from(self, topic: str, starts: Mapping[int, int]) -> Member:
        consumer = self._consumer(self.plan.topic("times"))
        consumer.assign([TopicPartition(topic, *start) for start in starts.items()])
        return _Member(consumer, topic)

    def _consumer(self, group: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.plan.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )


class _Member(Member):
    def __init__(self, consumer: Consumer, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic

    def poll(self, most: int = 100) -> list[Sight]:
        found = self._consumer.consume(most, _MOMENT_S)
        for one in found:
            assert one.error() is None, one.error()
        return [
            Sight(one.partition(), one.offset(), one.value().decode(), one.timestamp()[1])
            for one in found
        ]

    def owned(self) -> list[int]:
        return [one.partition for one in self._consumer.assignment()]

    def commit(self, next_offsets: Mapping[int, int] | None = None) -> None:
        if next_offsets is None:
            done = self._consumer.commit(asynchronous=False)
        else:
            places = [TopicPartition(self._topic, *place) for place in next_offsets.items()]
            done = self._consumer.commit(offsets=places, asynchronous=False)
        for one in done:
            assert one.error is None, one.error

    def close(self) -> None:
        self._consumer.close()


if __name__ == "__main__":
    tell(Confluent(told_plan()))
