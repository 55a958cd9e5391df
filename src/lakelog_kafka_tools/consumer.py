"""kafka-console-consumer: records of topics become lines of stdout."""

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

from lakelog_kafka_tools.formatting import Formatter, Seen, formatter
from lakelog_kafka_tools.grammar import Options
from lakelog_kafka_tools.java import hash_order, parse_int, text_hash
from lakelog_kafka_tools.running import (
    Console,
    check_one_of,
    check_required,
    start,
)
from lakelog_kafka_tools.settings import (
    key_values,
    librdkafka,
    librdkafka_client,
    read_properties,
)
from lakelog_kafka_tools.thrown import Thrown

__all__ = ["consumer_settings", "parse_offset", "run"]

_ABOUT = "Read records of topics, and print them."
_PACKAGE = "org.apache.kafka.tools.consumer"
_FORMATTERS = {f"{_PACKAGE}.DefaultMessageFormatter", f"{_PACKAGE}.NoOpMessageFormatter"}
_PROTOCOL = (
    "The consumer rebalance protocol (KIP-848) is production-ready! Set group.protocol=consumer to"
    " try it out. See https://kafka.apache.org/documentation/#consumer_rebalance_protocol"
)
_BEGINNING, _END = -2, -1
_INTERRUPTED, _TERMINATED = 130, 143
_POLL_S = 1.0
_ASK_S = 30.0
_QUEUED_KBYTES = "16384"
_TIMES: Mapping[int, str] = {1: "CreateTime", 2: "LogAppendTime"}
_make = partial(librdkafka_client, "Consumer")


def _chance() -> int:
    from lakelog.host import new_id

    return int.from_bytes(new_id()) // 256 % 100_000


def run(
    arguments: Sequence[str],
    console: Console,
    make: Callable[[dict[str, Any]], Any] = _make,
    chance: Callable[[], int] = _chance,
) -> int:
    """Run the tool. ``chance`` gives the number of a group that has no name."""
    options = start("kafka-console-consumer", arguments, console, _ABOUT, usage_if_misread=True)
    java = _java_settings(options, console, chance)
    offset = parse_offset(options, console)
    chosen = _formatter(options, console)
    consumer = make(consumer_settings(java, console.warn))
    partition = options.number("partition")
    if partition is None and java.get("group.protocol", "classic").lower() == "classic":
        console.say_error(_PROTOCOL)
    return _Reading(consumer, console, chosen, java, options).run(partition, offset)


# ---------------------------------------------------------------------------- settings


def _java_settings(options: Options, console: Console, chance: Callable[[], int]) -> dict[str, str]:
    def wrong(message: str) -> None:
        console.usage(options.usage, message)

    check_one_of(options, console, "topic", "include")
    if options.has("partition"):
        options.number("partition")
        if not options.has("topic"):
            wrong("The topic is required when partition is specified.")
        if options.has("from-beginning") and options.has("offset"):
            wrong("Options from-beginning and offset cannot be specified together.")
    elif options.has("offset"):
        wrong("The partition is required when offset is specified.")
    check_required(options, console, "bootstrap-server")
    property_name, config_name = _names_used(
        options,
        console,
        {"consumer-property": "command-property", "consumer.config": "command-config"},
    )
    file = read_properties(options.value(config_name))
    extra = key_values(options.values(property_name))
    group = _group(options, console, file, extra)
    java = file | extra
    _set_reset(options, console, java)
    java["bootstrap.servers"] = options.text("bootstrap-server")
    java.setdefault("client.id", "console-consumer")
    if options.has("isolation-level") or "isolation.level" not in java:
        java["isolation.level"] = options.text("isolation-level", "read_uncommitted")
    if group is None:
        java["group.id"] = f"console-consumer-{chance()}"
        java.setdefault("enable.auto.commit", "false")
    else:
        java["group.id"] = group
    return java


def _names_used(options: Options, console: Console, renamed: Mapping[str, str]) -> list[str]:
    """Return under which names options are given, and warn of those that have a newer name."""
    for old, new in renamed.items():
        if options.has(old) and options.has(new):
            console.usage(
                options.usage, f"Options --{old} and --{new} cannot be specified together."
            )
    for old, new in renamed.items():
        if options.has(old):
            console.say(
                f"Option --{old} is deprecated and will be removed in a future version. Use --{new}"
                " instead."
            )
    return [old if options.has(old) else new for old, new in renamed.items()]


def _group(
    options: Options, console: Console, file: Mapping[str, str], extra: Mapping[str, str]
) -> str | None:
    given = [options.value("group"), file.get("group.id"), extra.get("group.id")]
    found = hash_order((one for one in given if one is not None), text_hash)
    if len(found) > 1:
        listed = ", ".join(f"'{one}'" for one in found)
        console.usage(
            options.usage,
            "The group ids provided in different places (directly using '--group', via"
            " '--consumer-property', or via '--consumer.config') do not match. Detected group ids:"
            f" {listed}",
        )
    if found and options.has("partition"):
        console.usage(options.usage, "Options group and partition cannot be specified together.")
    return found[0] if found else None


def _set_reset(options: Options, console: Console, java: dict[str, str]) -> None:
    given = java.get("auto.offset.reset")
    if given is None:
        java["auto.offset.reset"] = "earliest" if options.has("from-beginning") else "latest"
    elif options.has("from-beginning") and given != "earliest":
        console.say_error(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={given}', please"
            " remove one option"
        )
        console.exit(1)


def parse_offset(options: Options, console: Console) -> int:
    """Return where a partition is read from: an offset, or -2 for its beginning, -1 for its end."""
    if not options.has("offset"):
        return _BEGINNING if options.has("from-beginning") else _END
    text = options.text("offset")
    if text.lower() in ("earliest", "latest"):
        return _BEGINNING if text.lower() == "earliest" else _END
    number = parse_int(text, 64)
    if number is None or number < 0:
        console.usage(
            options.usage,
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest',"
            " 'latest', or a non-negative long.",
        )
    return number


def _formatter(options: Options, console: Console) -> Formatter | None:
    """Return how records are printed; None: not at all."""
    name = options.text("formatter", f"{_PACKAGE}.DefaultMessageFormatter")
    if name not in _FORMATTERS:
        console.usage(options.usage, name)
    (used,) = _names_used(options, console, {"property": "formatter-property"})
    settings = read_properties(options.value("formatter-config"))
    for what in ("key", "value"):
        if options.text(f"{what}-deserializer"):
            settings[f"{what}.deserializer"] = options.text(f"{what}-deserializer")
    settings |= key_values(options.values(used))
    if name.endswith("NoOpMessageFormatter"):
        return None
    return formatter(settings, lambda text: console.log("ERROR", text))


def consumer_settings(java: Mapping[str, str], warn: Callable[[str], None]) -> dict[str, Any]:
    """Return the settings of librdkafka."""
    settings: dict[str, Any] = dict(librdkafka(java, warn))
    return settings | {
        # Offsets are stored when a record was printed, so none is committed that was not.
        "enable.auto.offset.store": False,
        "queued.max.messages.kbytes": _QUEUED_KBYTES,
        "log_level": 0,
    }


# ---------------------------------------------------------------------------- reading


class _Stop(BaseException):
    """A signal came."""


@dataclass(slots=True)
class _Reading:
    """Reads until there is enough, or nothing comes, or a signal does."""

    consumer: Any
    console: Console
    formatter: Formatter | None
    java: Mapping[str, str]
    options: Options
    count: int = 0
    starts: dict[tuple[str, int], int] = field(default_factory=dict)
    """Where partitions without a committed offset were begun."""

    def run(self, partition: int | None, offset: int) -> int:
        """Read, and return the exit code."""
        code = 0
        signal.signal(signal.SIGTERM, _stop)
        try:
            self._begin(partition, offset)
            self._loop()
        except KeyboardInterrupt:
            code = _INTERRUPTED
        except _Stop:
            code = _TERMINATED
        except BrokenPipeError:
            self.console.say_error("Unable to write to standard out, closing consumer.")
        except Thrown as thrown:
            self.console.log("ERROR", f"Unknown error when running consumer: {thrown}")
            code = 1
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._end(partition)
        self.console.say_error(f"Processed a total of {self.count} messages")
        if self.options.has("enable-systest-events"):
            self.console.say("shutdown_complete")
        return code

    def _begin(self, partition: int | None, offset: int) -> None:
        if partition is not None:
            from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

            words = {_BEGINNING: OFFSET_BEGINNING, _END: OFFSET_END}
            start = words.get(offset, offset)
            self.consumer.assign([TopicPartition(self.options.text("topic"), partition, start)])
            return
        topic = self.options.value("topic")
        chosen = topic if topic is not None else f"^({self.options.text('include')})$"
        self.consumer.subscribe([chosen], on_assign=self._assigned)

    def _assigned(self, consumer: Any, partitions: list[Any]) -> None:
        """Remember where each partition begins, as Java's consumer does, which commits it too."""
        if not self._commits or self.java.get("group.protocol", "classic").lower() != "classic":
            return
        if self.java.get("auto.offset.reset") not in ("earliest", "latest"):
            return
        at_end = self.java["auto.offset.reset"] == "latest"
        for one in consumer.committed(partitions, timeout=_ASK_S):
            if one.offset < 0:
                low, high = consumer.get_watermark_offsets(one, timeout=_ASK_S)
                self.starts[one.topic, one.partition] = high if at_end else low
        for one in partitions:
            one.offset = self.starts.get((one.topic, one.partition), one.offset)
        if "Cooperative" not in self.java.get("partition.assignment.strategy", ""):
            consumer.assign(partitions)

    @property
    def _commits(self) -> bool:
        return self.java.get("enable.auto.commit", "true").strip().lower() == "true"

    def _loop(self) -> None:
        most = self.options.number("max-messages", -1)
        given = self.options.number("timeout-ms", -1)
        timeout_s = given / 1000 if given is not None and given >= 0 else None
        skips = self.options.has("skip-message-on-error")
        heard_s = time.monotonic()
        while most == -1 or self.count < (most or 0):
            message = self.consumer.poll(0)
            if message is None:
                # There is nothing to read now, so what was printed so far is shown.
                self.console.flush()
                wait_s = _POLL_S if timeout_s is None else min(_POLL_S, timeout_s)
                message = self.consumer.poll(wait_s)
            if message is None or message.error() is not None:
                if message is not None:
                    self.console.warn(message.error().str())
                if timeout_s is not None and time.monotonic() - heard_s > timeout_s:
                    self.console.log(
                        "ERROR",
                        "Error processing message, terminating consumer process:"
                        " org.apache.kafka.common.errors.TimeoutException"
                        f" ({_PACKAGE}.ConsoleConsumer)",
                    )
                    break
                continue
            heard_s = time.monotonic()
            self.count += 1
            try:
                if self.formatter is not None:
                    self.console.write(self.formatter.format(_seen(message)))
            except Thrown as thrown:
                if not skips:
                    raise
                self.console.log(
                    "ERROR", f"Error processing message, skipping this message: {thrown}"
                )
            self.consumer.store_offsets(message)
        self.console.flush()

    def _end(self, partition: int | None) -> None:
        if partition is None and self._commits and self.starts:
            from confluent_kafka import KafkaException, TopicPartition

            try:
                positions = self.consumer.position(self.consumer.assignment())
                untouched = [
                    TopicPartition(one.topic, one.partition, start)
                    for one in positions
                    if one.offset < 0
                    and (start := self.starts.get((one.topic, one.partition))) is not None
                ]
                if untouched:
                    self.consumer.commit(offsets=untouched, asynchronous=False)
            except KafkaException as error:
                self.console.warn(error.args[0].str())
        self.consumer.close()


def _stop(*_: object) -> NoReturn:
    raise _Stop


def _seen(message: Any) -> Seen:
    kind, timestamp = message.timestamp()
    return Seen(
        message.partition(),
        message.offset(),
        _TIMES.get(kind),
        timestamp,
        message.key(),
        message.value(),
        message.headers() or (),
    )
