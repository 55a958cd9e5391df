"""Quotas of users, clients and addresses, and passwords of users, for kafka-configs."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from lakelog_kafka_tools import apis, sasl
from lakelog_kafka_tools.cluster import Cluster
from lakelog_kafka_tools.java import decimal, hash_order, text_hash
from lakelog_kafka_tools.thrown import (
    EXECUTION,
    check_codes,
    illegal,
    kafka_error,
    refused,
)

__all__ = ["alter", "describe"]

_ENTITIES = {"users": "user", "clients": "client-id", "ips": "ip"}
_WORDS = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
_CLIENT_QUOTAS = {
    "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate",
    "store_request_rate",
}  # fmt: skip
"""The last one is lakelog's: Apache's tool refuses it, and shows it."""
_IP_QUOTAS = {"connection_creation_rate"}
_MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)")
_ITERATIONS, _ITERATIONS_LEAST = 4096, 4096
_NOT_FOUND = 91
_EXACT, _DEFAULT, _ANY = 0, 1, 2


def describe(cluster: Cluster, types: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """Yield the lines of quotas, and of the passwords of users."""
    for entity, values in _quotas(cluster, types, names):
        parts = [
            f"{_WORDS[kind]} '{entity[kind]}'"
            if entity[kind] is not None
            else f"the default {_WORDS[kind]}"
            for kind in ("user", "client-id", "ip")
            if kind in entity
        ]
        limits = ", ".join(
            f"{key}={decimal(values[key])}" for key in hash_order(values, text_hash, len(values))
        )
        yield f"Quota configs for {', '.join(parts)} are {limits}"
    if "users" in types and "clients" not in types and "" not in names:
        yield from _passwords(cluster, names)


def _quotas(
    cluster: Cluster, types: Sequence[str], names: Sequence[str]
) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    components = []
    for kind, name in zip_longest(types, names):
        if kind is None:
            raise illegal("More entity names specified than entity types")
        match = _ANY if name is None else _EXACT if name else _DEFAULT
        row = {"entity_type": _ENTITIES[kind], "match_type": match, "match": name or None}
        components.append(row)
    request = {"components": components, "strict": True}
    answer = cluster.ask(apis.DESCRIBE_CLIENT_QUOTAS, request, "describeClientQuotas")
    check_codes([answer], EXECUTION)
    return [
        (
            {one["entity_type"]: one["entity_name"] for one in row["entity"]},
            {one["key"]: one["value"] for one in row["values"]},
        )
        for row in answer["entries"] or ()
    ]


def _passwords(cluster: Cluster, names: Sequence[str]) -> Iterator[str]:
    request = {"users": [{"name": name} for name in names] or None}
    call = "describeUserScramCredentials"
    answer = cluster.ask(apis.DESCRIBE_USER_SCRAM_CREDENTIALS, request, call)
    check_codes([answer], EXECUTION)
    by_number = {number: name for name, number in _MECHANISMS.items()}
    for row in answer["results"]:
        user, code = row["user"], row["error_code"]
        if code == _NOT_FOUND:
            continue
        if code:
            thrown = refused(code, row["error_message"]).inside(EXECUTION)
            yield (
                f"Error retrieving SCRAM credential configs for user-principal '{user}':"
                f" ExecutionException: {thrown.message}"
            )
            continue
        infos = ", ".join(
            f"{by_number.get(one['mechanism'], 'UNKNOWN')}=iterations={one['iterations']}"
            for one in row["credential_infos"]
        )
        yield f"SCRAM credential configs for user-principal '{user}' are {infos}"


def alter(
    cluster: Cluster,
    types: Sequence[str],
    names: Sequence[str],
    added: Mapping[str, str],
    deleted: Sequence[str],
) -> None:
    """Change quotas or passwords.

    Raises:
        Thrown: they are none, or the cluster does not.
    """
    changed = [*added, *deleted]
    if types[0] == "ips":
        unknown = [one for one in changed if one not in _IP_QUOTAS]
        if unknown:
            raise illegal(
                "Only connection quota configs can be added for 'ips' using --bootstrap-server."
                f" Unexpected config names: {','.join(unknown)}"
            )
    else:
        _check(types, names, added, deleted)
    if types[0] == "ips" or any(one in _CLIENT_QUOTAS for one in changed):
        _alter_quotas(cluster, types, names, added, deleted)
    else:
        _alter_passwords(cluster, names[0], added, deleted)


def _check(
    types: Sequence[str], names: Sequence[str], added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    quotas_only = types[0] == "clients" or len(types) == 2
    allowed = _CLIENT_QUOTAS if quotas_only else _CLIENT_QUOTAS | set(_MECHANISMS)
    what = "quota configs" if quotas_only else "quota and SCRAM credential configs"
    kind = "clients" if quotas_only else "users"
    for given, verb, form in ((list(added), "added", "Set"), (deleted, "deleted", "ArrayBuffer")):
        unknown = [one for one in given if one not in allowed]
        if unknown:
            raise illegal(
                f"Only {what} can be {verb} for '{kind}' using --bootstrap-server. Unexpected"
                f" config names: {form}({', '.join(unknown)})"
            )
    every = {*added, *deleted}
    if every & set(_MECHANISMS):
        if "" in names:
            raise illegal(
                "The use of --entity-default or --user-defaults is not allowed with User SCRAM"
                " Credentials using --bootstrap-server."
            )
        if every & _CLIENT_QUOTAS:
            raise illegal(
                "Cannot alter both quota and SCRAM credential configs simultaneously for 'users'"
                " using --bootstrap-server."
            )


def _alter_quotas(
    cluster: Cluster,
    types: Sequence[str],
    names: Sequence[str],
    added: Mapping[str, str],
    deleted: Sequence[str],
) -> None:
    known = next((values for _, values in _quotas(cluster, types, names)), {})
    wrong = [one for one in deleted if one not in known]
    if wrong:
        raise kafka_error("InvalidConfiguration", f"Invalid config(s): {','.join(wrong)}")
    ops: list[dict[str, Any]] = []
    for key, text in added.items():
        try:
            ops.append({"key": key, "value": float(text)})
        except ValueError:
            raise illegal(f"Cannot parse quota configuration value for {key}: {text}") from None
    ops += ({"key": key, "remove": True} for key in deleted)
    entity = [
        {"entity_type": _ENTITIES[kind], "entity_name": name or None}
        for kind, name in zip(types, names, strict=True)
    ]
    request = {"entries": [{"entity": entity, "ops": ops}]}
    answer = cluster.ask(apis.ALTER_CLIENT_QUOTAS, request, "alterClientQuotas")
    check_codes(answer["entries"], EXECUTION)


def _alter_passwords(
    cluster: Cluster, user: str, added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    deletions = [{"name": user, "mechanism": _MECHANISMS[name]} for name in deleted]
    upsertions = []
    for name, text in added.items():
        found = _CREDENTIAL.fullmatch(text)
        if found is None:
            raise illegal(f"Invalid credential property {name.replace('-', '_')}={text}")
        given = found[1]
        iterations = int(given) if given and given != "-1" else _ITERATIONS
        if iterations < _ITERATIONS_LEAST:
            raise illegal(
                f"Iterations {iterations} is less than the minimum {_ITERATIONS_LEAST} required for"
                f" {name}"
            )
        salt = os.urandom(26)
        upsertions.append(
            {
                "name": user,
                "mechanism": _MECHANISMS[name],
                "iterations": iterations,
                "salt": salt,
                "salted_password": sasl.salted(name, found[2].encode(), salt, iterations),
            }
        )
    request = {"deletions": deletions, "upsertions": upsertions}
    call = "alterUserScramCredentials"
    answer = cluster.ask(apis.ALTER_USER_SCRAM_CREDENTIALS, request, call)
    check_codes(answer["results"], EXECUTION)
