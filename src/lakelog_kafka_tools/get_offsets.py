"""kafka-get-offsets: offsets of partitions, at their ends or at a time."""

from collections.abc import Sequence
from contextlib import closing

from lakelog_kafka_tools import admin, group_admin
from lakelog_kafka_tools.cluster import Connect, check_bootstrap, open_cluster
from lakelog_kafka_tools.filters import TERSE, partition_rules, partition_set
from lakelog_kafka_tools.grammar import Options
from lakelog_kafka_tools.java import described_order, parse_int
from lakelog_kafka_tools.running import Console, check_required, start
from lakelog_kafka_tools.settings import read_properties
from lakelog_kafka_tools.thrown import EXECUTION, Thrown, unless_thrown

__all__ = ["parse_time", "run"]

_ABOUT = "Where partitions begin and end, and what was written when."
_WORDS = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}


def run(arguments: Sequence[str], console: Console, connect: Connect = open_cluster) -> int:
    """Run the tool."""
    try:
        options = start("kafka-get-offsets", arguments, console, _ABOUT)
    except Thrown as thrown:
        console.say_error(f"Error occurred: {thrown.message}")
        return 1
    check_required(options, console, "bootstrap-server")
    try:
        wrong = check_bootstrap(options.value("bootstrap-server"))
        if wrong:
            console.usage(options.usage, wrong)
        _fetch(options, console, connect)
    except Thrown as thrown:
        console.say_error(f"Error occurred: {thrown.message}")
        if thrown.kind != TERSE:
            console.say_error(thrown.trace())
        return 1
    return 0


def parse_time(text: str) -> int:
    """Return a time in milliseconds, or the number of a named position.

    Raises:
        Thrown: it is neither.
    """
    found = _WORDS.get(text)
    number = parse_int(text, 64) if found is None else found
    if number is None:
        words = " / ".join(f"{value} or {word}" for word, value in _WORDS.items())
        raise Thrown(
            TERSE,
            f"Malformed time argument {text}. Please use {words}, or a specified long format"
            " timestamp",
        )
    return number


def _fetch(options: Options, console: Console, connect: Connect) -> None:
    if options.has("topic-partitions") and options.has("topic", "partitions"):
        raise Thrown(TERSE, "--topic-partitions cannot be used with --topic or --partitions")
    time = parse_time(options.text("time", "latest"))
    if options.has("topic-partitions"):
        rule = partition_rules(options.text("topic-partitions"))
    else:
        rule = partition_set(options.value("topic"), options.value("partitions"))
    properties = read_properties(options.value("command-config"))
    properties["client.id"] = "GetOffsetShell"
    opened = connect(options.text("bootstrap-server"), properties, console.warn)
    with closing(opened) as cluster:
        without = options.has("exclude-internal-topics")
        listed = admin.list_topics(cluster)
        names = [row.name for row in listed if not (without and row.is_internal)]
        topics = admin.describe_topics(cluster, [name for name in names if rule(name, None)])
        partitions = [
            (name, one.number)
            for name in described_order(sorted(topics))
            for one in unless_thrown(topics[name], EXECUTION).partitions
            if rule(name, one.number)
        ]
        if not partitions:
            raise Thrown(TERSE, "Could not match any topic-partitions with the specified filters")
        offsets = group_admin.list_offsets(cluster, partitions, time)
    for name, number in partitions:
        found = offsets[name, number]
        if isinstance(found, Thrown):
            console.say_error(
                f"Skip getting offsets for topic-partition {name}-{number} due to error: {found}"
            )
    for name, number in sorted(partitions, key=lambda one: f"{one[0]}-{one[1]}"):
        found = offsets[name, number]
        if isinstance(found, int) and found != -1:
            console.say(f"{name}:{number}:{found}")
