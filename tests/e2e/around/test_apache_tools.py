"""Apache's own tools, run to the end on lakelog: they say what they say of a Kafka.

A command line runs against both, in one JVM, and what it prints is compared. Left out are the ids
of topics and members, times, and the number of the broker.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.tools.apache import Apache, running_apache
from tests.parts.kafka import Kafka, tool
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.parts.process import Finished

pytestmark = pytest.mark.kafka

_NAMED = (
    (re.compile(r"TopicId: \S+"), "TopicId: …"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}"), "…"),
    (re.compile(r"127\.0\.0\.1:\d+"), "HOST"),
    (re.compile(r"(Leader|Replicas|Isr): \d+"), r"\1: N"),
    (re.compile(r"HOST\s*\(\d+\)"), "HOST (N)"),
    # Since it elects leaders in another way, Kafka has this one set for the whole cluster.
    (re.compile(r"^.*min\.insync\.replicas=1 .*\n|min\.insync\.replicas=1,?", re.MULTILINE), ""),
    (re.compile(r"[ \t]+"), " "),
)


class Both(NamedTuple):
    """A Kafka and a lakelog, and the JVM whose tools talk to them."""

    apache: Apache
    kafka: str
    lakelog: str

    def run(self, line: str, *more: str, stdin: str = "") -> tuple[Finished, Finished]:
        """Run a command line against each, and return what came: theirs, ours."""
        tool, *words = [*line.split(), *more]
        told = []
        for bootstrap in (self.kafka, self.lakelog):
            named = [word.replace("BOOTSTRAP", bootstrap) for word in words]
            if "BOOTSTRAP" not in line:
                named = ["--bootstrap-server", bootstrap, *named]
            told.append(self.apache.run(tool, *named, stdin=stdin))
        return told[0], told[1]

    def same(self, line: str, *more: str, stdin: str = "", sort: bool = False) -> str:
        """Run a command line against each; they must print the same. Return ours."""
        theirs, ours = self.run(line, *more, stdin=stdin)
        texts = [plain(one.stdout + one.stderr) for one in (theirs, ours)]
        if sort:
            texts = ["\n".join(sorted(text.splitlines())) for text in texts]
        assert texts[1] == texts[0], line
        assert ours.rc == theirs.rc, line
        return ours.stdout


def plain(text: str) -> str:
    for pattern, instead in _NAMED:
        text = pattern.sub(instead, text)
    return "\n".join(line.strip() for line in text.splitlines() if not line.startswith("\tat "))


@pytest.fixture(scope="module")
def both(kafka: Kafka) -> Iterator[Both]:
    broker: Lakelog
    with running_apache() as apache, running_lakelog() as broker:
        yield Both(apache, kafka.bootstrap, broker.bootstrap)


TOPIC = "apache"
TEN = "".join(f"k{number}:v{number}\n" for number in range(10))


def fill(both: Both, topic: str) -> None:
    both.same(f"kafka-topics --create --topic {topic} --partitions 2")
    both.same(
        f"kafka-console-producer --topic {topic}",
        "--reader-property", "parse.key=true", "--reader-property", "key.separator=:",
        stdin=TEN,
    )  # fmt: skip


def test_topics_are_made_described_changed_and_deleted(both: Both) -> None:
    made = f"kafka-topics --create --topic {TOPIC} --partitions 2 --config retention.ms=60000"
    assert f"Created topic {TOPIC}." in both.same(made)
    both.run(made)
    both.same(f"kafka-topics --create --if-not-exists --topic {TOPIC}")
    both.same(f"kafka-topics --describe --topic {TOPIC}")
    both.same(f"kafka-topics --alter --topic {TOPIC} --partitions 4")
    both.same(f"kafka-topics --describe --topic {TOPIC} --topics-with-overrides")
    both.same(f"kafka-topics --describe --topic {TOPIC} --under-replicated-partitions")
    both.same(f"kafka-topics --list --topic {TOPIC}")
    both.same(f"kafka-topics --delete --topic {TOPIC}")
    both.same(f"kafka-topics --list --topic {TOPIC}")


def test_configs_are_set_and_taken_back(both: Both) -> None:
    both.same("kafka-topics --create --topic configured --partitions 1")
    entity = "--entity-type topics --entity-name configured"
    both.same(
        f"kafka-configs {entity} --alter --add-config retention.ms=5000,segment.bytes=2000000"
    )
    both.same(f"kafka-configs {entity} --describe")
    both.same(f"kafka-configs {entity} --alter --delete-config retention.ms")
    both.same(f"kafka-configs {entity} --describe")
    both.same(f"kafka-configs {entity} --alter --add-config cleanup.policy=[compact,delete]")
    both.same(f"kafka-configs {entity} --describe --all", sort=True)
    theirs, ours = both.run(f"kafka-configs {entity} --alter --add-config no.such=1")
    assert (theirs.rc, "no.such" in ours.stderr + ours.stdout) == (ours.rc, True)


def test_records_are_produced_consumed_counted_and_deleted(both: Both, tmp_path: Path) -> None:
    fill(both, "records")
    shown = "print.key=true"
    read = "kafka-console-consumer --topic records --from-beginning --max-messages 10"
    assert "k3 v3" in plain(both.same(read, "--formatter-property", shown, sort=True))
    for time in ("latest", "earliest", "-1", "-2", "1700000000000"):
        both.same(f"kafka-get-offsets --topic records --time {time}")
    theirs, ours = both.run("kafka-get-offsets --topic records --time max-timestamp")
    assert [line.rsplit(":", 1)[0] for line in ours.stdout.splitlines()] == [
        line.rsplit(":", 1)[0] for line in theirs.stdout.splitlines()
    ]
    both.same("kafka-get-offsets --topic-partitions records:1 --time -1")
    plan = tmp_path / "delete.json"
    place = {"topic": "records", "partition": 0, "offset": 2}
    plan.write_text(json.dumps({"partitions": [place], "version": 1}))
    both.same(f"kafka-delete-records --offset-json-file {plan}")
    both.same("kafka-get-offsets --topic records --time -2")
    sizes = [
        json.loads(one.stdout.splitlines()[-1])["brokers"][0]["logDirs"][0]["partitions"]
        for one in both.run("kafka-log-dirs --describe --topic-list records")
    ]
    assert [row["partition"] for row in sorted(sizes[0], key=str)] == [
        row["partition"] for row in sorted(sizes[1], key=str)
    ]
    assert all(row["size"] > 0 for row in sizes[1])


RESETS = (
    "--to-earliest",
    "--to-latest",
    "--to-current",
    "--to-offset 2",
    "--shift-by 1",
    "--shift-by -1",
    "--to-datetime 2020-01-01T00:00:00.000",
    "--by-duration PT1H",
)


def test_groups_are_described_and_their_offsets_set_in_every_way(
    both: Both, tmp_path: Path
) -> None:
    fill(both, "grouped")
    both.run(
        "kafka-console-consumer --topic grouped --group g --from-beginning --max-messages 10"
        " --timeout-ms 20000"
    )
    groups = "kafka-consumer-groups"
    for told in both.run(f"{groups} --list"):
        assert "g" in told.stdout.split()
    both.same(f"{groups} --describe --group g", sort=True)
    both.same(f"{groups} --describe --group g --state")
    both.same(f"{groups} --describe --group g --members")
    for how in RESETS:
        for mode in ("--dry-run", "--execute"):
            both.same(f"{groups} --reset-offsets --group g --topic grouped {how} {mode}", sort=True)
        both.same(f"{groups} --describe --group g", sort=True)
    exported = both.same(
        f"{groups} --reset-offsets --group g --topic grouped:0 --to-offset 1 --dry-run --export"
    )
    plan = tmp_path / "offsets.csv"
    plan.write_text(exported)
    both.same(f"{groups} --reset-offsets --group g --from-file {plan} --execute")
    both.same(f"{groups} --delete-offsets --group g --topic grouped:1")
    both.same(f"{groups} --describe --group g", sort=True)
    both.same(f"{groups} --delete --group g")
    both.same(f"{groups} --describe --group g")
    both.same(f"{groups} --delete --group g")


def test_loads_run_to_their_end(both: Both) -> None:
    both.same("kafka-topics --create --topic load --partitions 3")
    _, ours = both.run(
        "kafka-producer-perf-test --topic load --num-records 20000 --record-size 100"
        " --throughput -1 --producer-props bootstrap.servers=BOOTSTRAP acks=all"
    )
    assert (ours.rc, "20000 records sent" in ours.stdout) == (0, True), ours
    _, ours = both.run(
        "kafka-consumer-perf-test --topic load --num-records 20000 --timeout 30000"
        " --bootstrap-server BOOTSTRAP"
    )
    assert ours.rc == 0, ours
    assert int(ours.stdout.splitlines()[-1].split(", ")[4]) >= 20_000
    both.same("kafka-topics --create --topic verified --partitions 2")
    where = ("--bootstrap-server", both.lakelog, "--topic", "verified")
    ours = tool("kafka-verifiable-producer", *where, "--max-messages", "500")
    assert counted(ours, "producer_send_success") == 500
    ours = tool("kafka-verifiable-consumer", *where, "--group-id", "v", "--max-messages", "500")
    assert counted(ours, "records_consumed") == 500


def counted(done: Finished, name: str) -> int:
    """Return how many records the events of a name are of."""
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return sum(line.get("count", 1) for line in lines if line["name"] == name)


def test_what_is_offered_is_told(both: Both) -> None:
    _, ours = both.run("kafka-broker-api-versions")
    assert "ConsumerGroupHeartbeat(68): 0 to 1 [usable: 1]" in ours.stdout
    assert "UNSUPPORTED" in ours.stdout
