"""kafka-consumer-groups: groups are listed, described and deleted, and their offsets reset."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from lakelog_kafka_tools import admin, group_admin, groups_text, resets
from lakelog_kafka_tools.cluster import Cluster, Connect, open_cluster
from lakelog_kafka_tools.grammar import Options
from lakelog_kafka_tools.group_admin import TopicPartition
from lakelog_kafka_tools.groups_text import Row, shows_members
from lakelog_kafka_tools.java import hash_order, partition_hash, split, text_hash
from lakelog_kafka_tools.running import (
    Console,
    check_invalid,
    check_required,
    start,
)
from lakelog_kafka_tools.settings import read_properties
from lakelog_kafka_tools.thrown import (
    EXECUTION,
    Thrown,
    failure,
    illegal,
    unless_thrown,
)

__all__ = ["run"]

_ABOUT = "Consumer groups: list, describe, delete, and set their offsets."
_AVAILABLE_IF = {
    "members": ("describe",),
    "verbose": ("describe",),
    "offsets": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
}
_STATES = (
    "PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning",
    "Reconciling",
)  # fmt: skip
_NOT_EXECUTED = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this"
    " command will require either --dry-run or --execute to be specified. You should add the"
    " --dry-run option explicitly if you are scripting this command and want to keep the current"
    " default behavior without prompting."
)
_TIMEOUT_MS = 30_000


def run(arguments: Sequence[str], console: Console, connect: Connect = open_cluster) -> int:
    """Run the tool."""
    options = start("kafka-consumer-groups", arguments, console, _ABOUT)
    _check_available(options)
    _check(options, console)
    actions = [*_ACTIONS, "validate-regex"]
    action = [name for name in actions if options.has(name)]
    if len(action) != 1:
        listed = ", ".join(f"--{name}" for name in actions)
        console.usage(options.usage, f"Command must include exactly one action: {listed}")
    if options.has("validate-regex"):
        _validate(options, console)
        return 0
    try:
        timeout = options.number("timeout", _TIMEOUT_MS)
        properties = read_properties(options.value("command-config"))
        bootstrap = options.text("bootstrap-server")
        with closing(connect(bootstrap, properties, console.warn, timeout)) as cluster:
            _ACTIONS[action[0]](options, console, cluster)
    except Thrown as thrown:
        if thrown.kind == "java.lang.IllegalArgumentException":
            console.usage(options.usage, thrown.message)
        _fail(console, f"Executing consumer group command failed due to {thrown.message}")
        console.say_error(thrown.trace(), end="")
    return 0


# ---------------------------------------------------------------------------- checks


def _check_available(options: Options) -> None:
    for name, needs in _AVAILABLE_IF.items():
        if options.has(name) and not options.has(*needs):
            raise Thrown(
                "joptsimple.UnavailableOptionException",
                f"Option(s) [{name}] are unavailable given other options on the command line",
            )


def _check(options: Options, console: Console) -> None:
    def wrong(message: str) -> None:
        console.usage(options.usage, message)

    if not options.has("validate-regex"):
        check_required(options, console, "bootstrap-server")
    has_groups = options.has("group", "all-groups")
    scope = "takes one of these options: [group], [all-groups]"
    if options.has("describe"):
        if not has_groups:
            wrong(f"Option [describe] {scope}")
        if sum(options.has(name) for name in ("members", "offsets", "state")) > 1:
            wrong(
                "Option [describe] takes at most one of these options: [members], [offsets],"
                " [state]"
            )
        if options.value("state") is not None:
            wrong("Option [describe] does not take a value for [state]")
    if options.has("delete"):
        if not has_groups:
            wrong(f"Option [delete] {scope}")
        if options.has("topic"):
            wrong(
                "The consumer does not support topic-specific offset deletion from a consumer"
                " group."
            )
    if options.has("delete-offsets") and not (options.has("group") and options.has("topic")):
        wrong("Option [delete-offsets] takes the following options: [group], [topic]")
    if options.has("reset-offsets"):
        if options.has("dry-run") and options.has("execute"):
            wrong("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
        if not options.has("dry-run", "execute"):
            console.say_error(_NOT_EXECUTED)
        if not has_groups:
            wrong(f"Option [reset-offsets] {scope}")
        for name in resets.SCENARIOS:
            others = (one for one in resets.SCENARIOS if one != name)
            check_invalid(options, console, name, *others)
    check_invalid(options, console, "group", "all-groups")
    check_invalid(options, console, "group", "list")
    check_invalid(options, console, "topic", "list", "describe")


def _validate(options: Options, console: Console) -> None:
    regex = options.text("validate-regex")
    try:
        re.compile(regex)
    except re.error as error:
        console.say(f"The regular expression `{regex}` is invalid: {error.msg}.")
    else:
        console.say(f"The regular expression `{regex}` is valid.")


def _fail(console: Console, message: str) -> None:
    console.say(f"\nError: {message}")


# ---------------------------------------------------------------------------- work


def _list(options: Options, console: Console, cluster: Cluster) -> None:
    if not options.has("type", "state"):
        for row in group_admin.list_groups(cluster):
            console.say(row.group_id)
        return
    types = _types(options.text("type"))
    states = _states(options.text("state"))
    found = group_admin.list_groups(cluster, states, types)
    console.put(groups_text.listing(found, options.has("type"), options.has("state")))


def _types(text: str) -> list[str]:
    if not text:
        return []
    found = [one.strip().title() for one in split(text.lower(), ",")]
    if not set(found) <= {"Classic", "Consumer"}:
        raise illegal(f"Invalid types list '{text}'. Valid types are: Classic, Consumer")
    return found


def _states(text: str) -> list[str]:
    if not text:
        return []
    known = {one.lower().replace("_", ""): one for one in _STATES}
    found = [known.get(one.strip().lower().replace("_", ""), "Unknown") for one in split(text, ",")]
    if "Unknown" in found:
        raise illegal(f"Invalid state list '{text}'. Valid states are: {', '.join(_STATES)}")
    return found


def _groups(options: Options, cluster: Cluster) -> list[group_admin.Group]:
    names = resets.chosen_groups(options, cluster)
    described = group_admin.describe_groups(cluster, names)
    return [unless_thrown(described[name], EXECUTION) for name in hash_order(names, text_hash)]


def _describe(options: Options, console: Console, cluster: Cluster) -> None:
    verbose = options.has("verbose")
    groups = sorted(_groups(options, cluster), key=lambda group: group.group_id)
    if options.has("members"):
        for group in groups:
            shown = shows_members(group, len(group.members), console)
            console.put(groups_text.members(group, verbose, shown))
    elif options.has("state"):
        for group in groups:
            if shows_members(group, 1, console):
                console.put(groups_text.state(group, verbose))
    else:
        rows = {group.group_id: _offset_rows(cluster, group) for group in groups}
        for group in groups:
            if shows_members(group, len(rows[group.group_id]), console):
                console.put(groups_text.offsets(rows[group.group_id], verbose))


def _offset_rows(cluster: Cluster, group: group_admin.Group) -> list[Row]:
    committed = resets.committed_offsets(cluster, group.group_id)
    rows: list[Row] = []
    taken: set[TopicPartition] = set()
    members = [member for member in group.members if member.assigned]
    for member in sorted(members, key=lambda one: -len(set(one.assigned))):
        partitions = set(member.assigned)
        taken |= partitions
        who = member.member_id, member.host, member.client_id
        rows += _partition_rows(cluster, group.group_id, partitions, committed, who)
    left = {partition for partition in committed if partition not in taken}
    rows += _partition_rows(cluster, group.group_id, left, committed, ("-", "-", "-"))
    return rows


def _partition_rows(
    cluster: Cluster,
    group: str,
    partitions: set[TopicPartition],
    committed: dict[TopicPartition, group_admin.Committed | None],
    who: tuple[str, str, str],
) -> list[Row]:
    if not partitions:
        return []
    leaders = admin.partition_leaders(cluster, {topic for topic, _ in partitions})
    led = [one for one in sorted(partitions) if leaders.get(one, -1) is not None]
    ends = resets.offsets_at(cluster, led, group_admin.LATEST)
    return [Row(group, *one, committed.get(one), ends.get(one), *who) for one in sorted(partitions)]


def _delete(options: Options, console: Console, cluster: Cluster) -> None:
    results = group_admin.delete_groups(cluster, resets.chosen_groups(options, cluster))
    order = hash_order(results, text_hash)
    deleted = ", ".join(f"'{name}'" for name in order if results[name] is None)
    failed = [name for name in order if results[name] is not None]
    if not failed:
        console.say(f"Deletion of requested consumer groups ({deleted}) was successful.")
        return
    _fail(console, "Deletion of some consumer groups failed:")
    for name in failed:
        console.say(f"* Group '{name}' could not be deleted due to: {results[name]}")
    if deleted:
        console.say(f"\nThese consumer groups were deleted successfully: {deleted}")


def _delete_offsets(options: Options, console: Console, cluster: Cluster) -> None:
    group, topics = options.text("group"), options.values("topic")
    results: dict[TopicPartition, Thrown | None] = {}
    whole = [topic for topic in topics if ":" not in topic]
    partitions = [one for topic in topics if ":" in topic for one in resets.partitions_of(topic)]
    for name, topic in admin.describe_topics(cluster, whole).items():
        if isinstance(topic, Thrown):
            results[name, -1] = topic
        else:
            partitions += ((name, one.number) for one in topic.partitions)
    partitions = hash_order(partitions, partition_hash)
    try:
        found = group_admin.delete_offsets(cluster, group, partitions)
        code = next((one.code for one in map(found.get, partitions) if one is not None), 0)
        results |= {partition: found.get(partition) for partition in partitions}
    except Thrown as thrown:
        code = thrown.code
        results |= dict.fromkeys(partitions, thrown)
    if code == 0:
        console.say(f"Request succeeded for deleting offsets from group {group}.")
    elif code in (24, 69, 30, 68):
        _fail(console, failure(code).message)
    elif code in (86, 29, 3):
        _fail(console, "Encountered some partition-level error, see the follow-up details.")
    else:
        _fail(console, f"Encountered some unknown error: {failure(code).name}")
    console.put(groups_text.deletions(results))


_ACTIONS: Mapping[str, Callable[[Options, Console, Cluster], None]] = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "reset-offsets": resets.reset,
    "delete-offsets": _delete_offsets,
}
