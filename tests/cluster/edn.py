"""Histories as EDN, which is what Jepsen's own tools read: an operation in each line.

    {:index 7, :time 1200000, :process 3, :type :ok, :f :send, :value [[:send 0 [5 "java:12"]]]}

Names of fields, types and functions are keywords, and so is the first word of what is sent or
polled. Keys of maps that are numbers are written as numbers: JSON has none.
"""

import json
from typing import Any

__all__ = ["edn_of"]

_KEYWORDS = ("type", "f")
_WORDS = ("send", "poll")


def edn_of(operation: dict[str, Any]) -> str:
    """Return one operation as it stands in a history of Jepsen's."""
    fields = (
        f":{name} :{value}" if name in _KEYWORDS else f":{name} {_form(value)}"
        for name, value in operation.items()
    )
    return "{" + ", ".join(fields) + "}"


def _form(value: object) -> str:
    match value:
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case [str() as word, *rest] if word in _WORDS:
            return "[" + " ".join([f":{word}", *map(_form, rest)]) + "]"
        case list() | tuple():
            return "[" + " ".join(map(_form, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{_key(key)} {_form(one)}" for key, one in value.items()) + "}"
        case _:
            return json.dumps(value)


def _key(key: object) -> str:
    text = str(key)
    return text if text.lstrip("-").isdigit() else json.dumps(text)
