"""kafka-acls: ACLs are added, listed and removed.

Apache's tool prints ACLs in the order of hash tables whose hashes are other ones in every JVM. Here
they come in the order of their text.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import NamedTuple

from lakelog_kafka_tools import apis
from lakelog_kafka_tools.cluster import Cluster, Connect, open_cluster
from lakelog_kafka_tools.grammar import Options
from lakelog_kafka_tools.running import Console, check_invalid, start
from lakelog_kafka_tools.settings import read_properties
from lakelog_kafka_tools.thrown import EXECUTION, Thrown, check_codes, illegal

__all__ = ["run"]

_ABOUT = "This tool helps to manage acls on kafka."
_ACTIONS = ("add", "remove", "list")
_TYPES = {
    1: "ANY", 2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID", 6: "DELEGATION_TOKEN",
    7: "USER",
}  # fmt: skip
_PATTERNS = {1: "ANY", 2: "MATCH", 3: "LITERAL", 4: "PREFIXED"}
_OPERATIONS = {
    1: "ANY", 2: "ALL", 3: "READ", 4: "WRITE", 5: "CREATE", 6: "DELETE", 7: "ALTER", 8: "DESCRIBE",
    9: "CLUSTER_ACTION", 10: "DESCRIBE_CONFIGS", 11: "ALTER_CONFIGS", 12: "IDEMPOTENT_WRITE",
    13: "CREATE_TOKENS", 14: "DESCRIBE_TOKENS", 15: "TWO_PHASE_COMMIT",
}  # fmt: skip
_PERMISSIONS = {1: "ANY", 2: "DENY", 3: "ALLOW"}
_UNKNOWN = "UNKNOWN"
_SUPPORTED = {
    "TOPIC": (
        "READ", "WRITE", "CREATE", "DESCRIBE", "DELETE", "ALTER", "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
    ),
    "GROUP": ("READ", "DESCRIBE", "DELETE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    "CLUSTER": (
        "CREATE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE",
        "ALTER", "DESCRIBE",
    ),
    "TRANSACTIONAL_ID": ("DESCRIBE", "WRITE", "TWO_PHASE_COMMIT"),
    "DELEGATION_TOKEN": ("DESCRIBE",),
    "USER": ("CREATE_TOKENS", "DESCRIBE_TOKENS"),
}  # fmt: skip
_RESOURCES = {
    "topic": "TOPIC",
    "group": "GROUP",
    "transactional-id": "TRANSACTIONAL_ID",
    "delegation-token": "DELEGATION_TOKEN",
    "user-principal": "USER",
}


class Pattern(NamedTuple):
    """Which resources are meant."""

    kind: str
    name: str | None
    pattern: str

    def __str__(self) -> str:
        name = "<any>" if self.name is None else self.name
        return f"ResourcePattern(resourceType={self.kind}, name={name}, patternType={self.pattern})"


class Entry(NamedTuple):
    """Who may do what with them, or may not."""

    principal: str
    host: str
    operation: str
    permission: str

    def __str__(self) -> str:
        return (
            f"(principal={self.principal}, host={self.host}, operation={self.operation},"
            f" permissionType={self.permission})"
        )


CLUSTER = Pattern("CLUSTER", "kafka-cluster", "LITERAL")
Rules = dict[Pattern, set[Entry]]


def run(arguments: Sequence[str], console: Console, connect: Connect = open_cluster) -> int:
    """Run the tool."""
    options = start("kafka-acls", arguments, console, _ABOUT, usage_if_misread=True)
    _check(options, console)
    try:
        properties = read_properties(options.value("command-config"))
        servers = options.value("bootstrap-server") or options.text("bootstrap-controller")
        with closing(connect(servers, properties, console.warn)) as cluster:
            action = next(name for name in _ACTIONS if options.has(name))
            _DO[action](options, console, cluster)
    except Thrown as thrown:
        console.say(f"Error while executing ACL command: {thrown.message}")
        console.say(thrown.trace())
        return 1
    return 0


def _check(options: Options, console: Console) -> None:
    def refuse(message: str) -> None:
        console.usage(options.usage, message)

    has = options.has
    servers = sum(has(name) for name in ("bootstrap-server", "bootstrap-controller"))
    if servers > 1:
        refuse("Only one of --bootstrap-server or --bootstrap-controller must be specified")
    if not servers:
        refuse("One of --bootstrap-server or --bootstrap-controller must be specified")
    if sum(has(name) for name in _ACTIONS) != 1:
        refuse("Command must include exactly one action: --list, --add, --remove. ")
    check_invalid(
        options, console, "list", "producer", "consumer", "allow-host", "allow-principal",
        "deny-host", "deny-principal",
    )  # fmt: skip
    for role in ("producer", "consumer"):
        check_invalid(options, console, role, "operation", "deny-principal", "deny-host")
    if has("principal") and not has("list"):
        refuse("The --principal option is only available if --list is set")
    if has("producer") and not has("topic"):
        refuse("With --producer you must specify a --topic")
    if has("idempotent") and not has("producer"):
        refuse("The --idempotent option is only available if --producer is set")
    is_alone = not has("producer") and has("cluster", "transactional-id")
    if has("consumer") and (not has("topic") or not has("group") or is_alone):
        refuse(
            "With --consumer you must specify a --topic and a --group and no --cluster or"
            " --transactional-id option should be specified."
        )


# ---------------------------------------------------------------------------- what is meant


def _pattern_type(options: Options) -> str:
    given = options.text("resource-pattern-type", "LITERAL")
    found = next((one for one in _PATTERNS.values() if one == given.upper()), None)
    if found is None:
        what = f"Value [{given}] is not one of [{'|'.join(_PATTERNS.values())}]"
        if given.upper() == _UNKNOWN:
            what = f"Unknown resource-pattern-type: {given}"
        raise Thrown(
            "joptsimple.OptionArgumentConversionException",
            f"Cannot parse argument '{given}' of option resource-pattern-type",
            cause=Thrown("joptsimple.ValueConversionException", what),
        )
    return found


def _patterns(options: Options, console: Console, *, must: bool) -> list[Pattern]:
    """Return the resources that are named."""
    pattern_type = _pattern_type(options)
    found = [
        Pattern(kind, value if kind == "TRANSACTIONAL_ID" else value.strip(), pattern_type)
        for option, kind in _RESOURCES.items()
        for value in options.values(option)
    ]
    if pattern_type == "LITERAL" and options.has("cluster", "idempotent"):
        found.append(CLUSTER)
    if not found and must:
        console.usage(
            options.usage,
            "You must provide at least one resource: --topic <topic> or --cluster or --group"
            " <group> or --delegation-token <Delegation Token ID>",
        )
    return sorted(set(found))


def _principals(options: Options, name: str) -> set[str]:
    found = {value.strip() for value in options.values(name)}
    for one in found:
        kind, colon, _ = one.partition(":")
        if not colon or not kind:
            raise illegal(f"expected a string in format principalType:principalName but got {one}")
    return found


def _entries(options: Options, operations: Iterable[str]) -> set[Entry]:
    found: set[Entry] = set()
    chosen = set(operations)
    for permission, word in (("ALLOW", "allow"), ("DENY", "deny")):
        principals = _principals(options, f"{word}-principal")
        hosts = {one.strip() for one in options.values(f"{word}-host")} or {"*"}
        found |= {
            Entry(principal, host, operation, permission)
            for principal in principals
            for host in hosts
            for operation in chosen
        }
    return found


def _operation(text: str) -> str:
    """Return an operation by its name: DescribeConfigs, in any case."""
    names = {one.replace("_", ""): one for one in _OPERATIONS.values()}
    return names.get(text.strip().upper(), _UNKNOWN)


def _rules(options: Options, console: Console) -> Rules:
    """Return the resources that are named, and who is to do what with them."""
    rules: Rules = {}
    if not options.has("producer", "consumer"):
        operations = map(_operation, options.values("operation") or ["All"])
        entries = _entries(options, operations)
        rules = {one: set(entries) for one in _patterns(options, console, must=True)}
    if options.has("producer"):
        wanted = {
            "TOPIC": ("WRITE", "DESCRIBE", "CREATE"),
            "TRANSACTIONAL_ID": ("WRITE", "DESCRIBE"),
        }
        for one in _patterns(options, console, must=True):
            if one.kind in wanted:
                rules[one] = _entries(options, wanted[one.kind])
        if options.has("idempotent"):
            rules[CLUSTER] = _entries(options, ["IDEMPOTENT_WRITE"])
    if options.has("consumer"):
        wanted = {"TOPIC": ("READ", "DESCRIBE"), "GROUP": ("READ",)}
        for one in _patterns(options, console, must=True):
            if one.kind in wanted:
                rules.setdefault(one, set()).update(_entries(options, wanted[one.kind]))
    for one, entries in rules.items():
        valid = (*_SUPPORTED[one.kind], "ALL")
        if any(entry.operation not in valid for entry in entries):
            listed = ", ".join(valid)
            what = f"ResourceType {one.kind} only supports operations [{listed}]"
            console.usage(options.usage, what)
    return rules


# ---------------------------------------------------------------------------- what is done


def _add(options: Options, console: Console, cluster: Cluster) -> None:
    pattern_type = _pattern_type(options)
    if pattern_type not in ("LITERAL", "PREFIXED"):
        console.usage(
            options.usage,
            f"A '--resource-pattern-type' value of '{pattern_type}' is not valid when adding acls.",
        )
    rules = _rules(options, console)
    if not all(rules.values()):
        console.usage(
            options.usage,
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.",
        )
    for one, entries in sorted(rules.items()):
        there = _described(cluster, one).get(one, set())
        for entry in sorted(entries & there):
            console.say(f"Acl (pattern={one}, entry={entry}) already exists.")
        new = sorted(entries - there)
        if new:
            console.say(f"Adding ACLs for resource `{one}`: \n {_listed(new)}\n")
            _create(cluster, one, new)


def _remove(options: Options, console: Console, cluster: Cluster) -> None:
    for one, entries in sorted(_rules(options, console).items()):
        if entries:
            asked = (
                f"Are you sure you want to remove ACLs: \n {_listed(sorted(entries))}\n"
                f" from resource filter `{one}`? (y/n)"
            )
        else:
            asked = f"Are you sure you want to delete all ACLs for resource filter `{one}`? (y/n)"
        if _confirmed(options, console, asked):
            filters = [_filter(one, entry) for entry in sorted(entries)] or [_filter(one)]
            answer = cluster.ask(apis.DELETE_ACLS, {"filters": filters}, "deleteAcls")
            check_codes(answer["filter_results"], EXECUTION)


def _confirmed(options: Options, console: Console, asked: str) -> bool:
    if options.has("force"):
        return True
    console.say(asked)
    console.flush()
    return sys.stdin.readline().strip().lower() == "y"


def _list(options: Options, console: Console, cluster: Cluster) -> None:
    found: Rules = {}
    principals = _principals(options, "principal")
    for one in _patterns(options, console, must=False) or [Pattern("ANY", None, "ANY")]:
        for pattern, entries in _described(cluster, one).items():
            found.setdefault(pattern, set()).update(entries)
    if not principals:
        _show(console, found)
    for principal in sorted(principals):
        console.say(f"ACLs for principal `{principal}`")
        _show(
            console,
            {
                one: {entry for entry in entries if entry.principal == principal}
                for one, entries in found.items()
            },
        )


def _show(console: Console, rules: Rules) -> None:
    for one, entries in sorted(rules.items()):
        if entries:
            console.say(f"Current ACLs for resource `{one}`:\n{_listed(sorted(entries))}\n")


def _listed(entries: Iterable[Entry]) -> str:
    return "\n".join(f"\t{entry}" for entry in entries)


_DO: dict[str, Callable[[Options, Console, Cluster], None]] = {
    "add": _add,
    "remove": _remove,
    "list": _list,
}

# ---------------------------------------------------------------------------- requests

_NUMBERS = {
    name: number
    for table in (_TYPES, _PATTERNS, _OPERATIONS, _PERMISSIONS)
    for number, name in table.items()
}
"""ANY is 1 everywhere, and no other name means two things."""


def _filter(one: Pattern, entry: Entry | None = None) -> dict[str, object]:
    return {
        "resource_type_filter": _NUMBERS[one.kind],
        "resource_name_filter": one.name,
        "pattern_type_filter": _NUMBERS[one.pattern],
        "principal_filter": entry and entry.principal,
        "host_filter": entry and entry.host,
        "operation": 1 if entry is None else _NUMBERS[entry.operation],
        "permission_type": 1 if entry is None else _NUMBERS[entry.permission],
    }


def _described(cluster: Cluster, one: Pattern) -> Rules:
    """Return the ACLs that a pattern means."""
    answer = cluster.ask(apis.DESCRIBE_ACLS, _filter(one), "describeAcls")
    check_codes([answer], EXECUTION)
    return {
        Pattern(
            _TYPES.get(row["resource_type"], _UNKNOWN),
            row["resource_name"],
            _PATTERNS.get(row["pattern_type"], _UNKNOWN),
        ): {
            Entry(
                acl["principal"],
                acl["host"],
                _OPERATIONS.get(acl["operation"], _UNKNOWN),
                _PERMISSIONS.get(acl["permission_type"], _UNKNOWN),
            )
            for acl in row["acls"]
        }
        for row in answer["resources"]
    }


def _create(cluster: Cluster, one: Pattern, entries: Iterable[Entry]) -> None:
    rows = [
        {
            "resource_type": _NUMBERS[one.kind],
            "resource_name": one.name,
            "resource_pattern_type": _NUMBERS[one.pattern],
            "principal": entry.principal,
            "host": entry.host,
            "operation": _NUMBERS[entry.operation],
            "permission_type": _NUMBERS[entry.permission],
        }
        for entry in entries
    ]
    answer = cluster.ask(apis.CREATE_ACLS, {"creations": rows}, "createAcls")
    check_codes(answer["results"], EXECUTION)
