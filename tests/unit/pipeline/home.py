"""A namespace on disk for stories about jobs: topics that are appended to, sealed and read."""

from pathlib import Path
from typing import Any

from lakelog.catalog import Topic, create_topic, make_namespace
from lakelog.host import THIS_HOST, SystemClock, new_id
from lakelog.journal import Lane, append, new_run
from lakelog.log import Chunk, read, store_now
from lakelog.manifests import read_manifest
from lakelog.model import Record, Rules
from lakelog.pipeline import Seal
from lakelog.pipeline.frame import Step
from lakelog.records import NewBatch, encode_batch
from lakelog.store import LocalStore, StoreSpec, Work, run, working
from tests.unit.log.site import sweep

__all__ = ["RULES", "Home"]

RULES = Rules(lanes=2, grace_ms=60_000, checkpoint_every=4)


class Home:
    """A namespace on disk, with topics that are appended to."""

    def __init__(self, folder: Path) -> None:
        self.url = str(folder)
        self.perform = working(LocalStore(self.url).perform)
        self.run(make_namespace(new_id(), RULES))
        self.lanes = {
            number: Lane(
                number=number, rules=RULES, clock=SystemClock(), ids=new_id, writer=new_id()
            )
            for number in range(RULES.lanes)
        }

    def run(self, flow: Work[Any]) -> Any:
        return run(flow, self.perform)

    def run_step(self, step: Step[Any]) -> Any:
        """Run a step of a job whose one store is this namespace."""
        return run(step, lambda wish: self.perform(wish.op))

    def topic(self, name: str = "orders", *, partitions: int = 3, **configs: str) -> Topic:
        made: Topic = self.run(
            create_topic(
                name,
                topic_id=new_id(),
                partitions=partitions,
                lanes=2,
                now_ms=5,
                configs={key.replace("_", "."): value for key, value in configs.items()},
            )
        )
        return made

    def fill(self, topic: Topic, bundles: int, *, one: int | None = None) -> None:
        """Append to random partitions; most of it to ``one``, if it is given."""
        for number in range(bundles):
            partition = number * 7 % topic.partitions
            if one is not None and number % 10:
                partition = one
            records = [
                Record(offset=at, timestamp=5, key=b"%d" % number, value=b"v" * 100)
                for at in range(3)
            ]
            body = encode_batch(NewBatch(records=records))
            lane = self.lanes[topic.lane(partition)]
            self.run(append(lane, [new_run(topic.id, partition, body)]))

    def log(self, topic: Topic, partition: int) -> bytes:
        lane = Lane(
            number=topic.lane(partition), rules=RULES, clock=SystemClock(), ids=new_id,
            writer=new_id(),
        )  # fmt: skip
        body, at = b"", self.run(read_manifest(topic.path_of(partition))).log_start
        while True:
            chunk = self.run(read(lane, topic.path_of(partition), at, 1 << 20))
            assert isinstance(chunk, Chunk), chunk
            if not chunk.body:
                return body
            body, at = body + chunk.body, chunk.next_offset

    def logs(self, topic: Topic) -> list[bytes]:
        return [self.log(topic, partition) for partition in range(topic.partitions)]

    def ends(self, topic: Topic) -> list[int]:
        return [
            self.run(read_manifest(topic.path_of(partition))).sealed_end
            for partition in range(topic.partitions)
        ]

    def seal(self, **settings: Any) -> Seal:
        return Seal(host=THIS_HOST, target=StoreSpec(self.url), backlog_ms=0, **settings)

    def sweep(self, topic: Topic) -> None:
        """Sweep as if two graces had passed."""
        now_ms = self.run(store_now(new_id)) + 2 * RULES.grace_ms
        for partition in range(topic.partitions):
            flow = sweep(topic.path_of(partition), new_id, now_ms=now_ms, grace_ms=0)
            self.run(flow)

    def named(self, topic: Topic) -> set[str]:
        """The segments that manifests name, by their keys without suffix."""
        return {
            f"{topic.path_of(partition).prefix}{row.name}"
            for partition in range(topic.partitions)
            for row in self.run(read_manifest(topic.path_of(partition))).segments
        }

    def stems(self) -> set[str]:
        """The segments that are there, by their keys without suffix."""
        paths = Path(self.url).rglob("segment-*")
        return {str(path.relative_to(self.url)).partition(".")[0] for path in paths}
