"""kafka-configs: settings of topics, brokers, groups, clients, users and addresses."""

import re
import socket
from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

from lakelog_kafka_tools import admin, group_admin, quotas
from lakelog_kafka_tools.admin import Entry, Resource
from lakelog_kafka_tools.cluster import Cluster, Connect, open_cluster
from lakelog_kafka_tools.grammar import Options
from lakelog_kafka_tools.java import (
    hash_order,
    int_hash,
    null_text,
    parse_int,
    split,
    text_hash,
    trie_order,
)
from lakelog_kafka_tools.running import Console, check_invalid, start
from lakelog_kafka_tools.settings import read_properties
from lakelog_kafka_tools.thrown import (
    EXECUTION,
    UNSUPPORTED_VERSION,
    Thrown,
    illegal,
    kafka_error,
    unless_thrown,
)

__all__ = ["Entities", "entry_text", "parse_added", "read_entities", "run"]

_ABOUT = "Configs of topics, brokers, groups, clients and users: describe and alter."
_TYPES = (
    "topics",
    "clients",
    "users",
    "brokers",
    "ips",
    "client-metrics",
    "groups",
    "broker-loggers",
)
_FLAGS = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "client-metrics": "client-metrics",
    "group": "groups",
}
_DEFAULTS = {
    "client-defaults": "clients",
    "user-defaults": "users",
    "broker-defaults": "brokers",
    "ip-defaults": "ips",
}
_RESOURCES = {
    "topics": admin.TOPIC,
    "brokers": admin.BROKER,
    "broker-loggers": admin.BROKER_LOGGER,
    "client-metrics": admin.CLIENT_METRICS,
    "groups": admin.GROUP,
}
_SOURCES = (
    "UNKNOWN", "DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG", "DEFAULT_CONFIG", "DYNAMIC_BROKER_LOGGER_CONFIG",
    "DYNAMIC_CLIENT_METRICS_CONFIG", "DYNAMIC_GROUP_CONFIG",
)  # fmt: skip
_DYNAMIC = {"topics": 1, "brokers": 2, "client-metrics": 7, "groups": 8}
_DYNAMIC_DEFAULT_BROKER = 3
_WITH_DEFAULTS = {"users", "clients", "brokers", "ips"}
_UNGROUPED = r"(?=[^\]]*(?:\[|$))"
_KEY = re.compile(r"[$a-zA-Z0-9._-]*")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]*")
_DENIED = 31
_SHORT = (
    ".UnsupportedVersionException",
    ".InvalidConfigurationException",
    ".InvalidTopicException",
)
"""Exceptions that are shown without a trace."""


class Entities(NamedTuple):
    """What settings are asked for."""

    types: Sequence[str]
    names: Sequence[str]
    """An empty one is the default of all."""


def run(arguments: Sequence[str], console: Console, connect: Connect = open_cluster) -> int:
    """Run the tool."""
    try:
        options = start("kafka-configs", arguments, console, _ABOUT)
        entities = _check(options, console)
        properties = read_properties(options.value("command-config"))
        bootstrap = options.value("bootstrap-server")
        if bootstrap is None:
            message = "lakelog connects to brokers only: use --bootstrap-server"
            raise kafka_error("UnsupportedVersion", message, UNSUPPORTED_VERSION)
        with closing(connect(bootstrap, properties, console.warn)) as cluster:
            if options.has("describe"):
                _describe(options, console, cluster, entities)
            else:
                _alter(options, console, cluster, entities)
    except Thrown as thrown:
        known = ("java.lang.IllegalArgumentException", "joptsimple.")
        if thrown.kind.startswith(known) or thrown.kind.endswith(_SHORT):
            console.say_error(thrown.message)
        else:
            given = " ".join(arguments)
            console.say_error(f"Error while executing config command with args '{given}'")
            console.say_error(thrown.trace(), end="")
        return 1
    return 0


# ---------------------------------------------------------------------------- checks


def read_entities(options: Options) -> Entities:
    """Return what is asked for, by the general options and by those for each type."""
    flags = [name for name in _FLAGS if options.has(name)]
    defaults = [name for name in _DEFAULTS if options.has(name)]
    types = options.values("entity-type") + [_FLAGS[name] for name in flags]
    types += [_DEFAULTS[name] for name in defaults]
    names = [
        value or "" for name, value in options.given if name in ("entity-name", "entity-default")
    ]
    names += [options.text(name) for name in flags]
    return Entities(types, names + [""] * len(defaults))


def _check(options: Options, console: Console) -> Entities:
    if options.has("alter") == options.has("describe"):
        console.usage(options.usage, "Command must include exactly one action: --describe, --alter")
    check_invalid(options, console, "describe", "add-config", "delete-config")
    entities = read_entities(options)
    types = entities.types
    if len(set(types)) != len(types):
        twice = [one for at, one in enumerate(types) if one in types[:at]]
        raise illegal(f"Duplicate entity type(s) specified: {','.join(twice)}")
    if not options.has("bootstrap-server", "bootstrap-controller"):
        raise illegal("Either --bootstrap-server or --bootstrap-controller must be specified.")
    for one in types:
        if one not in _TYPES:
            raise illegal(
                f"Invalid entity type {one}, the entity type must be one of {', '.join(_TYPES)}"
                " with a --bootstrap-server or --bootstrap-controller argument"
            )
    if not types:
        raise illegal("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {"users", "clients"}:
        raise illegal("Only 'users' and 'clients' entity types may be specified together")
    general = options.has("entity-name", "entity-type", "entity-default")
    if general and options.has(*_FLAGS, *_DEFAULTS):
        raise illegal(
            "--entity-{type,name,default} should not be used in conjunction with specific entity"
            " flags"
        )
    if options.has("bootstrap-server") and options.has("bootstrap-controller"):
        raise illegal("Only one of --bootstrap-server or --bootstrap-controller can be specified")
    _check_names(options, entities)
    _check_action(options, entities)
    return entities


def _check_names(options: Options, entities: Entities) -> None:
    types = entities.types
    if not any(entities.names):
        return
    for kinds, names, is_valid, what in (
        (("brokers", "broker-loggers"), ("broker", "broker-logger"), _is_int, "integer broker id"),
        (("ips",), ("ip",), _resolves, "IP or resolvable host"),
    ):
        if not set(kinds) & set(types):
            continue
        for name in ("entity-name", *names):
            value = options.value(name)
            if value is not None and not is_valid(value):
                raise illegal(
                    f"The entity name for {types[0]} must be a valid {what}, but it is: {value}"
                )


def _is_int(text: str) -> bool:
    return parse_int(text) is not None


def _resolves(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None))
    except OSError:
        return False


def _check_action(options: Options, entities: Entities) -> None:
    types, listed = set(entities.types), ",".join(entities.types)
    has_name, has_default = any(entities.names), "" in entities.names
    if options.has("describe"):
        if not types & _WITH_DEFAULTS and options.has("entity-default"):
            raise illegal(f"--entity-default must not be specified with --describe of {listed}")
        if "broker-loggers" in types and not has_name:
            raise illegal(f"An entity name must be specified with --describe of {listed}")
        return
    if types & _WITH_DEFAULTS:
        if not has_name and not has_default:
            raise illegal(
                "An entity-name or default entity must be specified with --alter of users, clients,"
                " brokers or ips"
            )
    elif not has_name:
        raise illegal(f"An entity name must be specified with --alter of {listed}")
    if options.has("add-config") and options.has("add-config-file"):
        raise illegal("Only one of --add-config or --add-config-file must be specified")
    if not options.has("add-config", "add-config-file", "delete-config"):
        raise illegal(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified"
            " with --alter"
        )


# ---------------------------------------------------------------------------- alter


def parse_added(text: str) -> dict[str, str]:
    """Return settings: ``k1=v1,k2=[v1,v2]``.

    Raises:
        Thrown: they are none.
    """
    found: dict[str, str] = {}
    for part in split(text, f",{_UNGROUPED}"):
        pair = re.split(rf"\s*=\s*{_UNGROUPED}", part)
        if len(pair) != 2:
            raise illegal(
                "requirement failed: Invalid entity config: all configs to be added must be in the"
                ' format "key=val" or  "key=[val1,val2]" to group values which contain commas.'
            )
        found[pair[0].strip()] = pair[1].replace("[", "").replace("]", "").strip()
    return found


def _added(options: Options) -> dict[str, str]:
    found: dict[str, str] = {}
    if options.has("add-config-file"):
        found |= read_properties(options.text("add-config-file"))
    if options.has("add-config"):
        found |= parse_added(options.text("add-config"))
    for name in found:
        if not _KEY.fullmatch(name):
            raise illegal(f"Invalid character found for config key: {name}")
    return found


def _alter(options: Options, console: Console, cluster: Cluster, entities: Entities) -> None:
    if len(entities.types) != len(entities.names):
        raise illegal("An entity name must be specified for every entity type")
    kind, name = entities.types[0], entities.names[0]
    added = _added(options)
    deleted = [one.strip() for one in options.values("delete-config", ",")]
    if kind in ("users", "clients", "ips"):
        quotas.alter(cluster, entities.types, entities.names, added, deleted)
    else:
        if kind == "broker-loggers":
            known = {one.name for one in _entries(cluster, kind, name, False, False)}
            wrong = [one for one in (*deleted, *added) if one not in known]
            if wrong:
                message = f"Invalid broker logger(s): {','.join(wrong)}"
                raise kafka_error("InvalidConfiguration", message)
        try:
            admin.alter_configs(cluster, Resource(_RESOURCES[kind], name), deleted, added)
        except Thrown as thrown:
            raise thrown.inside(EXECUTION) from None
    if name:
        console.say(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        console.say(f"Completed updating default config for {kind} in the cluster.")


# ---------------------------------------------------------------------------- describe


def entry_text(entry: Entry) -> str:
    """Return the line of a setting."""
    synonyms = ", ".join(
        f"{_source(source)}:{name}={null_text(value)}" for name, value, source in entry.synonyms
    )
    sensitive = str(entry.is_sensitive).lower()
    value = null_text(entry.value)
    return f"  {entry.name}={value} sensitive={sensitive} synonyms={{{synonyms}}}"


def _source(number: int) -> str:
    return _SOURCES[number] if 0 <= number < len(_SOURCES) else _SOURCES[0]


def _describe(options: Options, console: Console, cluster: Cluster, entities: Entities) -> None:
    kind = entities.types[0]
    if kind in ("users", "clients", "ips"):
        for line in quotas.describe(cluster, entities.types, entities.names):
            console.say(line)
        return
    everything = options.has("all")
    names = list(entities.names[:1])
    try:
        if names and not everything and not _exists(cluster, kind, names[0]):
            console.say(
                f"The {kind[:-1]} '{names[0]}' doesn't exist and doesn't have dynamic config."
            )
            return
        for name in names or _all(cluster, kind):
            if name:
                which = "All" if everything else "Dynamic"
                console.say(f"{which} configs for {kind[:-1]} {name} are:")
            else:
                console.say(f"Default configs for {kind} in the cluster are:")
            for entry in _entries(cluster, kind, name, True, everything):
                console.say(entry_text(entry))
    except Thrown as thrown:
        if thrown.code:
            raise thrown.inside(EXECUTION) from None
        raise


def _exists(cluster: Cluster, kind: str, name: str) -> bool:
    if kind == "topics":
        _check_topic(name)
    is_known = name in _all(cluster, kind)
    # A cluster that does not list the groups with settings may have settings of any group.
    return is_known or (kind == "groups" and _group_resources(cluster) is None)


def _group_resources(cluster: Cluster) -> list[str] | None:
    try:
        return admin.list_resources(cluster, admin.GROUP)
    except Thrown as thrown:
        if thrown.code in (UNSUPPORTED_VERSION, _DENIED):
            return None
        raise


def _check_topic(name: str) -> None:
    why = None
    if not name:
        why = "the empty string is not allowed"
    elif name in (".", ".."):
        why = f"'{name}' is not allowed"
    elif len(name) > 249:
        why = f"the length of '{name}' is longer than the max allowed length 249"
    elif not _TOPIC.fullmatch(name):
        why = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_'"
            " and '-'"
        )
    if why is not None:
        raise kafka_error("InvalidTopic", f"Topic name is invalid: {why}")


def _all(cluster: Cluster, kind: str) -> list[str]:
    if kind == "topics":
        return hash_order([row.name for row in admin.list_topics(cluster)], text_hash)
    if kind in ("brokers", "broker-loggers"):
        nodes = hash_order(cluster.nodes("describeCluster"), int_hash)
        return [*map(str, nodes), ""]
    if kind == "groups":
        listed = [row.group_id for row in group_admin.list_groups(cluster, (), (), ())]
        return trie_order([*listed, *(_group_resources(cluster) or [])], text_hash)
    return admin.list_resources(cluster, admin.CLIENT_METRICS)


def _entries(
    cluster: Cluster, kind: str, name: str, synonyms: bool, everything: bool
) -> list[Entry]:
    if kind == "topics" and name:
        _check_topic(name)
    resource = Resource(_RESOURCES[kind], name)
    described = admin.describe_configs(cluster, [resource], synonyms=synonyms)
    source = _DYNAMIC_DEFAULT_BROKER if kind == "brokers" and not name else _DYNAMIC.get(kind)
    found = unless_thrown(described[resource])
    shown = [one for one in found if everything or source is None or one.source == source]
    return sorted(shown, key=lambda one: one.name)
