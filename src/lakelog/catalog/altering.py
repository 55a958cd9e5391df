"""What becomes of the configs of a topic when some of them are changed.

    SET        another value
    DELETE     no value of its own: the default counts
    APPEND     to a list, what it does not have yet
    SUBTRACT   from a list, what it has

A list that was never set is the default's: whoever appends to it adds to what counted until then.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from lakelog.catalog.config_table import TOPIC_CONFIGS, ConfigType
from lakelog.catalog.configs import check_configs, check_length
from lakelog.errors import InvalidInputError

__all__ = ["Change", "Operation", "alter_configs"]


class Operation(IntEnum):
    """What is done to a config, by its number in the protocol."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One config that is to be another."""

    name: str
    operation: Operation
    value: str | None = None


def alter_configs(stored: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """Return configs as they are stored after some changes.

    What is stored and not spoken of stays as it is, also what this version does not know.

    Raises:
        InvalidInputError: a name is unknown, a value is not allowed, or something is no list.
    """
    gone: set[str] = set()
    new: dict[str, str | None] = {}
    for name, operation, value in changes:
        if operation is Operation.DELETE:
            gone.add(name)
        elif operation is Operation.SET:
            new[name] = value
        else:
            new[name] = _listed(stored, name, operation, value)
    kept = {name: value for name, value in stored.items() if name not in gone}
    known = {name: value for name, value in kept.items() if name in TOPIC_CONFIGS}
    return {**kept, **check_configs({**known, **new})}


def _listed(
    stored: Mapping[str, str], name: str, operation: Operation, value: str | None
) -> str | None:
    row = TOPIC_CONFIGS.get(name)
    if row is None or value is None:
        return value  # It will be refused for that.
    if row.type is not ConfigType.LIST:
        verb = operation.name.lower()
        raise InvalidInputError(
            f"Config value {verb} is not allowed for config key: {name}: set it instead"
        )
    check_length(name, value)
    now = row.parse(stored.get(name, row.default))
    given = dict.fromkeys(one for text in value.split(",") if (one := text.strip()))
    if operation is Operation.APPEND:
        return ",".join(dict.fromkeys([*now, *given]))
    return ",".join(one for one in now if one not in given)
