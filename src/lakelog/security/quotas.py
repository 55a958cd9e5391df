"""Quotas: who may use how much of a broker, by Kafka's names and rules.

    entity   user=alice, client-id=<default>    a name, or the default of all that have none
    value    producer_byte_rate=1048576         so much in a second, on each broker

A client is limited by the first of these levels that has a value of the key (KIP-55):

    1  user=U  client-id=C           4  user=<default>  client-id=C           7  client-id=C
    2  user=U  client-id=<default>   5  user=<default>  client-id=<default>   8  client-id=<default>
    3  user=U                        6  user=<default>

Whose a quota is follows from the level: at the first two, and at 4 and 5, the clients of this user
and this client id share it; at 3 and 6 all clients of the user; at 7 and 8 all clients with the
client id. So a default is not shared: each that it is for has as much.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import ip_address
from typing import NamedTuple

from lakelog.errors import InvalidInputError, UnsupportedError

__all__ = [
    "CONNECTION_CREATION_RATE",
    "CONSUMER_BYTE_RATE",
    "CONTROLLER_MUTATION_RATE",
    "ENTITIES_MAX",
    "PRODUCER_BYTE_RATE",
    "REQUEST_PERCENTAGE",
    "STORE_REQUEST_RATE",
    "Alteration",
    "Component",
    "Entity",
    "FoundQuota",
    "Match",
    "Quotas",
    "address_name",
    "alter_quotas",
    "describe_quotas",
    "entity_of",
]

USER, CLIENT_ID, IP = "user", "client-id", "ip"
KINDS = (USER, CLIENT_ID, IP)

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"
STORE_REQUEST_RATE = "store_request_rate"
"""Not Kafka's: operations on the object store, which all brokers share."""

ENTITIES_MAX = 10_000
"""That have quotas: they are one cell, which every broker reads."""

NAME_CHARS_MAX = 1_024

Entity = tuple[tuple[str, str | None], ...]
"""Kinds and names, in the order of ``KINDS``; None is the default."""

Owner = tuple[str | None, str | None]
"""The user and the client id that share a quota; None: whichever it is."""


class _Type(IntEnum):
    WHOLE = 1
    SMALL_WHOLE = 2
    ANY = 3


_CLIENT_KEYS = {
    PRODUCER_BYTE_RATE: _Type.WHOLE,
    CONSUMER_BYTE_RATE: _Type.WHOLE,
    REQUEST_PERCENTAGE: _Type.ANY,
    CONTROLLER_MUTATION_RATE: _Type.ANY,
    STORE_REQUEST_RATE: _Type.ANY,
}
_ADDRESS_KEYS = {CONNECTION_CREATION_RATE: _Type.SMALL_WHOLE}

_EPSILON = 1e-6
_JAVA_ORDER = (CLIENT_ID, USER, IP)
"""Of a hash map with these keys: of two flaws it decides which one is told."""
_MOST = {_Type.WHOLE: ((1 << 63) - 1, "a LONG"), _Type.SMALL_WHOLE: ((1 << 31) - 1, "an INT")}


class FoundQuota(NamedTuple):
    """How much in a second, and who shares it."""

    rate: float
    owner: Owner


@dataclass(frozen=True, slots=True)
class Quotas:
    """All quotas of a namespace."""

    rows: Mapping[Entity, Mapping[str, float]] = field(default_factory=dict)
    version: int = 0
    """How often they were changed."""

    def of_client(self, key: str, user: str, client_id: str) -> FoundQuota | None:
        """Return what limits a client; None: nothing does."""
        for users, owner in (((USER, user),), user), (((USER, None),), user), ((), None):
            for clients, part in (
                (((CLIENT_ID, client_id),), client_id),
                (((CLIENT_ID, None),), client_id),
                ((), None),
            ):
                rate = self.rows.get((*users, *clients), {}).get(key)
                if rate is not None:
                    return FoundQuota(rate, (owner, part))
        return None

    def by_address(self) -> dict[str | None, float]:
        """Return how many connections addresses may make in a second; None is the default."""
        found: dict[str | None, float] = {}
        for ((kind, name), *_), values in self.rows.items():
            if kind == IP and CONNECTION_CREATION_RATE in values:
                found[name and address_name(name)] = values[CONNECTION_CREATION_RATE]
        return found


# ---------------------------------------------------------------------------- altering


class Alteration(NamedTuple):
    """What is to become of the quotas of one entity."""

    entity: Sequence[tuple[str, str | None]]
    ops: Sequence[tuple[str, float | None]]
    """Keys and values; None takes the key away."""


def alter_quotas(
    now: Quotas, alterations: Iterable[Alteration]
) -> tuple[Quotas, dict[Entity, str]]:
    """Return quotas as altered, and what is wrong with each alteration; nothing if it was done.

    An alteration is done as a whole or not at all. Of several of one entity the first is done, and
    as in Kafka the answer is that of the last.
    """
    rows = {entity: dict(values) for entity, values in now.rows.items()}
    flaws: dict[Entity, str] = {}
    for alteration in alterations:
        entity = entity_of(alteration.entity)
        keys = [key for key, _ in alteration.ops]
        if entity in flaws or len(set(keys)) < len(keys):
            flaws[entity] = f"Ignoring duplicate entity {_java_text(entity)}"
            continue
        flaw = _flaw(dict(entity), alteration.ops)
        if not flaw and entity not in rows and len(rows) >= ENTITIES_MAX:
            flaw = f"there are quotas of {ENTITIES_MAX} entities: remove some of them first"
        flaws[entity] = flaw
        if flaw:
            continue
        values = rows.setdefault(entity, {})
        for key, value in alteration.ops:
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
        if not values:
            del rows[entity]
    if rows == now.rows:
        return now, flaws
    return Quotas(rows, now.version + 1), flaws


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Return an entity in the one order in which it is kept; of a kind the last name counts."""
    named = dict(parts)
    known = [(kind, named.pop(kind)) for kind in KINDS if kind in named]
    return (*known, *sorted(named.items(), key=lambda pair: pair[0]))


def address_name(name: str) -> str:
    """Return the one form of an address; what is none stays as it is."""
    try:
        found = ip_address(name.partition("%")[0])
    except ValueError:
        return name
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found)


def _java_text(entity: Entity) -> str:
    named = dict(entity)
    order = [*filter(named.__contains__, _JAVA_ORDER), *(named.keys() - set(_JAVA_ORDER))]
    parts = ", ".join(f"{kind}={'null' if named[kind] is None else named[kind]}" for kind in order)
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _flaw(named: Mapping[str, str | None], ops: Iterable[tuple[str, float | None]]) -> str:
    if not named:
        return "Invalid empty client quota entity"
    if unknown := named.keys() - set(KINDS):
        return f"Unhandled client quota entity type: {min(unknown)[:64]}"
    for kind in filter(named.__contains__, _JAVA_ORDER):
        name = named[kind]
        if name == "":
            return f"Empty {kind} not supported"
        if name is not None and len(name) > NAME_CHARS_MAX:
            return f"a {kind} of {len(name)} characters: use {NAME_CHARS_MAX} at most"
    if IP in named and len(named) > 1:
        return (
            "Invalid quota entity combination, IP entity shouldnot be combined with User or"
            " ClientId"
        )
    address = named.get(IP)
    if address is not None and not _is_address(address):
        return f"{address} is not a valid IP: name an address, and not a host"
    known = _ADDRESS_KEYS if IP in named else _CLIENT_KEYS
    return next(filter(None, (_value_flaw(known, *op) for op in ops)), "")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _value_flaw(known: Mapping[str, _Type], key: str, value: float | None) -> str:
    if value is None:
        return ""  # What is not there is taken away as well.
    kind = known.get(key)
    if kind is None:
        return f"Invalid configuration key {key[:64]}"
    if math.isnan(value) or (math.isinf(value) and kind is _Type.ANY):
        return f"Quota {key} must be a number"
    if value <= 0:
        return f"Quota {key} must be greater than 0"
    if kind is _Type.ANY:
        return ""
    most, java = _MOST[kind]
    if value > most:
        return f"Proposed value for {key} is too large for {java}."
    if abs(min(int(value + _EPSILON), most) - value) > _EPSILON:
        return f"{key} cannot be a fractional value."
    return ""


# ---------------------------------------------------------------------------- describing


class Match(IntEnum):
    """How a filter looks at the names of a kind; the numbers are the wire's."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class Component(NamedTuple):
    """What a filter wants of one kind."""

    kind: str
    match: int
    name: str | None


def describe_quotas(
    now: Quotas, components: Iterable[Component], *, strict: bool
) -> list[tuple[Entity, Mapping[str, float]]]:
    """Return the entities that match all components; strictly, those that have no other kinds.

    Raises:
        InvalidInputError: it is no filter.
        UnsupportedError: it names a kind that nobody knows.
    """
    wanted: dict[str, Component] = {}
    for one in components:
        if not one.kind:
            raise InvalidInputError("Invalid empty entity type.")
        if one.kind in wanted:
            raise InvalidInputError(
                f"Entity type {one.kind} cannot appear more than once in the filter."
            )
        if one.kind not in KINDS:
            raise UnsupportedError(f"Unsupported entity type {one.kind[:64]}", at=0)
        _check_match(one)
        wanted[one.kind] = one
    if IP in wanted and len(wanted) > 1:
        raise InvalidInputError(
            "Invalid entity filter component combination. IP filter component should not be used"
            " with user or clientId filter component."
        )
    found: list[tuple[Entity, Mapping[str, float]]] = []
    for entity, values in now.rows.items():
        named = dict(entity)
        fits = all(
            kind in named and (one.match == Match.ANY or named[kind] == one.name)
            for kind, one in wanted.items()
        )
        if fits and not (strict and len(named) != len(wanted)):
            found.append((entity, values))
    return found


def _check_match(one: Component) -> None:
    names = {Match.EXACT: "EXACT", Match.DEFAULT: "DEFAULT", Match.ANY: "SPECIFIED"}
    if one.match not in tuple(Match):
        raise InvalidInputError(f"Unknown match type {one.match}")
    what = f"Request specified MATCH_TYPE_{names[Match(one.match)]}, but"
    if one.match == Match.EXACT and one.name is None:
        raise InvalidInputError(f"{what} set match string to null.")
    if one.match != Match.EXACT and one.name is not None:
        raise InvalidInputError(f"{what} also specified a match string.")
