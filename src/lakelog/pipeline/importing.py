"""import: the directories of Kafka brokers become topics, every record with its offset.

    begin     each topic gets a cell that says closed: the name is taken, and nobody comes in
    step      one of Kafka's segments -> segments of ours, named after what is in them
    commit    a wave of steps: each manifest takes its rows, just where its history ends
    end       each lane is told where its partitions begin; then the topics are opened
                                                       (``adopting`` is the driver's part)

How far an import has come is what the manifests say. So a run that was killed goes on where they
end, and two at once do the same work and not twice as much of it: a segment's name is a digest of
its bytes, and a manifest takes rows only where its history ends. What was written and not taken is
swept, once the topic is open.

Batches are copied, with two exceptions. Their leader epoch becomes 0: the epochs of another cluster
mean nothing here, and a client that has seen a high one takes ours for outdated. And batches of
aborted transactions are left out, as Kafka's own cleaner leaves them out, because no reader here
could be told of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakelog.catalog import Topic, check_configs, open_namespace
from lakelog.errors import (
    ConflictError,
    CorruptError,
    InvalidInputError,
    UnsupportedError,
)
from lakelog.formats import batches
from lakelog.manifests import read_manifest
from lakelog.pipeline.adopting import (
    Importing,
    SegmentTaker,
    TransferJob,
    begin_topic,
    begun_topic,
)
from lakelog.pipeline.frame import SOURCE, TARGET, Connect, Plan, Result, Step
from lakelog.pipeline.kafka_source import Chosen, Source, aborted_in, sources_of
from lakelog.pipeline.listing import feed
from lakelog.pipeline.sides import expected_reads, subject_of
from lakelog.segments import Selection, find_logs
from lakelog.store import Usage, run

__all__ = ["Import"]

PIECE_BYTES = 8 << 20
KEEP_ALL = {"retention.ms": "-1"}
"""What a topic is made with: the directories do not say how long their records were to be kept."""

_INTERNAL = "__"


@dataclass(frozen=True, slots=True, kw_only=True)
class Import(TransferJob):
    """Make topics out of the log directories of Kafka brokers."""

    folders: tuple[str, ...] = ("",)
    """The log directories, below the source."""
    selection: Selection = field(default_factory=Selection)
    configs: Mapping[str, str] = field(default_factory=dict)
    partial: bool = False
    """Whether partitions may be missing; they are empty then."""
    stay_closed: bool = False
    """Whether more is to come: the topics are not opened."""

    verb = "import"

    def __post_init__(self) -> None:
        check_configs(self.configs)

    # ------------------------------------------------------------------------ the driver

    def plan(self, connect: Connect) -> Plan:
        """List the directories, and see how far an earlier run has come."""
        run(open_namespace(), connect(TARGET))
        logs = {
            topic_partition: segments
            for topic_partition, segments in find_logs(
                connect(SOURCE), "kafka", self.selection, self.folders
            ).items()
            if self._wants(topic_partition[0])
        }
        if not logs:
            raise InvalidInputError("there is no topic in these directories: check their paths")
        self._check_partitions(logs)
        units: list[Source] = []
        for (name, partition), segments in sorted(logs.items()):
            topic = run(begun_topic(name), connect(TARGET))
            end = 0
            if topic is not None:
                self._check_begun(topic, logs)
                end = run(read_manifest(topic.path_of(partition)), connect(TARGET)).sealed_end
            aborted = run(aborted_in(segments), connect(SOURCE))
            units += sources_of(segments, end, aborted)
        objects, reads = expected_reads([unit.segment for unit in units])
        made = 3 * sum(-(-unit.size // self.segment_bytes) for unit in units)
        puts = Usage(requests={"put": made + len(logs)})
        return Plan(units=units, objects_read=objects, objects_written=made, expected=reads + puts)

    def _wants(self, name: str) -> bool:
        named = self.selection.topics or ()
        return name in named or not name.startswith(_INTERNAL)

    def _check_partitions(self, logs: Mapping[tuple[str, int], Any]) -> None:
        for name, count in _counts(logs).items():
            missing = [number for number in range(count) if (name, number) not in logs]
            if missing and not self.partial:
                shown = ", ".join(map(str, missing[:5])) + (", ..." if missing[5:] else "")
                raise InvalidInputError(
                    f"{name} has no directory for {len(missing)} of its {count} partitions "
                    f"({shown}): name the directories of all brokers, or say --partial"
                )

    def _check_begun(self, topic: Topic, logs: Mapping[tuple[str, int], Any]) -> None:
        if not topic.closed:
            raise ConflictError(
                f"there is a topic {topic.name!r} already: if an earlier import has opened it, "
                "name the others with --topic; else delete it first"
            )
        count = _counts(logs)[topic.name]
        if topic.partitions != count or dict(topic.configs) != {**KEEP_ALL, **self.configs}:
            raise ConflictError(
                f"an import of {topic.name!r} was begun with {topic.partitions} partitions and "
                f"other settings: repeat them, or begin again after "
                f"lakelog topic delete {topic.name}"
            )

    def begin(self, plan: Plan, connect: Connect) -> "Importing":
        """Make the topics that an earlier run has not made."""
        perform, host = connect(TARGET), self.host
        rules = run(open_namespace(), perform).rules
        topic_partitions = {
            (unit.segment.topic, unit.segment.partition): None for unit in plan.units
        }
        configs = {**KEEP_ALL, **self.configs}
        topics: dict[str, Topic] = {}
        for name, count in _counts(topic_partitions).items():
            beginning = begin_topic(
                name, partitions=count, lanes=rules.lanes, configs=configs, ids=host.ids
            )
            topics[name] = run(beginning, perform)
        job = replace(self, topics=topics)
        return Importing(job, topics, rules, host, perform, stay_closed=self.stay_closed)

    # ------------------------------------------------------------------------ an executor

    def step(self, unit: Source) -> Step[Result]:
        """Bring one segment."""
        segment = unit.segment
        subject = subject_of(segment)
        where = self.topics[segment.topic].path_of(segment.partition)
        low = max(segment.base_offset, unit.offset_from)
        taken = SegmentTaker(where, low, self.segment_bytes)
        try:
            opened = yield from feed(segment, segment.fmt.open(segment.files))
            assert isinstance(opened, batches.BatchSegment)
            chosen = Chosen(unit)
            yield from feed(
                segment,
                batches.pieces(opened.run, bytes_max=PIECE_BYTES),
                lambda piece: taken.add(chosen.of(piece.data)),
            )
            yield from taken.close()
        except (CorruptError, UnsupportedError, InvalidInputError) as error:
            return subject.failed(error)
        end = unit.offset_to
        if unit.last:
            end = max(taken.next_offset, segment.base_offset, unit.log_start, unit.offset_from)
        return taken.result(
            subject,
            start=unit.log_start,
            end=end,
            last=unit.last,
            open=[*chosen.open.items()],
            ended=sorted(chosen.ended),
            unlisted=sorted(chosen.unlisted),
        )


# ---------------------------------------------------------------------------- what there is to do


def _counts(topic_partitions: Mapping[tuple[str, int], Any]) -> dict[str, int]:
    """Return how many partitions each topic has."""
    counts: dict[str, int] = {}
    for name, partition in topic_partitions:
        counts[name] = max(counts.get(name, 0), partition + 1)
    return counts
