"""kafka-console-producer: lines of stdin become records.

Records go to the partitions to which Apache's producer would send them: those with a key by its
murmur2 hash, those without wherever there is room.
"""

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO

from lakelog_kafka_tools.cluster import check_bootstrap
from lakelog_kafka_tools.grammar import Options
from lakelog_kafka_tools.lines import LineReader, NewRecord, line_reader
from lakelog_kafka_tools.running import Console, check_required, start
from lakelog_kafka_tools.settings import (
    key_values,
    librdkafka,
    librdkafka_client,
    read_properties,
)
from lakelog_kafka_tools.thrown import EXECUTION, Thrown, kafka_error, refused

__all__ = ["producer_settings", "run"]

_ABOUT = "Write each line of the standard input to a topic."
_READER = "org.apache.kafka.tools.LineMessageReader"
_RENAMED = {
    "command-config": "producer.config",
    "command-property": "producer-property",
    "reader-property": "property",
}
_DEFAULTS = {
    "timeout": ("linger.ms", "1000"),
    "request-required-acks": ("acks", "-1"),
    "request-timeout-ms": ("request.timeout.ms", "1500"),
    "message-send-max-retries": ("retries", "3"),
    "retry-backoff-ms": ("retry.backoff.ms", "100"),
    "socket-buffer-size": ("send.buffer.bytes", "102400"),
    "max-memory-bytes": ("buffer.memory", "33554432"),
    "batch-size": ("batch.size", "16384"),
    "max-partition-memory-bytes": ("batch.size", "16384"),
    "metadata-expiry-ms": ("metadata.max.age.ms", "300000"),
    "max-block-ms": ("max.block.ms", "60000"),
}
_FLUSH_S = 3600.0
_make = partial(librdkafka_client, "Producer")


def run(
    arguments: Sequence[str],
    console: Console,
    make: Callable[[dict[str, Any]], Any] = _make,
    stdin: BinaryIO | None = None,
) -> int:
    """Run the tool."""
    options = start("kafka-console-producer", arguments, console, _ABOUT, usage_if_misread=True)
    try:
        _check(options, console)
        reader = _reader(options)
        producer = make(producer_settings(options, console.warn))
    except Thrown as thrown:
        if thrown.kind.startswith("joptsimple."):
            console.say_error(thrown.message)
        else:
            console.say_error(thrown.trace(), end="")
        return 1
    sending = _Sending(producer, options.text("topic"), console, options.has("sync"))
    source = sys.stdin.buffer if stdin is None else stdin
    try:
        for record in _records(reader, source, console):
            sending.send(record)
    except Thrown as thrown:
        console.say_error(thrown.trace(), end="")
        return 1
    finally:
        producer.flush(_FLUSH_S)
    return 0


def _check(options: Options, console: Console) -> None:
    check_required(options, console, "topic")
    for new, old in _RENAMED.items():
        if options.has(new) and options.has(old):
            console.usage(
                options.usage, f"Options --{new} and --{old} cannot be specified together."
            )
    for new in ("command-property", "command-config", "reader-property"):
        if options.has(_RENAMED[new]):
            console.say(
                f"Warning: --{_RENAMED[new]} is deprecated and will be removed in a future version."
                f" Use --{new} instead."
            )
    if options.has("max-partition-memory-bytes"):
        console.say(
            "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache"
            " Kafka 5.0. Use --batch-size instead."
        )
    wrong = check_bootstrap(options.value("bootstrap-server"))
    if wrong:
        console.usage(options.usage, wrong)


def _given(options: Options, name: str) -> str:
    old = _RENAMED[name]
    return old if options.has(old) else name


def _reader(options: Options) -> LineReader:
    name = options.text("line-reader", _READER)
    if name != _READER:
        raise Thrown("java.lang.ClassNotFoundException", name)
    settings = read_properties(options.value("reader-config"))
    return line_reader(settings | key_values(options.values(_given(options, "reader-property"))))


def producer_settings(options: Options, warn: Callable[[str], None]) -> dict[str, Any]:
    """Return the settings of librdkafka."""
    java = read_properties(options.value(_given(options, "command-config")))
    java |= key_values(options.values(_given(options, "command-property")))
    java["bootstrap.servers"] = options.text("bootstrap-server")
    codec = options.text("compression-codec") or "gzip"
    java["compression.type"] = codec if options.has("compression-codec") else "none"
    java.setdefault("client.id", "console-producer")
    for name, (setting, default) in _DEFAULTS.items():
        if options.has(name) or setting not in java:
            java[setting] = str(options.value(name, default))
    acks = java["acks"] = {"-1": "all"}.get(java["acks"], java["acks"])
    if acks == "all" and java["retries"] != "0":
        java.setdefault("enable.idempotence", "true")
    if java.get("enable.idempotence") == "true":
        java.pop("max.in.flight.requests.per.connection", None)
    memory_kb = max(int(java["buffer.memory"]) // 1024, 1)
    block_ms = min(int(java["max.block.ms"]), 3_600_000)
    settings: dict[str, Any] = dict(librdkafka(java, warn))
    return settings | {
        "partitioner": "murmur2_random",
        "queue.buffering.max.kbytes": str(memory_kb),
        "topic.metadata.propagation.max.ms": str(block_ms),
        "log_level": 0,
    }


def _records(reader: LineReader, source: BinaryIO, console: Console) -> Iterator[NewRecord]:
    # Java splits lines at the same places as universal newlines do.
    lines = io.TextIOWrapper(source, encoding="utf-8", errors="replace", newline=None)
    prompt = sys.stdin.isatty() and sys.stdout.isatty()
    number = 0
    try:
        while True:
            number += 1
            if prompt:
                console.put(">")
                console.flush()
            line = lines.readline()
            if not line:
                return
            yield reader.read(line.removesuffix("\n"), number)
    finally:
        lines.detach()


class _Sending:
    """Sends records, and reports those that did not arrive."""

    def __init__(self, producer: Any, topic: str, console: Console, sync: bool) -> None:
        self._producer = producer
        self._topic = topic
        self._console = console
        self._sync = sync
        self._failed: Thrown | None = None

    def send(self, record: NewRecord) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value=record.value,
                    key=record.key,
                    headers=record.headers or None,
                    on_delivery=lambda error, _: self._arrived(error, record),
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self._producer.poll(0)
        if self._sync:
            self._producer.flush(_FLUSH_S)
            if self._failed is not None:
                raise self._failed.inside(EXECUTION)

    def _arrived(self, error: Any, record: NewRecord) -> None:
        if error is None:
            return
        code = error.code()
        self._failed = refused(code) if code > 0 else kafka_error("Timeout", error.str())
        if not self._sync:
            self._console.log(
                "ERROR",
                f"Error when sending message to topic {self._topic} with key: {_size(record.key)},"
                f" value: {_size(record.value)} with error: {self._failed}",
            )


def _size(data: bytes | None) -> str:
    return "null" if data is None else f"{len(data)} bytes"
