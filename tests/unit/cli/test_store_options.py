"""Options of a store have one name wherever a store is named, and no other.

The command line has --store-option NAME=VALUE, Python ``store_options=``, Spark ``store.NAME``.
Where there is more than one store, what tells them apart stands before it: --to-store-option.
"""

from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any

import click
import pytest

from lakelog.cli.commands import KAFKA_TOOLS, main
from lakelog.errors import InvalidInputError
from lakelog.log.scan import scan
from lakelog.pipeline import jobs
from lakelog.spark.options import parse_options
from lakelog.spark.sink.options import parse_write_options

STORES = {
    "url": "--store-option",
    "--storage": "--store-option",
    "--path": "--store-option",
    "target": "--to-store-option",
    "--to": "--to-store-option",
    "directories": "--from-store-option",
    "--against": "--against-store-option",
}
"""What names a store, and what its options are called then."""
SPOOLS = {f"spool {name}" for name in ("append", "cat", "copy", "keep", "stats", "tail", "verify")}
FILES = {"demo", "dump", "iam", "inspect", "plan", "warm"} | SPOOLS
"""Commands that work on files of this machine, or on nothing but what they are told."""


def commands(
    command: click.Command = main, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that can be typed, but for Apache's tools, whose words are Apache's."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        if path or name not in KAFKA_TOOLS:
            yield from commands(found, (*path, name))


COMMANDS = dict(commands())


def names(param: click.Parameter) -> list[str]:
    return [str(param.name)] if isinstance(param, click.Argument) else list(param.opts)


def test_every_command_was_found() -> None:
    assert COMMANDS.keys() > {"serve", "topic copy", "group list", "keep", "pipeline seal", "demo"}
    assert len(COMMANDS) > 20


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_names_a_store_takes_its_options_by_the_one_name(name: str) -> None:
    params = COMMANDS[name].params
    named = {
        STORES[one]
        for param in params
        if not isinstance(param.type, click.Choice)  # convert --to is a layout.
        for one in names(param)
        if one in STORES
    }
    about = {
        one: param
        for param in params
        for one in names(param)
        if one.startswith("-") and ("option" in one or "store" in one)
    }
    assert about.keys() == named, f"lakelog {name}"
    assert bool(named) == (name not in FILES)
    for one, param in about.items():
        assert (param.multiple, param.metavar) == (True, "NAME=VALUE")
        assert param.name == one.strip("-").replace("-", "_") + "s"


JOBS = [getattr(jobs, name) for name in dir(jobs) if name.endswith("_job")]


@pytest.mark.parametrize("call", [scan, *JOBS], ids=lambda call: call.__name__)
def test_python_has_one_name_as_well(call: Callable[..., Any]) -> None:
    about = [name for name in signature(call).parameters if "option" in name]
    assert "store_options" in about
    assert all(name.endswith("store_options") for name in about)


@pytest.mark.parametrize("parse", [parse_options, parse_write_options])
def test_spark_has_one_name_for_reads_and_writes(parse: Callable[..., Any]) -> None:
    given = {"path": "s3://bucket/log", "subscribe": "t"}
    if parse is parse_write_options:
        del given["subscribe"]
    parsed = parse({**given, "store.region": "eu-north-1"})
    assert parsed.store_options["region"] == "eu-north-1"
    for other in ("region", "storeOption.region", "store_options.region", "storage.region"):
        with pytest.raises(InvalidInputError, match="no option"):
            parse({**given, other: "eu-north-1"})
