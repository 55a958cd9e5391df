"""kafka-topics: topics are created, listed, described, altered and deleted."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing

from lakelog_kafka_tools import admin
from lakelog_kafka_tools.admin import Entry, Moving, Resource, Topic
from lakelog_kafka_tools.cluster import Cluster, Connect, open_cluster
from lakelog_kafka_tools.filters import include
from lakelog_kafka_tools.grammar import Options
from lakelog_kafka_tools.java import (
    described_order,
    id_bytes,
    id_text,
    parse_int,
    split,
)
from lakelog_kafka_tools.running import (
    Console,
    check_invalid,
    check_required,
    start,
)
from lakelog_kafka_tools.settings import read_properties
from lakelog_kafka_tools.thrown import Thrown, illegal, number_error, unless_thrown
from lakelog_kafka_tools.topics_text import Reports, partition_text, topic_text

__all__ = ["parse_assignment", "run"]

_ABOUT = "Topics: create, list, describe, alter, delete."
_REPORTS = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
_NO_ID = bytes(16)
_EXISTS, _INVALID_CONFIG = 36, 40
_COLLIDE = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_')"
    " could collide. To avoid issues it is best to use either, but not both.\n"
)


def run(arguments: Sequence[str], console: Console, connect: Connect = open_cluster) -> int:
    """Run the tool."""
    try:
        options = start(
            "kafka-topics",
            arguments,
            console,
            _ABOUT,
            empty="Create, delete, describe, or change a topic.",
        )
        _check(options, console)
        properties = read_properties(options.value("command-config"))
        opened = connect(options.text("bootstrap-server"), properties, console.warn)
    except Thrown as thrown:
        console.say_error(f"{thrown.message}\n{thrown.trace()}")
        return 1
    try:
        with closing(opened) as cluster:
            action = next(name for name in _ACTIONS if options.has(name))
            _ACTIONS[action](options, console, cluster)
    except Thrown as thrown:
        console.say(f"Error while executing topic command : {thrown.message}")
        return 1
    return 0


def _check(options: Options, console: Console) -> None:
    if sum(options.has(name) for name in _ACTIONS) != 1:
        console.usage(
            options.usage,
            "Command must include exactly one action: --list, --describe, --create, --alter or"
            " --delete",
        )
    if options.has("delete-config"):
        console.say_error(
            "delete-config option is no longer supported and deprecated since version 4.0. The"
            " config will be fully removed in future releases."
        )
    if not options.has("bootstrap-server"):
        raise illegal("--bootstrap-server must be specified")
    if options.has("describe") and options.has("if-exists"):
        if not options.has("topic", "topic-id"):
            console.usage(options.usage, "--topic or --topic-id is required to describe a topic")
        if options.has("topic") and options.has("topic-id"):
            console.say(
                "Only topic id will be used when both --topic and --topic-id are specified and"
                " topicId is not Uuid.ZERO_UUID"
            )
    if not options.has("list", "describe"):
        check_required(options, console, "topic")
    if options.has("alter"):
        if options.has("config"):
            console.usage(
                options.usage,
                'Option combination "[[bootstrap-server], [config]]" can\'t be used with option'
                ' "[alter]" (To alter topic configurations, the kafka-configs tool can be used.)',
            )
        check_required(options, console, "partitions")
    _check_together(options, console)


def _check_together(options: Options, console: Console) -> None:
    def only(used: str, *actions: str, other: Sequence[str] = ()) -> None:
        forbidden = [name for name in _ACTIONS if name not in actions]
        check_invalid(options, console, used, *forbidden, *other)

    only("config", "alter", "create")
    only("partitions", "alter", "create")
    only("replication-factor", "create")
    only("replica-assignment", "alter", "create")
    if options.has("create"):
        names = ("replica-assignment", "partitions", "replication-factor")
        check_invalid(options, console, *names)
    for report in _REPORTS:
        only(report, "describe", other=["topics-with-overrides"])
    only("topics-with-overrides", "describe", other=_REPORTS)
    only("if-exists", "alter", "delete", "describe")
    only("if-not-exists", "create")
    only("exclude-internal", "list", "describe")


# ---------------------------------------------------------------------------- plans


def parse_assignment(text: str) -> list[list[int]]:
    """Return the brokers of each partition: ``1:2,2:3``.

    Raises:
        Thrown: it is not that, or does not make sense.
    """
    found: list[list[int]] = []
    for number, part in enumerate(split(text, ",")):
        brokers: list[int] = []
        for one in (piece.strip() for piece in split(part, ":")):
            broker = parse_int(one)
            if broker is None:
                raise number_error(one)
            brokers.append(broker)
        twice = [one for one in dict.fromkeys(brokers) if brokers.count(one) > 1]
        if twice:
            listed = ",".join(map(str, twice))
            raise Thrown(
                "org.apache.kafka.tools.AdminCommandFailedException",
                f"Partition replica lists may not contain duplicate entries: {listed}",
            )
        found.append(brokers)
        if len(brokers) != len(found[0]):
            raise Thrown(
                "org.apache.kafka.tools.AdminOperationException",
                f"Partition {number} has different replication factor: {brokers}",
            )
    return found


def _parse_configs(options: Options) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in options.values("config"):
        parts = split(text, r"\s*=\s*")
        if len(parts) != 2:
            raise illegal(
                "requirement failed: Invalid topic config: all configs to be added must be in the"
                ' format "key=val".'
            )
        found[parts[0].strip()] = parts[1].strip()
    return found


def _assignment(options: Options) -> list[list[int]]:
    text = options.text("replica-assignment")
    return parse_assignment(text) if text else []


# ---------------------------------------------------------------------------- work


def _topics(options: Options, cluster: Cluster) -> list[str]:
    without = options.has("exclude-internal")
    found = sorted(
        row.name for row in admin.list_topics(cluster) if not (without and row.is_internal)
    )
    return [name for name in found if include(options.value("topic"), name, without)]


def _existing(options: Options, cluster: Cluster) -> list[str]:
    found = _topics(options, cluster)
    wanted = options.value("topic")
    if wanted and not found and not options.has("if-exists"):
        raise illegal(f"Topic '{wanted}' does not exist as expected")
    return found


def _create(options: Options, console: Console, cluster: Cluster) -> None:
    name = options.text("topic")
    partitions, replication = options.number("partitions"), options.number("replication-factor")
    assignment, configs = _assignment(options), _parse_configs(options)
    warning = _COLLIDE if "_" in name or "." in name else ""
    try:
        if replication is not None and not 1 <= replication <= 32767:
            raise illegal("The replication factor must be between 1 and 32767 inclusive")
        if partitions is not None and partitions < 1:
            raise illegal("The partitions must be greater than 0")
        admin.create_topic(cluster, name, partitions, replication, assignment, configs)
    except Thrown as thrown:
        # Apache's tool looks at the settings itself, and before it warns.
        if thrown.code != _INVALID_CONFIG:
            console.put(warning)
        if thrown.code == _EXISTS and options.has("if-not-exists"):
            return
        raise
    console.put(f"{warning}Created topic {name}.\n")


def _list(options: Options, console: Console, cluster: Cluster) -> None:
    console.say("\n".join(_topics(options, cluster)))


def _alter(options: Options, console: Console, cluster: Cluster) -> None:  # noqa: ARG001
    count, assignment = options.number("partitions"), _assignment(options)
    topics = _existing(options, cluster)
    assert count is not None
    if not topics:
        return
    if not assignment:
        admin.create_partitions(cluster, dict.fromkeys(topics, (count, None)))
        return
    known = admin.describe_topics(cluster, topics)
    partitions = {name: unless_thrown(known[name]).partitions for name in topics}
    admin.create_partitions(
        cluster, {name: (count, assignment[len(partitions[name]) :]) for name in topics}
    )


def _delete(options: Options, console: Console, cluster: Cluster) -> None:  # noqa: ARG001
    admin.delete_topics(cluster, _existing(options, cluster))


def _describe(options: Options, console: Console, cluster: Cluster) -> None:
    given = options.value("topic-id")
    topic_id = id_bytes(given) if given is not None else _NO_ID
    if topic_id != _NO_ID:
        topics = _by_id(options, cluster, topic_id)
    else:
        topics = _by_names(options, cluster)
    resources = [Resource(admin.TOPIC, topic.name) for topic in topics]
    configs = admin.describe_configs(cluster, resources) if resources else {}
    alive = set(cluster.nodes("describeCluster"))
    moving = admin.list_reassignments(cluster, topics)
    reports = Reports(
        under_replicated=options.has("under-replicated-partitions"),
        unavailable=options.has("unavailable-partitions"),
        under_min_isr=options.has("under-min-isr-partitions"),
        at_min_isr=options.has("at-min-isr-partitions"),
        overridden=options.has("topics-with-overrides"),
        alive=alive,
    )
    for topic in topics:
        entries = unless_thrown(configs[Resource(admin.TOPIC, topic.name)])
        for line in _lines(topic, entries, moving, reports):
            console.say(line)


def _lines(
    topic: Topic,
    entries: Sequence[Entry],
    moving: Mapping[tuple[str, int], Moving],
    reports: Reports,
) -> Iterable[str]:
    if reports.shows_topic(entries):
        yield topic_text(topic, entries, moving.get((topic.name, topic.partitions[0].number)))
    for partition in topic.partitions:
        on_its_way = moving.get((topic.name, partition.number))
        if reports.shows_partition(partition, entries, on_its_way):
            yield partition_text(topic.name, partition, on_its_way)


def _by_id(options: Options, cluster: Cluster, topic_id: bytes) -> list[Topic]:
    without = options.has("exclude-internal")
    listed = admin.list_topics(cluster)
    if any(row.topic_id == topic_id and not (without and row.is_internal) for row in listed):
        return [admin.describe_topic_ids(cluster, topic_id)]
    if options.has("if-exists"):
        return []
    raise illegal(f"TopicId '{id_text(topic_id)}' does not exist as expected")


def _by_names(options: Options, cluster: Cluster) -> list[Topic]:
    names = _existing(options, cluster)
    limit = options.number("partition-size-limit-per-response", admin.PARTITIONS_PER_ANSWER)
    assert limit is not None
    found = admin.describe_topics(cluster, names, limit)
    return [unless_thrown(found[name]) for name in described_order(names)]


_ACTIONS: Mapping[str, Callable[[Options, Console, Cluster], None]] = {
    "create": _create,
    "list": _list,
    "alter": _alter,
    "describe": _describe,
    "delete": _delete,
}
