"""--reset-offsets of kafka-consumer-groups: the offsets at which groups go on reading.

groups -> partitions -> offsets asked for -> those that are there -> committed, or only shown
"""

import csv
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from lakelog_kafka_tools import admin, group_admin
from lakelog_kafka_tools.cluster import Cluster
from lakelog_kafka_tools.grammar import Options
from lakelog_kafka_tools.group_admin import Committed, TopicPartition
from lakelog_kafka_tools.groups_text import Plan, plan_text
from lakelog_kafka_tools.java import (
    described_order,
    hash_order,
    parse_int,
    partition_hash,
    read_datetime,
    read_duration_ms,
    split,
    text_hash,
)
from lakelog_kafka_tools.running import Console
from lakelog_kafka_tools.thrown import (
    EXECUTION,
    RUNTIME,
    Thrown,
    illegal,
    kafka_error,
    unless_thrown,
)

__all__ = [
    "chosen_groups",
    "committed_offsets",
    "offsets_at",
    "partitions_of",
    "read_plan",
    "reset",
]

_UNKNOWN_GROUP = 69
SCENARIOS = (
    "to-offset", "shift-by", "to-datetime", "by-duration", "to-earliest", "to-latest",
    "to-current", "from-file",
)  # fmt: skip
PLAN_BYTES_MAX = 64 * 1024 * 1024


def chosen_groups(options: Options, cluster: Cluster) -> list[str]:
    """Return the groups that options name."""
    if options.has("all-groups"):
        return [row.group_id for row in group_admin.list_groups(cluster)]
    return options.values("group")


def reset(options: Options, console: Console, cluster: Cluster) -> None:
    """Reset offsets of groups, or show what they would be reset to."""
    names = chosen_groups(options, cluster)
    described = group_admin.describe_groups(cluster, names)
    plans: dict[str, Plan] = {}
    for name in hash_order(names, text_hash):
        group = described[name]
        if isinstance(group, Thrown):
            if group.code != _UNKNOWN_GROUP:
                raise group.inside(EXECUTION, RUNTIME)
        elif group.state not in ("Empty", "Dead"):
            console.say(
                f"\nError: Assignments can only be reset if the group '{name}' is inactive, but the"
                f" current state is {group.state}."
            )
            plans[name] = {}
            continue
        plans[name] = _reset_group(options, console, cluster, name)
    order = hash_order(plans, text_hash)
    shown = {name: _ordered(plans[name]) for name in order}
    if options.has("export"):
        console.say(_exported(shown, len(options.values("group")) == 1))
    else:
        console.put(plan_text(shown))


def _ordered(plan: Plan) -> Plan:
    return {partition: plan[partition] for partition in hash_order(plan, partition_hash)}


def _exported(plans: Mapping[str, Plan], single: bool) -> str:
    lines: list[str] = []
    for name, plan in plans.items():
        for (topic, number), offset in plan.items():
            cells = [*([] if single else [_cell(name)]), _cell(topic), str(number), str(offset)]
            lines.append(",".join(cells) + "\n")
    return "".join(lines)


def _cell(text: str) -> str:
    plain = all(one.isalnum() or one in "._-" for one in text)
    return text if plain else '"' + text.replace('"', '""') + '"'


def _reset_group(options: Options, console: Console, cluster: Cluster, name: str) -> Plan:
    partitions = _partitions(options, console, cluster, name)
    _check_partitions(cluster, partitions)
    plan = _prepare(options, console, cluster, name, partitions)
    if options.has("execute") and plan:
        group_admin.alter_offsets(cluster, name, plan)
    return plan


# ---------------------------------------------------------------------------- partitions


def partitions_of(text: str) -> list[TopicPartition]:
    """Return what ``topic:0,1`` stands for.

    Raises:
        Thrown: it stands for nothing.
    """
    parts = split(text, ":")
    if len(parts) != 2:
        raise illegal(f"Invalid topic arg '{text}', expected topic name and partitions")
    found: list[TopicPartition] = []
    for part in split(parts[1], ","):
        number = parse_int(part)
        if number is None:
            raise illegal(f"Invalid partition '{part}' specified in topic arg '{text}''")
        found.append((parts[0], number))
    return found


def _partitions(
    options: Options, console: Console, cluster: Cluster, group: str
) -> list[TopicPartition]:
    if options.has("all-topics"):
        return hash_order(committed_offsets(cluster, group), partition_hash)
    if options.has("topic"):
        given = options.values("topic")
        found = [one for text in given if ":" in text for one in partitions_of(text)]
        whole = [text for text in given if ":" not in text]
        described = admin.describe_topics(cluster, whole)
        for name in described_order(whole):
            found += ((name, one.number) for one in unless_thrown(described[name]).partitions)
        return found
    if not options.has("from-file"):
        console.usage(
            options.usage, "One of the reset scopes should be defined: --all-topics, --topic."
        )
    return []


def _check_partitions(cluster: Cluster, partitions: Iterable[TopicPartition]) -> None:
    wanted = list(partitions)
    leaders = admin.partition_leaders(cluster, {topic for topic, _ in wanted})
    leaderless = [one for one in wanted if leaders.get(one, -1) is None]
    for refused, kind, code, what in (
        (
            [one for one in wanted if one not in leaders],
            "UnknownTopicOrPartition",
            3,
            "do not exist",
        ),
        (leaderless, "LeaderNotAvailable", 5, "have no leader"),
    ):
        if refused:
            listed = ",".join(f"{topic}-{number}" for topic, number in refused)
            raise kafka_error(kind, f'The partitions "{listed}" {what}', code)


def committed_offsets(cluster: Cluster, group: str) -> dict[TopicPartition, Committed | None]:
    """Return the offsets that a group has committed, by partition.

    Raises:
        Thrown: the cluster does not list them.
    """
    try:
        return group_admin.committed_offsets(cluster, group)
    except Thrown as thrown:
        raise thrown.inside(EXECUTION, RUNTIME) from None


# ---------------------------------------------------------------------------- offsets


def _prepare(
    options: Options,
    console: Console,
    cluster: Cluster,
    group: str,
    partitions: list[TopicPartition],
) -> Plan:
    wanted = hash_order(partitions, partition_hash)
    if not options.has(*SCENARIOS):
        listed = ", ".join(f"[{name}]" for name in SCENARIOS)
        console.usage(
            options.usage,
            f"Option '[reset-offsets]' requires one of the following scenarios: [{listed}]",
        )
    if options.has("to-offset"):
        offset = int((options.values("to-offset") or ["0"])[0])
        return _within(console, cluster, dict.fromkeys(wanted, offset))
    if options.has("to-earliest"):
        return offsets_at(cluster, wanted, group_admin.EARLIEST)
    if options.has("to-latest"):
        return offsets_at(cluster, wanted, group_admin.LATEST)
    if options.has("shift-by"):
        by, known = options.number("shift-by") or 0, committed_offsets(cluster, group)
        for topic, number in partitions:
            if known.get((topic, number)) is None:
                raise illegal(
                    f"Cannot shift offset for partition {topic}-{number} since there is no current"
                    " committed offset"
                )
        shifted = {one: at.offset + by for one in wanted if (at := known.get(one)) is not None}
        return _within(console, cluster, shifted)
    if options.has("to-datetime"):
        try:
            timestamp = read_datetime(options.values("to-datetime")[0])
        except Thrown as thrown:
            raise thrown.inside(RUNTIME) from None
        return _at_time(console, cluster, wanted, timestamp)
    if options.has("by-duration"):
        back_ms = read_duration_ms(options.text("by-duration"))
        now_ms = time.time_ns() // 1_000_000
        return _at_time(console, cluster, wanted, now_ms - back_ms)
    if options.has("from-file"):
        return _from_file(options, console, cluster, group)
    known = committed_offsets(cluster, group)
    plan = {one: at.offset for one in wanted if (at := known.get(one)) is not None}
    return plan | offsets_at(
        cluster, [one for one in wanted if one not in known], group_admin.LATEST
    )


def offsets_at(cluster: Cluster, partitions: Iterable[TopicPartition], timestamp: int) -> Plan:
    """Return for each partition the first offset at or after a time, -1 if there is none.

    Raises:
        Thrown: one of them cannot be looked up.
    """
    found = group_admin.list_offsets(cluster, list(partitions), timestamp)
    return {one: unless_thrown(found[one], EXECUTION, RUNTIME) for one in found}


def _at_time(
    console: Console, cluster: Cluster, partitions: list[TopicPartition], timestamp: int
) -> Plan:
    found = offsets_at(cluster, partitions, timestamp)
    behind = [one for one in hash_order(found, partition_hash) if found[one] == -1]
    for topic, number in behind:
        console.say(
            f"\nWarn: Partition {number} from topic {topic} is empty. Falling back to latest known"
            " offset."
        )
    return found | offsets_at(cluster, behind, group_admin.LATEST)


def _within(console: Console, cluster: Cluster, plan: Plan) -> Plan:
    """Return a plan whose offsets are there, and warn of those that were not."""
    first = offsets_at(cluster, plan, group_admin.EARLIEST)
    end = offsets_at(cluster, plan, group_admin.LATEST)
    found: Plan = {}
    for (topic, number), offset in plan.items():
        low, high = first[topic, number], end[topic, number]
        found[topic, number] = min(max(offset, low), high)
        if low <= offset <= high:
            continue
        bound = "higher than latest" if offset > high else "lower than earliest"
        console.warn(
            f"New offset ({offset}) is {bound} offset for topic partition {topic}-{number}. Value"
            f" will be set to {found[topic, number]} (org.apache.kafka.tools.OffsetsUtils)"
        )
    return found


def _from_file(options: Options, console: Console, cluster: Cluster, group: str) -> Plan:
    path = options.values("from-file")[0]
    try:
        with Path(path).open("rb") as file:
            text = file.read(PLAN_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        cause = Thrown("java.nio.file.NoSuchFileException", path)
        thrown = Thrown("java.io.IOException", f"Unable to read file {path}", cause=cause)
        raise thrown.inside(RUNTIME) from None
    plans = read_plan(text, options.values("group"))
    if group not in plans:
        console.say(f"\nError: No reset plan for group {group} found")
        return {}
    return _within(console, cluster, _ordered(plans[group]))


def read_plan(text: str, groups: list[str]) -> dict[str, Plan]:
    """Return the plans in a file: ``[group,]topic,partition,offset`` in each line.

    Raises:
        Thrown: a line is something else.
    """
    plans: dict[str, Plan] = {}
    for cells in csv.reader(text.rstrip("\n").split("\n")):
        short = len(groups) == 1 and len(cells) == 3
        name = groups[0] if short else (cells[0] if cells else "")
        rest = cells if short else cells[1:]
        number, offset = (parse_int(one.strip(), 64) for one in ([*rest, "", "", ""])[1:3])
        if len(rest) != 3 or number is None or offset is None:
            raise Thrown(
                "com.fasterxml.jackson.dataformat.csv.CsvReadException",
                f"not [group,]topic,partition,offset: {','.join(cells)}",
            ).inside(RUNTIME)
        plans.setdefault(name, {})[rest[0], number] = offset
    return plans
