"""Command lines as Apache's parser (joptsimple) takes them.

    --name value   --name=value   -name value   -name=value   --flag   --

The usage of a tool is its grammar as well: which options there are, whether they take a value, and
of which type. So there is one list for each tool, in usage/, and it cannot promise what the parser
does not take. What an option is for is said in Apache's manual, and not here again. Values are
checked when they are asked for, and not before, as in Apache's parser: so errors come in its order.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lakelog_kafka_tools.java import parse_int
from lakelog_kafka_tools.thrown import Thrown, number_error

__all__ = ["TITLE", "Option", "Options", "Usage", "parse", "read_usage"]

TITLE = "Options, as Apache Kafka takes them:"
_FOLDER = Path(__file__).with_name("usage")
_LINE = re.compile(r"--(\S+)(?: ([<\[])(\w+))?")
_BITS = {"Integer": 32, "Long": 64}


class Option(NamedTuple):
    """What a tool takes."""

    name: str
    value: str = ""
    """``<`` it must have a value, ``[`` it may have one."""
    type: str = ""


class Usage(NamedTuple):
    """What a tool prints of its options, and what it thereby takes."""

    text: str
    options: Mapping[str, Option]


def read_usage(tool: str, folder: Path = _FOLDER) -> Usage:
    """Return the usage of a tool."""
    lines = (folder / f"{tool}.txt").read_text().splitlines()
    text = "".join(f"{line}\n" for line in (TITLE, *(f"  {line}" for line in lines)))
    found = (_LINE.match(line) for line in lines)
    rows = [Option(one[1], one[2] or "", one[3] or "") for one in found if one]
    return Usage(text, {row.name: row for row in rows})


class Options:
    """A command line that was taken apart."""

    def __init__(self, usage: Usage, given: Sequence[tuple[str, str | None]], empty: bool) -> None:
        self.usage = usage
        self.given = given
        """Names and values, in order."""
        self.is_empty = empty
        """Whether there were no arguments at all."""

    def has(self, *names: str) -> bool:
        """Say whether any of some options is there."""
        return any(name in names for name, _ in self.given)

    def values(self, name: str, separator: str = "") -> list[str]:
        """Return all values of an option, each of them taken apart at ``separator``."""
        found = [value for option, value in self.given if option == name and value is not None]
        for value in found:
            self._number(name, value)
        if separator:
            return [part for value in found for part in value.split(separator) if part]
        return found

    def value(self, name: str, default: str | None = None) -> str | None:
        """Return the value of an option.

        Raises:
            Thrown: it was given more than once, or is not of its type.
        """
        found = self.values(name)
        if len(found) > 1:
            raise Thrown(
                "joptsimple.MultipleArgumentsForOptionException",
                f"Found multiple arguments for option {name}, but you asked for only one",
            )
        return found[0] if found else default

    def text(self, name: str, default: str = "") -> str:
        """Return the value of an option that is there, or has a default."""
        found = self.value(name)
        return default if found is None else found

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return the value of an option that is a number."""
        found = self.value(name)
        return default if found is None else self._number(name, found)

    def _number(self, name: str, value: str) -> int | None:
        bits = _BITS.get(self.usage.options[name].type)
        if bits is None:
            return None
        number = parse_int(value, bits)
        if number is None:
            raise Thrown(
                "joptsimple.OptionArgumentConversionException",
                f"Cannot parse argument '{value}' of option {name}",
                cause=number_error(value).inside("joptsimple.internal.ReflectionException"),
            )
        return number


def parse(usage: Usage, arguments: Sequence[str]) -> Options:
    """Take a command line apart.

    Raises:
        Thrown: an option is not known, or its value is missing.
    """
    given: list[tuple[str, str | None]] = []
    waiting = list(reversed(arguments))
    while waiting:
        argument = waiting.pop()
        if argument == "--":
            break
        if not argument.startswith("-") or argument == "-":
            continue
        dashes = 2 if argument.startswith("--") else 1
        name, equals, value = argument[dashes:].partition("=")
        option = usage.options.get(name)
        if option is None:
            # Behind one dash there may be many options of one letter; no tool has any.
            unknown = name if dashes == 2 else argument[1]
            raise Thrown(
                "joptsimple.UnrecognizedOptionException", f"{unknown} is not a recognized option"
            )
        if not option.value:
            given.append((name, None))
        elif equals:
            given.append((name, value))
        elif option.value == "<":
            if not waiting:
                raise Thrown(
                    "joptsimple.OptionMissingRequiredArgumentException",
                    f"Option {name} requires an argument",
                )
            given.append((name, waiting.pop()))
        else:
            takes = bool(waiting) and (not waiting[-1].startswith("-") or waiting[-1] == "-")
            given.append((name, waiting.pop() if takes else None))
    return Options(usage, given, not arguments)
