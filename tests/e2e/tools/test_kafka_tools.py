"""Our tools say what Apache's say, byte for byte, of a real Kafka and of lakelog.

Commands that only look are run on the same state; those that change something on twins.
"""

import contextlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from lakelog.cli.commands import KAFKA_TOOLS
from lakelog.store import PutIfAbsent, open_store
from lakelog_kafka_tools.grammar import read_usage
from tests.e2e.tools.apache import Apache, running_apache
from tests.e2e.tools.comparing import APACHES, OURS, Both, run_ours
from tests.e2e.tools.secured import SecuredKafka, running_secured_kafka
from tests.parts.kafka import copy_directory
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.parts.process import Finished
from tests.parts.seaweedfs import SeaweedFS
from tests.patience import in_time

pytestmark = pytest.mark.kafka

_WITHIN_S = 60
_DUMP = "kafka-dump-log"
_EMPTY, _CLASSIC, _NEWER = "readers", "classic-members", "newer-members"


@pytest.fixture(scope="module")
def apache() -> Iterator[Apache]:
    with running_apache() as running:
        yield running


@pytest.fixture(scope="module")
def own_kafka() -> Iterator[SecuredKafka]:
    """A Kafka in which nobody else leaves anything."""
    with running_secured_kafka() as running:
        running.create_topic("orders", 4, retention_ms=-1)
        running.create_topic("lines", 1, retention_ms=-1)
        running.create_topic("with.dots_and_lines", 2, cleanup_policy="compact")
        _fill(running.bootstrap)
        yield running


@pytest.fixture(scope="module")
def both(apache: Apache, own_kafka: SecuredKafka) -> Iterator[Both]:
    """Both tools, at a Kafka with records, and with groups that have members and that have none."""
    with contextlib.ExitStack() as stack:
        address = own_kafka.bootstrap
        with _members(address, _EMPTY, 1, {}):
            pass
        stack.enter_context(_members(address, _CLASSIC, 2, {}))
        newer = {"group.protocol": "consumer", "group.instance.id": "static"}
        stack.enter_context(_members(address, _NEWER, 1, newer))
        yield Both(apache, address)


def _fill(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for number in range(40):
        producer.produce("orders", key=f"k{number}", value=f"v{number}", timestamp=1000 + number)
    for text in ("one", "two", "three"):
        producer.produce("lines", value=text, headers={"a": b"1", "b": None}, timestamp=5000)
    producer.produce("lines", key="gone", value=None, timestamp=6000)
    producer.flush()


@contextlib.contextmanager
def _members(bootstrap: str, group: str, count: int, more: dict[str, Any]) -> Iterator[None]:
    """Members of a group that have read everything and stay; each in a thread of its own."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": "member",
        "auto.offset.reset": "earliest",
        **more,
    }
    over = threading.Event()
    threads = [threading.Thread(target=_read, args=(settings, over)) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        _wait_for(bootstrap, group, count)
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _read(settings: dict[str, Any], over: threading.Event) -> None:
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    while not over.is_set():
        consumer.poll(0.1)
        with contextlib.suppress(Exception):
            consumer.commit(asynchronous=False)
    consumer.close()


def _wait_for(bootstrap: str, group: str, count: int) -> None:
    """Wait until a group has its members, and has committed all that there is."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    done = threading.Event()
    for _ in range(_WITHIN_S * 5):
        (described,) = admin.describe_consumer_groups([group]).values()
        with contextlib.suppress(Exception):
            found = described.result()
            assigned = [len(one.assignment.topic_partitions) for one in found.members]
            if found.state.name == "STABLE" and sum(map(bool, assigned)) == count:
                return
        done.wait(0.2)
    in_time(False, f"{group} is not stable")


_LOOKING = """
kafka-topics AT --list
kafka-topics AT --list --exclude-internal
kafka-topics AT --list --topic o.*,lines
kafka-topics AT --describe
kafka-topics AT --describe --exclude-internal
kafka-topics AT --describe --topic orders
kafka-topics AT --describe --topic orders --partition-size-limit-per-response 1
kafka-topics AT --describe --topic none
kafka-topics AT --describe --topic none --if-exists
kafka-topics AT --describe --if-exists
kafka-topics AT --describe --topics-with-overrides
kafka-topics AT --describe --under-replicated-partitions
kafka-topics AT --describe --at-min-isr-partitions
kafka-topics AT --describe --under-min-isr-partitions
kafka-topics AT --describe --unavailable-partitions
kafka-topics AT --describe --topic-id abc
kafka-topics AT --describe --topic-id AAAAAAAAAAAAAAAAAAAAAg
kafka-topics AT --delete --topic none
kafka-topics AT --delete --topic none --if-exists
kafka-topics AT --alter --topic none --partitions 3
kafka-topics AT --alter --topic orders --partitions 2
kafka-topics AT --alter --topic orders
kafka-topics AT --alter --topic orders --config a=b --partitions 9
kafka-topics AT --create
kafka-topics AT --create --topic orders
kafka-topics AT --create --topic orders --if-not-exists
kafka-topics AT --create --topic "bad name"
kafka-topics AT --create --topic ""
kafka-topics AT --create --topic new --replication-factor 3
kafka-topics AT --create --topic new --replication-factor 0
kafka-topics AT --create --topic a.b --partitions 0
kafka-topics AT --create --topic new --partitions x
kafka-topics AT --create --topic a.b --config foo=1
kafka-topics AT --create --topic new --config retention.ms=abc
kafka-topics AT --create --topic new --config retention.ms
kafka-topics AT --create --topic new --replica-assignment 1:1
kafka-topics AT --create --topic new --replica-assignment 1,1:2
kafka-topics AT --create --topic new --replica-assignment 5
kafka-topics AT --create --topic new --replica-assignment 1 --partitions 3
kafka-topics AT --list --delete
kafka-topics AT --list --partitions 3
kafka-topics AT --list --command-config /no/such/file
kafka-topics --list
kafka-topics --bootstrap-server nonsense --list
kafka-topics --bootstrap-server no.such.host.invalid:9092 --list
kafka-topics --nonsense
kafka-topics -x
kafka-topics --topic
kafka-topics --version
kafka-topics
kafka-consumer-groups AT --list
kafka-consumer-groups AT --list --state
kafka-consumer-groups AT --list --state --type
kafka-consumer-groups AT --list --type consumer
kafka-consumer-groups AT --list --state stable,empty
kafka-consumer-groups AT --list --state nonsense
kafka-consumer-groups AT --list --type nonsense
kafka-consumer-groups AT --describe --group readers
kafka-consumer-groups AT --describe --group readers --offsets --verbose
kafka-consumer-groups AT --describe --group readers --members
kafka-consumer-groups AT --describe --group readers --members --verbose
kafka-consumer-groups AT --describe --group readers --state
kafka-consumer-groups AT --describe --group classic-members
kafka-consumer-groups AT --describe --group classic-members --members
kafka-consumer-groups AT --describe --group classic-members --members --verbose
kafka-consumer-groups AT --describe --group classic-members --state --verbose
kafka-consumer-groups AT --describe --group newer-members --verbose
kafka-consumer-groups AT --describe --group newer-members --members --verbose
kafka-consumer-groups AT --describe --group newer-members --state --verbose
kafka-consumer-groups AT --describe --all-groups
kafka-consumer-groups AT --describe --all-groups --state
kafka-consumer-groups AT --describe --group none
kafka-consumer-groups AT --describe
kafka-consumer-groups AT --describe --group readers --members --state
kafka-consumer-groups AT --describe --group readers --state x
kafka-consumer-groups AT --delete --group none
kafka-consumer-groups AT --delete --group classic-members
kafka-consumer-groups AT --delete --group x --topic y
kafka-consumer-groups AT --delete-offsets --group none --topic orders
kafka-consumer-groups AT --delete-offsets --group classic-members --topic orders
kafka-consumer-groups AT --delete-offsets --group newer-members --topic orders:0
kafka-consumer-groups AT --delete-offsets --group readers
kafka-consumer-groups AT --reset-offsets --group classic-members --topic orders --to-earliest
kafka-consumer-groups AT --reset-offsets --group readers --topic orders --to-earliest
kafka-consumer-groups AT --reset-offsets --group readers --topic orders:1,2 --to-latest --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --all-topics --shift-by -1 --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --all-topics --shift-by 99 --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --all-topics --to-offset 1 --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --all-topics --to-current --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --topic lines --to-current --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --topic lines --shift-by 1 --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --all-topics --by-duration PT1H --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --all-topics --by-duration x --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --all-topics \
 --to-datetime 1970-01-01T00:00:01.020 --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --topic orders \
 --topic with.dots_and_lines --to-datetime 1970-01-01T01:00:01.020+01:00 --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --all-topics --to-datetime 2020-01-01
kafka-consumer-groups AT --reset-offsets --group readers --all-topics --to-datetime 2020-01-01Tx
kafka-consumer-groups AT --reset-offsets --group readers --all-topics --to-latest --export
kafka-consumer-groups AT --reset-offsets --group readers --group other --topic orders --to-latest \
 --export --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --from-file /no/such/file --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --topic none --to-earliest --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --topic orders:9 --to-earliest --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --topic orders:x --to-earliest --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --to-earliest --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --topic orders --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --topic orders --to-earliest --to-latest
kafka-consumer-groups AT --reset-offsets --group readers --topic orders --dry-run --execute
kafka-consumer-groups AT --reset-offsets --group readers --topic orders --to-offset x --dry-run
kafka-consumer-groups AT --list --group readers
kafka-consumer-groups AT --list --describe --all-groups
kafka-consumer-groups AT --list --members
kafka-consumer-groups --list
kafka-consumer-groups --validate-regex a.*
kafka-consumer-groups --nonsense
kafka-configs AT --describe --entity-type topics --entity-name lines
kafka-configs AT --describe --topic lines --all
kafka-configs AT --describe --topic none
kafka-configs AT --describe --topic none --all
kafka-configs AT --describe --topic "a b"
kafka-configs AT --describe --entity-type topics
kafka-configs AT --describe --entity-type brokers
kafka-configs AT --describe --broker 1 --all
kafka-configs AT --describe --broker 9
kafka-configs AT --describe --broker x
kafka-configs AT --describe --broker-defaults
kafka-configs AT --describe --entity-type broker-loggers --entity-name 1
kafka-configs AT --describe --entity-type broker-loggers
kafka-configs AT --describe --group readers --all
kafka-configs AT --describe --group none
kafka-configs AT --describe --entity-type groups
kafka-configs AT --describe --entity-type client-metrics
kafka-configs AT --describe --entity-type users
kafka-configs AT --describe --entity-type ips
kafka-configs AT --describe --entity-type nonsense
kafka-configs AT --describe
kafka-configs AT --describe --alter
kafka-configs AT --describe --topic a --group b
kafka-configs AT --describe --topic a --add-config x=y
kafka-configs AT --describe --entity-type topics --topic a
kafka-configs AT --alter --topic lines
kafka-configs AT --alter --topic lines --add-config retention.ms
kafka-configs AT --alter --topic lines --add-config retention.ms=x
kafka-configs AT --alter --topic lines --add-config retention.ms=5000,foo=1
kafka-configs AT --alter --topic none --add-config retention.ms=5000
kafka-configs AT --alter --broker 1 --add-config broker.id=2
kafka-configs AT --alter --user u --add-config nonsense=1
kafka-configs AT --alter --user u --delete-config producer_byte_rate
kafka-configs --describe --topic lines
kafka-configs --nonsense
kafka-get-offsets AT
kafka-get-offsets AT --topic orders
kafka-get-offsets AT --topic orders --time earliest
kafka-get-offsets AT --time -3
kafka-get-offsets AT --time -4
kafka-get-offsets AT --time -5
kafka-get-offsets AT --time -6
kafka-get-offsets AT --time 1020
kafka-get-offsets AT --time 99999999999999
kafka-get-offsets AT --time abc
kafka-get-offsets AT --topic orders --partitions 0,2
kafka-get-offsets AT --topic orders --partitions 0,x
kafka-get-offsets AT --topic-partitions orders:1-3,lines
kafka-get-offsets AT --topic-partitions orders:2-,:0
kafka-get-offsets AT --topic-partitions orders:x
kafka-get-offsets AT --topic-partitions orders --topic orders
kafka-get-offsets AT --topic none
kafka-get-offsets AT --exclude-internal-topics
kafka-get-offsets --topic orders
kafka-get-offsets --bootstrap-server foo
kafka-get-offsets --nonsense

kafka-console-producer AT
kafka-console-producer --topic a
kafka-console-producer AT --topic a --command-property acks=all --producer-property a=b
kafka-console-producer AT --topic lines --reader-property headers.delimiter=,
kafka-console-producer AT --topic lines --reader-property null.marker=,
kafka-console-producer AT --topic lines --reader-property parse.key=true <<< nokey\\n
kafka-console-producer AT --topic lines --line-reader foo.Bar
kafka-console-producer AT --topic lines --max-partition-memory-bytes 5 --timeout x
kafka-console-producer AT --topic none --max-block-ms 500 <<< x\\n
kafka-console-producer --nonsense
kafka-console-consumer AT --topic lines --partition 0 --offset earliest --max-messages 4
kafka-console-consumer AT --topic lines --partition 0 --from-beginning --timeout-ms 700
kafka-console-consumer AT --topic lines --partition 0 --offset latest --timeout-ms 300
kafka-console-consumer AT --topic lines --partition 0 --offset 1 --max-messages 3 \
 --formatter-property print.timestamp=true --formatter-property print.key=true \
 --formatter-property print.offset=true --formatter-property print.partition=true \
 --formatter-property print.headers=true --formatter-property print.epoch=true \
 --formatter-property print.delivery=true
kafka-console-consumer AT --topic lines --partition 0 --offset 2 --max-messages 2 \
 --property print.key=true --property print.headers=true --property key.separator=| \
 --property line.separator=; --property headers.separator=& --property null.literal=NIL
kafka-console-consumer AT --topic lines --partition 0 --offset 0 --max-messages 2 \
 --formatter-property print.value=false --formatter-property print.key=true
kafka-console-consumer AT --topic lines --from-beginning --max-messages 4
kafka-console-consumer AT --include lin.s --from-beginning --max-messages 4
kafka-console-consumer AT --topic orders --from-beginning --max-messages 40 \
 --formatter-property print.value=false --isolation-level read_committed
kafka-console-consumer AT --topic lines --from-beginning --max-messages 4 \
 --formatter org.apache.kafka.tools.consumer.NoOpMessageFormatter --command-property client.id=x
kafka-console-consumer AT --topic lines --partition 0 --offset 0 --max-messages 1 \
 --value-deserializer org.apache.kafka.common.serialization.StringDeserializer
kafka-console-consumer AT --topic lines --partition 0 --offset 0 --max-messages 1 \
 --value-deserializer org.apache.kafka.common.serialization.IntegerDeserializer
kafka-console-consumer AT --topic lines --partition 0 --offset 0 --max-messages 1 \
 --value-deserializer org.apache.kafka.common.serialization.LongDeserializer --skip-message-on-error
kafka-console-consumer AT
kafka-console-consumer AT --topic a --include b
kafka-console-consumer --topic a
kafka-console-consumer AT --topic a --offset 3
kafka-console-consumer AT --include a --partition 3
kafka-console-consumer AT --topic a --partition 0 --offset -3
kafka-console-consumer AT --topic a --partition 0 --offset 3 --from-beginning
kafka-console-consumer AT --topic a --partition 0 --group g
kafka-console-consumer AT --topic a --group g --consumer-property group.id=h
kafka-console-consumer AT --topic a --from-beginning --command-property auto.offset.reset=latest
kafka-console-consumer AT --topic a --partition x
kafka-console-consumer AT --topic a --formatter foo.Bar
kafka-console-consumer AT --topic a --property a=b --formatter-property c=d
kafka-console-consumer AT --topic a --consumer-property a=b --command-property c=d
kafka-console-consumer --nonsense
"""


def _lines(text: str) -> list[str]:
    return [line for line in text.replace("\\\n", "").splitlines() if line]


@pytest.mark.sample(70)
@pytest.mark.parametrize("line", _lines(_LOOKING))
def test_both_say_the_same_of_the_same_state(both: Both, line: str) -> None:
    both.compare(line)


@pytest.mark.parametrize("tool", KAFKA_TOOLS)
def test_every_option_of_apache_is_an_option_of_ours(apache: Apache, tool: str) -> None:
    told = apache.run(tool, "--help")
    names = set(re.findall(r"^--(\w\S*)", told.stdout + told.stderr, re.MULTILINE))
    assert len(names) > 5
    assert set(read_usage(tool).options) == names


def test_topics_of_both_live_the_same_life(both: Both, own_kafka: SecuredKafka) -> None:
    *_, described, _ = both.story("""
        kafka-topics AT --create --topic TWIN --partitions 3 --config retention.ms=1000
        kafka-topics AT --create --topic TWIN.b_c --config cleanup.policy=compact,delete
        kafka-topics AT --create --topic TWIN-d --replica-assignment 1,1 --replication-factor 1
        kafka-topics AT --create --topic TWIN-d --replica-assignment 1,1
        kafka-topics AT --alter --topic TWIN --partitions 5
        kafka-topics AT --alter --topic TWIN --partitions 6 --replica-assignment 1,1,1,1,1,1
        kafka-configs AT --alter --topic TWIN --add-config retention.ms=5,cleanup.policy=[compact,delete]
        kafka-configs AT --describe --topic TWIN
        kafka-configs AT --alter --topic TWIN --delete-config retention.ms
        kafka-configs AT --alter --topic TWIN --delete-config nonsense
        kafka-configs AT --describe --topic TWIN
        kafka-topics AT --delete --topic TWIN(.b_c|-d)?
    """)  # noqa: E501 (command lines)

    assert "cleanup.policy=compact,delete" in described.stdout
    # Brokers hear of it a little later, and whoever looks next is to see one state.
    gone = threading.Event()
    admin = AdminClient({"bootstrap.servers": own_kafka.bootstrap})
    for _ in range(_WITHIN_S * 10):
        if not {APACHES, OURS} & set(admin.list_topics(timeout=_WITHIN_S).topics):
            return
        gone.wait(0.1)
    in_time(False, "the topics are still there")


def test_settings_of_everything_else_change_alike(both: Both) -> None:
    both.story("""
        kafka-configs AT --alter --broker-defaults --add-config log.cleaner.threads=2
        kafka-configs AT --alter --broker 1 --add-config log.cleaner.threads=3
        kafka-configs AT --describe --entity-type brokers
        kafka-configs AT --alter --group TWIN --add-config consumer.session.timeout.ms=50000
        kafka-configs AT --describe --group TWIN
        kafka-configs AT --alter --client-metrics TWIN --add-config interval.ms=5000,metrics=[a,b]
        kafka-configs AT --describe --client-metrics TWIN
        kafka-configs AT --describe --entity-type groups
        kafka-configs AT --alter --user TWIN --add-config producer_byte_rate=1024,consumer_byte_rate=2e7
        kafka-configs AT --describe --user TWIN
        kafka-configs AT --alter --user TWIN --client app --add-config request_percentage=12.5
        kafka-configs AT --describe --user TWIN --client app
        kafka-configs AT --alter --user TWIN --delete-config producer_byte_rate
        kafka-configs AT --alter --user TWIN --delete-config producer_byte_rate
        kafka-configs AT --alter --user TWIN --add-config SCRAM-SHA-256=[iterations=8192,password=x]
        kafka-configs AT --describe --user TWIN
        kafka-configs AT --alter --user TWIN --delete-config SCRAM-SHA-256
        kafka-configs AT --alter --user TWIN --delete-config SCRAM-SHA-512
        kafka-configs AT --alter --client-defaults --add-config producer_byte_rate=1e12
        kafka-configs AT --describe --client-defaults
    """)  # noqa: E501 (command lines)


def test_groups_of_both_live_the_same_life(both: Both, tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text("orders,0,1\norders,1,0\n")
    *_, exported, _, _ = both.story(f"""
        kafka-consumer-groups AT --reset-offsets --group TWIN --topic orders --to-latest --execute
        kafka-consumer-groups AT --describe --group TWIN
        kafka-consumer-groups AT --describe --group TWIN --verbose
        kafka-consumer-groups AT --reset-offsets --group TWIN --all-topics --shift-by -2 --execute
        kafka-consumer-groups AT --reset-offsets --group TWIN --from-file {plan} --execute
        kafka-consumer-groups AT --delete-offsets --group TWIN --topic orders:1 --topic none
        kafka-consumer-groups AT --describe --group TWIN
        kafka-consumer-groups AT --reset-offsets --group TWIN --all-topics --to-current --export
        kafka-consumer-groups AT --delete --group TWIN --group none
        kafka-consumer-groups AT --delete --group TWIN
    """)

    assert "orders,0,1\n" in exported.stdout


def test_records_of_both_are_the_same(both: Both) -> None:
    *_, read, committed = both.story(r"""
        kafka-topics AT --create --topic TWIN-r --partitions 1
        kafka-console-producer AT --topic TWIN-r <<< a\nb\r\nc
        kafka-console-producer AT --topic TWIN-r --reader-property parse.key=true <<< k\tv\n
        kafka-console-producer AT --topic TWIN-r --property parse.key=true --property parse.headers=true --sync <<< h:1,i:\tk\tv\n
        kafka-console-producer AT --topic TWIN-r --reader-property parse.key=true --reader-property null.marker=NIL --compression-codec <<< NIL\tx\nk\tNIL\n
        kafka-console-producer AT --topic TWIN-r --producer-property linger.ms=1 --batch-size 100 --request-required-acks 1 --compression-codec zstd <<< é\n
        kafka-console-producer AT --topic TWIN-r --reader-property parse.key=true --reader-property ignore.error=true <<< nokey\n
        kafka-get-offsets AT --topic TWIN-r
        kafka-console-consumer AT --topic TWIN-r --from-beginning --max-messages 9 --group TWIN-r --formatter-property print.key=true --formatter-property print.headers=true
        kafka-consumer-groups AT --describe --group TWIN-r
    """)  # noqa: E501 (command lines)

    assert read.stdout.splitlines()[:2] == ["NO_HEADERS\tnull\ta", "NO_HEADERS\tnull\tb"]
    assert read.stderr.endswith("Processed a total of 9 messages\n")
    assert "9               9               0" in committed.stdout


def test_keys_go_to_the_same_partitions(both: Both) -> None:
    keys = "".join(f"key-{number}:{number}\\n" for number in range(200))
    *_, offsets = both.story(f"""
        kafka-topics AT --create --topic TWIN-k --partitions 7
        kafka-console-producer AT --topic TWIN-k --reader-property parse.key=true --reader-property key.separator=: <<< {keys}
        kafka-get-offsets AT --topic TWIN-k
    """)  # noqa: E501 (command lines)

    assert sum(int(line.rpartition(":")[2]) for line in offsets.stdout.splitlines()) == 200


def test_a_group_remembers_partitions_that_were_empty(both: Both) -> None:
    *_, described = both.story(r"""
        kafka-topics AT --create --topic TWIN-e --partitions 3
        kafka-console-producer AT --topic TWIN-e --reader-property parse.key=true <<< k\tv\n
        kafka-console-consumer AT --topic TWIN-e --from-beginning --max-messages 1 --group TWIN-e
        kafka-consumer-groups AT --describe --group TWIN-e
    """)

    assert described.stdout.count("TWIN-e ") >= 6


_DUMPING = """
kafka-dump-log --files LOG
kafka-dump-log --files LOG --print-data-log
kafka-dump-log --files LOG --deep-iteration
kafka-dump-log --files LOG --print-data-log --skip-record-metadata
kafka-dump-log --files LOG --deep-iteration --skip-record-metadata
kafka-dump-log --files LOG --max-bytes 300
kafka-dump-log --files LOG --value-decoder-class foo.Bar
kafka-dump-log --files AT/00000000000000000000.index,AT/00000000000000000000.timeindex
kafka-dump-log --files AT/00000000000000000000.index --index-sanity-check
kafka-dump-log --files AT/00000000000000000000.timeindex --index-sanity-check
kafka-dump-log --files AT/00000000000000000000.timeindex --verify-index-only
kafka-dump-log --files AT/leader-epoch-checkpoint,AT/partition.metadata
kafka-dump-log --files AT/cut/00000000000000000000.log
kafka-dump-log --files AT/later/00000000000000000007.log --deep-iteration
kafka-dump-log --files /no/such/00000000000000000000.log
kafka-dump-log --files /no/such/00000000000000000000.index
kafka-dump-log --files foo.log
kafka-dump-log --files a.log --max-bytes x
kafka-dump-log --print-data-log
kafka-dump-log --nonsense
kafka-dump-log --version
"""


def test_both_dump_the_same(both: Both, own_kafka: SecuredKafka, tmp_path: Path) -> None:
    folder = tmp_path / "lines-0"
    copy_directory(own_kafka.partition_dir("lines", 0), folder)
    log = folder / "00000000000000000000.log"
    for name, data in (
        ("cut/00000000000000000000.log", log.read_bytes()[:-5]),
        ("later/00000000000000000007.log", log.read_bytes()),
    ):
        (folder / name).parent.mkdir()
        (folder / name).write_bytes(data)

    for line in _lines(_DUMPING):
        both.compare(line.replace("LOG", str(log)).replace("AT/", f"{folder}/"))


@pytest.mark.seaweedfs
def test_a_bucket_is_as_good_as_a_disk(
    own_kafka: SecuredKafka, seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "lines-0"
    copy_directory(own_kafka.partition_dir("lines", 0), folder)
    bucket = f"s3://{seaweedfs.bucket('tools')}/{folder.name}"
    store = open_store(bucket, seaweedfs.options)
    names = ["00000000000000000000.log", "00000000000000000000.index"]
    for name in names:
        store.perform(PutIfAbsent(name, (folder / name).read_bytes()))
    for option, value in seaweedfs.options.items():
        monkeypatch.setenv(f"AWS_{option.upper()}", value)

    here = run_ours(
        _DUMP, "--print-data-log", "--files", ",".join(f"{folder}/{one}" for one in names)
    )
    there = run_ours(
        _DUMP, "--print-data-log", "--files", ",".join(f"{bucket}/{one}" for one in names)
    )

    assert here.rc == 0
    assert "payload: three" in here.stdout
    named = (text.replace(str(folder), bucket) for text in (here.stdout, here.stderr))
    assert there == Finished(0, *named)


def test_an_id_is_as_good_as_a_name(both: Both) -> None:
    by_name = both.compare("kafka-topics AT --describe --topic orders").stdout
    topic_id = by_name.partition("TopicId: ")[2].partition("\t")[0]

    by_id = both.compare(f"kafka-topics AT --describe --topic-id {topic_id}").stdout

    assert by_id == by_name.replace("Elr: \tLastKnownElr: ", "Elr: N/A\tLastKnownElr: N/A")


@pytest.mark.parametrize(
    ("mechanism", "user", "password"),
    [
        ("PLAIN", "ann", "secret"),
        ("SCRAM-SHA-256", "bob", "hush"),
        ("SCRAM-SHA-512", "bob", "hush"),
        ("PLAIN", "ann", "wrong"),
        ("SCRAM-SHA-256", "bob", "wrong"),
    ],
)
def test_both_come_in_by_the_same_door(
    both: Both,
    apache: Apache,
    own_kafka: SecuredKafka,
    tmp_path: Path,
    mechanism: str,
    user: str,
    password: str,
) -> None:
    for scram in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        setting = f"{scram}=[iterations=4096,password=hush]"
        both.compare(f"kafka-configs AT --alter --user bob --add-config {setting}")
    config = tmp_path / "client.properties"
    config.write_text(own_kafka.client(mechanism, user, password))

    door = Both(apache, own_kafka.secured)
    listed = door.compare(f"kafka-topics AT --list --topic orders --command-config {config}")
    if password == "wrong":
        assert listed.rc == 1
        return
    assert listed.stdout == "orders\n"
    door.story(f"""
        kafka-get-offsets AT --topic orders --command-config {config}
        kafka-console-consumer AT --topic lines --partition 0 --offset 0 --max-messages 3 --command-config {config}
        kafka-console-producer AT --topic lines --command-config {config}
    """)  # noqa: E501 (command lines)


_OF_LAKELOG = """
kafka-topics AT --list
kafka-topics AT --describe
kafka-topics AT --describe --topic none
kafka-topics AT --create --topic orders
kafka-topics AT --describe --unavailable-partitions
kafka-consumer-groups AT --list
kafka-consumer-groups AT --list --state
kafka-consumer-groups AT --describe --all-groups
kafka-consumer-groups AT --describe --group readers --members --verbose
kafka-consumer-groups AT --describe --group readers --state
kafka-consumer-groups AT --describe --group none
kafka-consumer-groups AT --reset-offsets --group readers --topic orders --to-earliest --dry-run
kafka-consumer-groups AT --reset-offsets --group readers --all-topics --shift-by -1 --dry-run
kafka-configs AT --describe --topic orders
kafka-configs AT --describe --topic orders --all
kafka-configs AT --describe --entity-type brokers
kafka-get-offsets AT
kafka-get-offsets AT --time earliest
kafka-get-offsets AT --time 1020
kafka-console-consumer AT --topic orders --partition 0 --offset earliest --max-messages 3
"""


@pytest.fixture(scope="module")
def served() -> Iterator[Lakelog]:
    with running_lakelog() as broker:
        yield broker


def test_both_say_the_same_of_lakelog(apache: Apache, served: Lakelog) -> None:
    both = Both(apache, served.bootstrap)
    # Its records are of 1970: retention would delete them as soon as they are sealed.
    apache.run("kafka-topics", "--bootstrap-server", served.bootstrap, "--create", "--topic",
               "orders", "--partitions", "4", "--config", "retention.ms=-1")  # fmt: skip
    _fill_orders(served.bootstrap)
    with _members(served.bootstrap, _EMPTY, 1, {}):
        pass

    for line in _lines(_OF_LAKELOG):
        both.compare(line)
    both.story(r"""
        kafka-topics AT --create --topic TWIN
        kafka-console-producer AT --topic TWIN <<< a\nb\n
        kafka-console-consumer AT --topic TWIN --from-beginning --max-messages 2 --group TWIN
        kafka-consumer-groups AT --describe --group TWIN
        kafka-topics AT --delete --topic TWIN
        kafka-configs AT --alter --client TWIN --add-config producer_byte_rate=1e9,request_percentage=99.5
        kafka-configs AT --describe --client TWIN
        kafka-configs AT --alter --user TWIN --client app --add-config consumer_byte_rate=1e9
        kafka-configs AT --describe --user TWIN --client app
        kafka-configs AT --alter --client TWIN --delete-config producer_byte_rate
        kafka-configs AT --alter --client TWIN --delete-config producer_byte_rate
        kafka-configs AT --alter --client TWIN --add-config consumer_byte_rate=0.5
        kafka-configs AT --alter --client TWIN --add-config consumer_byte_rate=x
        kafka-configs AT --alter --client-defaults --add-config controller_mutation_rate=1e6
        kafka-configs AT --describe --client-defaults
        kafka-configs AT --alter --ip 10.9.8.7 --add-config connection_creation_rate=100
        kafka-configs AT --describe --ip 10.9.8.7
        kafka-configs AT --alter --ip-defaults --add-config connection_creation_rate=10000
        kafka-configs AT --describe --entity-type ips
        kafka-configs AT --alter --client TWIN --add-config connection_creation_rate=5
    """)  # noqa: E501 (command lines)


def test_a_quota_of_our_own_is_set_by_our_tool_and_shown_by_both(
    apache: Apache, served: Lakelog
) -> None:
    at = ("--bootstrap-server", served.bootstrap, "--client", "own")
    added = ("--alter", "--add-config", "store_request_rate=1e6")
    assert apache.run("kafka-configs", *at, *added).rc == 1
    assert run_ours("kafka-configs", *at, *added).rc == 0
    shown = Both(apache, served.bootstrap).compare("kafka-configs AT --describe --client own")
    assert shown.stdout == "Quota configs for client-id 'own' are store_request_rate=1000000.0\n"


def _fill_orders(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for number in range(40):
        producer.produce("orders", key=f"k{number}", value=f"v{number}", timestamp=1000 + number)
    producer.flush()


def test_it_is_one_command_away(own_kafka: SecuredKafka) -> None:
    argv = [sys.executable, "-m", "lakelog", "kafka-topics"]
    told = subprocess.run(
        [*argv, "--bootstrap-server", own_kafka.bootstrap, "--list", "--topic", "orders"],
        capture_output=True,
    )
    wrong = subprocess.run([*argv, "--nonsense"], capture_output=True)

    assert (told.returncode, told.stdout, told.stderr) == (0, b"orders\n", b"")
    assert (wrong.returncode, wrong.stdout) == (1, b"")
    assert wrong.stderr.startswith(b"nonsense is not a recognized option\n")
