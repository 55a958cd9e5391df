"""The table of subcommands.

A subcommand's module is imported when the subcommand is called, and not to print the list: whoever
types `lakelog --help` should not wait for codecs. So the line that each has in that list is here.
"""

from importlib import import_module
from typing import NamedTuple

import click

from lakelog import __version__

__all__ = ["main"]


class _Row(NamedTuple):
    module: str
    summary: str


COMMANDS = {
    "dump": _Row("lakelog.cli.dump", "Print every batch and record of segments of any format."),
    "inspect": _Row("lakelog.cli.inspect", "Say what segments hold, and whether they are whole."),
    "init": _Row("lakelog.cli.init", "Make a namespace for topics in an object store."),
    "keep": _Row("lakelog.cli.keep", "Seal, trim, retain and sweep a namespace."),
    "doctor": _Row("lakelog.cli.doctor", "Find out what is wrong with an installation."),
    "pipeline": _Row("lakelog.cli.pipeline", "Verify, reindex and convert whole topics, on Spark."),
}


class _Commands(click.Group):
    """A group whose members are rows of ``COMMANDS``."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        row = COMMANDS.get(cmd_name)
        if row is None:
            return None
        command = getattr(import_module(row.module), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, row.summary) for name, row in COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lakelog")
def main() -> None:
    """A Kafka-compatible log on object storage."""
