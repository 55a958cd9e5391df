"""What the clients talk to: a real Kafka or lakelog, and what is stored there.

Both are looked at from behind, past their protocol: Kafka's log directory, lakelog's bucket.
"""

from pathlib import Path
from typing import Protocol

from lakelog.catalog import open_namespace, read_topic
from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane
from lakelog.log import Chunk, read
from lakelog.records import Batch, decode_batches
from lakelog.store import open_store, retrying, run, working
from tests.cluster.load import Served
from tests.e2e.clients.plan import PARTITIONS
from tests.parts.kafka import Kafka

__all__ = ["Cluster", "KafkaCluster", "LakelogCluster"]

_CHUNK_BYTES = 4 << 20


class Cluster(Protocol):
    @property
    def bootstrap(self) -> str: ...

    def stored(self, topic: str) -> list[list[Batch]]:
        """The batches of each partition, as they lie there."""


class KafkaCluster:
    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self.bootstrap = kafka.bootstrap

    def stored(self, topic: str) -> list[list[Batch]]:
        folders = [self._kafka.partition_dir(topic, partition) for partition in range(PARTITIONS)]
        return [self._read(folder) for folder in folders]

    def _read(self, folder: Path) -> list[Batch]:
        files = sorted(folder.glob("*.log"))
        return [batch for file in files for batch in decode_batches(file.read_bytes())]


class LakelogCluster:
    def __init__(self, broker: Served) -> None:
        self.bootstrap = broker.bootstrap
        self._perform = working(retrying(open_store(broker.storage, broker.options).perform))

    def stored(self, topic: str) -> list[list[Batch]]:
        found = run(read_topic(topic), self._perform)
        rules = run(open_namespace(), self._perform).rules
        log: list[list[Batch]] = []
        for partition in range(PARTITIONS):
            number = found.lane(partition)
            lane = Lane(
                number=number, rules=rules, clock=SystemClock(), ids=new_id, writer=new_id()
            )
            batches: list[Batch] = []
            offset = 0
            while True:
                where = found.path_of(partition)
                chunk = run(read(lane, where, offset, _CHUNK_BYTES), self._perform)
                assert isinstance(chunk, Chunk), chunk
                if not chunk.body:
                    break
                batches += decode_batches(chunk.body)
                offset = chunk.next_offset
            log.append(batches)
        return log
