"""The console producer and consumer: settings, and records through a client that is handed in."""

from io import BytesIO
from typing import Any

import pytest

from lakelog_kafka_tools import consumer, producer
from tests.unit.kafka_tools.scripted import told

_TO = ("--bootstrap-server", "localhost:9092", "--topic", "t")


class _Producer:
    """Takes records, and delivers them with an error if it is told to."""

    def __init__(self, code: int = 0) -> None:
        self.settings: dict[str, Any] = {}
        self.records: list[tuple[Any, ...]] = []
        self._code = code
        self._waiting: list[Any] = []

    def make(self, settings: dict[str, Any]) -> "_Producer":
        self.settings = settings
        return self

    def produce(self, topic: str, *, value: Any, key: Any, headers: Any, on_delivery: Any) -> None:
        self.records.append((topic, key, value, headers))
        self._waiting.append(on_delivery)

    def poll(self, _: float) -> None: ...

    def flush(self, _: float) -> None:
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(_Failure(self._code) if self._code else None, None)


class _Failure:
    def __init__(self, code: int) -> None:
        self._code = code

    def code(self) -> int:
        return self._code

    def str(self) -> str:
        return "Local: Unknown topic"


def _produce(fake: _Producer, text: bytes, *arguments: str) -> Any:
    return told(producer.run, *_TO, *arguments, make=fake.make, stdin=BytesIO(text))


def test_lines_become_records_whatever_ends_them() -> None:
    fake = _Producer()

    found = _produce(fake, b"a\nb\r\nc\rd\n\xff", "--reader-property", "parse.key=false")

    assert found == (0, "", "")
    assert [value for _, _, value, _ in fake.records] == [b"a", b"b", b"c", b"d", b"\xef\xbf\xbd"]


def test_settings_are_those_that_apache_s_producer_would_have() -> None:
    fake = _Producer()
    _produce(fake, b"", "--timeout", "5", "--compression-codec", "--command-property", "a.b=c")

    settings = fake.settings
    assert settings["partitioner"] == "murmur2_random"
    assert settings["acks"] == "all"
    assert settings["enable.idempotence"] == "true"
    assert settings["linger.ms"] == "5"
    assert settings["compression.type"] == "gzip"
    assert settings["batch.size"] == "16384"
    assert settings["client.id"] == "console-producer"
    assert "a.b" not in settings


def test_a_line_that_cannot_be_read_ends_it_after_those_before_it() -> None:
    fake = _Producer()

    found = _produce(fake, b"k\tv\nnokey\n", "--reader-property", "parse.key=true")

    assert found.code == 1
    assert found.err == (
        "org.apache.kafka.common.KafkaException: No key separator found on line number 2: 'nokey'\n"
    )
    assert fake.records == [("t", b"k", b"v", None)]


def test_what_did_not_arrive_is_logged_and_ends_only_who_waits_for_it() -> None:
    logged = _produce(_Producer(3), b"a\n")
    waited = _produce(_Producer(3), b"a\n", "--sync")

    assert logged.code == 0
    assert "ERROR Error when sending message to topic t with key: null" in logged.err
    assert waited.code == 1
    assert waited.err.startswith(
        "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors."
        "UnknownTopicOrPartitionException: This server does not host this topic-partition.\n"
    )


def test_old_names_of_options_are_taken_with_a_warning() -> None:
    found = _produce(_Producer(), b"", "--property", "parse.key=true")

    assert found.out == (
        "Warning: --property is deprecated and will be removed in a future version. Use"
        " --reader-property instead.\n"
    )


class _Message:
    def __init__(self, offset: int, value: bytes | None) -> None:
        self._offset = offset
        self._value = value

    def error(self) -> None:
        return None

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 1700000000000

    def key(self) -> bytes | None:
        return b"k"

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> None:
        return None


class _Consumer:
    """Gives records, and remembers what was stored."""

    def __init__(self, *values: bytes | None) -> None:
        self.settings: dict[str, Any] = {}
        self.stored: list[int] = []
        self.calls: list[str] = []
        self._messages = [_Message(at, value) for at, value in enumerate(values)]

    def make(self, settings: dict[str, Any]) -> "_Consumer":
        self.settings = settings
        return self

    def subscribe(self, topics: list[str], **_: Any) -> None:
        self.calls.append(f"subscribe {topics}")

    def assign(self, partitions: list[Any]) -> None:
        (one,) = partitions
        self.calls.append(f"assign {one.topic} {one.partition} {one.offset}")

    def poll(self, _: float) -> _Message | None:
        return self._messages.pop(0) if self._messages else None

    def store_offsets(self, message: _Message) -> None:
        self.stored.append(message.offset())

    def close(self) -> None:
        self.calls.append("close")


def _consume(fake: _Consumer, *arguments: str) -> Any:
    return told(consumer.run, *_TO, *arguments, make=fake.make, chance=lambda: 7)


def test_records_become_lines_until_there_are_enough() -> None:
    fake = _Consumer(b"a", b"b", b"c")

    found = _consume(fake, "--max-messages", "2", "--from-beginning")

    assert found.out == "a\nb\n"
    assert found.err.endswith("\nProcessed a total of 2 messages\n")
    assert found.err.startswith("The consumer rebalance protocol (KIP-848)")
    assert fake.stored == [0, 1]
    assert fake.calls == ["subscribe ['t']", "close"]


def test_nothing_for_a_while_ends_it_in_peace() -> None:
    found = _consume(_Consumer(b"a"), "--timeout-ms", "0")

    assert found.code == 0
    assert found.out == "a\n"
    assert "TimeoutException" in found.err


def test_settings_are_those_that_apache_s_consumer_would_have() -> None:
    fake = _Consumer()
    _consume(fake, "--max-messages", "0")

    settings = fake.settings
    assert settings["group.id"] == "console-consumer-7"
    assert settings["enable.auto.commit"] == "false"
    assert settings["auto.offset.reset"] == "latest"
    assert settings["isolation.level"] == "read_uncommitted"
    assert settings["client.id"] == "console-consumer"


@pytest.mark.parametrize(
    ("arguments", "offset"),
    [(("--offset", "5"), 5), (("--from-beginning",), -2), ((), -1), (("--offset", "Latest"), -1)],
)
def test_a_partition_is_read_from_an_offset(arguments: tuple[str, ...], offset: int) -> None:
    fake = _Consumer()
    found = _consume(fake, "--partition", "3", "--max-messages", "0", *arguments)

    assert fake.calls[0] == f"assign t 3 {offset}"
    assert found.err == "Processed a total of 0 messages\n"


def test_a_record_that_cannot_be_shown_ends_it_or_is_passed_over() -> None:
    kind = "org.apache.kafka.common.serialization.IntegerDeserializer"
    given = ("--value-deserializer", kind, "--max-messages", "2")

    ended = _consume(_Consumer(b"x", b"\0\0\0\x07"), *given)
    passed = _consume(_Consumer(b"x", b"\0\0\0\x07"), *given, "--skip-message-on-error")

    assert (ended.code, ended.out) == (1, "")
    assert (passed.code, passed.out) == (0, "7\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--include", "b"),
            "Exactly one of the following arguments is required: [topic],",
        ),
        (("--offset", "3"), "The partition is required when offset is specified."),
        (("--partition", "0", "--offset", "x"), "The provided offset value 'x' is incorrect."),
        (("--partition", "0", "--group", "g"), "Options group and partition cannot be specified"),
        (("--formatter", "a.B"), "a.B\n"),
    ],
)
def test_what_makes_no_sense_ends_with_the_usage(arguments: tuple[str, ...], message: str) -> None:
    found = _consume(_Consumer(), *arguments)

    assert found.code == 1
    assert found.err.startswith(message)
    assert "--skip-message-on-error" in found.err
