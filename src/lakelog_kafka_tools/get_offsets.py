"""kafka-get-offsets: offsets of partitions, at their ends or at a time."""

from collections.abc import Callable, Sequence
from typing import NoReturn

from lakelog_kafka_tools import admin, group_admin
from lakelog_kafka_tools.cluster import Cluster, check_bootstrap, open_cluster
from lakelog_kafka_tools.filters import partition_rules, partition_set
from lakelog_kafka_tools.grammar import Options, Usage
from lakelog_kafka_tools.java import described_order, parse_int
from lakelog_kafka_tools.running import Console, check_required, start
from lakelog_kafka_tools.settings import read_properties
from lakelog_kafka_tools.thrown import EXECUTION, Thrown

__all__ = ["parse_time", "run"]

_ABOUT = "Where partitions begin and end, and what was written when."
_TERSE = "org.apache.kafka.tools.TerseException"
_WORDS = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
Connect = Callable[..., Cluster]


def run(arguments: Sequence[str], console: Console, connect: Connect = open_cluster) -> int:
    """Run the tool."""

    def misread(_: Usage, thrown: Thrown) -> NoReturn:
        console.complain(f"Error occurred: {thrown.message}")
        console.leave(1)

    options = start("kafka-get-offsets", arguments, console, _ABOUT, misread=misread)
    check_required(options, console, "bootstrap-server")
    try:
        wrong = check_bootstrap(options.value("bootstrap-server"))
        if wrong:
            console.usage(options.usage, wrong)
        _fetch(options, console, connect)
    except Thrown as thrown:
        console.complain(f"Error occurred: {thrown.message}")
        if thrown.kind != _TERSE:
            console.complain(thrown.trace())
        return 1
    return 0


def parse_time(text: str) -> int:
    """Return a time in milliseconds, or what a word stands for.

    Raises:
        Thrown: it is neither.
    """
    found = _WORDS.get(text)
    number = parse_int(text, 64) if found is None else found
    if number is None:
        words = " / ".join(f"{value} or {word}" for word, value in _WORDS.items())
        message = f"Malformed time argument {text}. Please use {words}, or a specified long format"
        raise Thrown(_TERSE, f"{message} timestamp")
    return number


def _fetch(options: Options, console: Console, connect: Connect) -> None:
    if options.has("topic-partitions") and options.has("topic", "partitions"):
        message = "--topic-partitions cannot be used with --topic or --partitions"
        raise Thrown(_TERSE, message)
    time = parse_time(options.text("time", "latest"))
    if options.has("topic-partitions"):
        rule = partition_rules(options.text("topic-partitions"))
    else:
        rule = partition_set(options.value("topic"), options.value("partitions"))
    path = options.value("command-config")
    properties = read_properties(path) if path is not None else {}
    properties["client.id"] = "GetOffsetShell"
    bootstrap = options.text("bootstrap-server")
    cluster = connect(bootstrap, properties, lambda text: console.log("WARN", text))
    try:
        without = options.has("exclude-internal-topics")
        listed = admin.list_topics(cluster)
        names = [row.name for row in listed if not (without and row.is_internal)]
        topics = admin.describe_topics(cluster, [name for name in names if rule(name, None)])
        partitions: list[tuple[str, int]] = []
        for name in described_order(sorted(topics)):
            topic = topics[name]
            if isinstance(topic, Thrown):
                raise topic.inside(EXECUTION)
            partitions += ((name, one.number) for one in topic.partitions if rule(name, one.number))
        if not partitions:
            message = "Could not match any topic-partitions with the specified filters"
            raise Thrown(_TERSE, message)
        offsets = group_admin.list_offsets(cluster, partitions, time)
    finally:
        cluster.close()
    for topic_name, number in partitions:
        found = offsets[topic_name, number]
        if isinstance(found, Thrown):
            where = f"{topic_name}-{number}"
            message = f"Skip getting offsets for topic-partition {where} due to error: {found}"
            console.complain(message)
    for topic_name, number in sorted(partitions, key=lambda one: f"{one[0]}-{one[1]}"):
        found = offsets[topic_name, number]
        if isinstance(found, int) and found != -1:
            console.say(f"{topic_name}:{number}:{found}")
