"""A running Kafka as the other side of a comparison: what its consumer meets while leaders move."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from lakelog.errors import UnavailableError
from lakelog.pipeline.kafka_reader import KafkaReader, ListPartitions


class Moving:
    """A consumer of one partition, whose leader is elsewhere for some requests."""

    def __init__(self, moves: int, code: int = KafkaError.NOT_LEADER_FOR_PARTITION) -> None:
        self.moves, self.code, self.waited = moves, code, 0

    def list_topics(self, **_: Any) -> Any:
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions={0: None})})

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        if self.moves:
            self.moves -= 1
            raise KafkaException(KafkaError(self.code))
        return 3, 9

    def poll(self, _: float) -> None:
        self.waited += 1


def listed(consumer: Moving) -> Any:
    live = KafkaReader("kafka://127.0.0.1:1")
    live._consumer = consumer
    return live.perform(ListPartitions())


def test_a_partition_whose_leader_moves_is_asked_for_again() -> None:
    consumer = Moving(3)
    assert listed(consumer) == [("t", 0, 3, 9)]
    assert consumer.waited == 3


@pytest.mark.parametrize(
    "consumer", [Moving(1 << 30), Moving(1, KafkaError.TOPIC_AUTHORIZATION_FAILED)]
)
def test_one_that_moves_for_ever_or_may_not_be_read_is_told(consumer: Moving) -> None:
    with pytest.raises(UnavailableError, match="does not answer"):
        listed(consumer)
    assert consumer.waited < 100
