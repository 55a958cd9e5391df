"""The table of subcommands.

A subcommand's module is imported when the subcommand is called, and not to print the list: so
`lakelog --help` does not wait for codecs. The line that each has in that list is therefore here.
"""

from importlib import import_module
from keyword import iskeyword
from typing import Any, NamedTuple

import click

from lakelog import __version__
from lakelog.host import EXIT_INTERRUPTED

__all__ = ["main"]


class _Row(NamedTuple):
    module: str
    summary: str


COMMANDS = {
    "demo": _Row(
        "lakelog.cli.demo", "Start a broker on a temporary folder, and show what it does."
    ),
    "serve": _Row("lakelog.cli.serve", "Serve Kafka clients from an object store."),
    "topic": _Row("lakelog.cli.topic", "Create, list, describe, delete, copy and restore topics."),
    "group": _Row("lakelog.cli.group", "List and describe consumer groups."),
    "user": _Row("lakelog.cli.user", "Add, list and delete users, who log in by a password."),
    "cluster": _Row(
        "lakelog.cli.cluster", "Show the brokers of a cluster, and which of them does what."
    ),
    "meta": _Row(
        "lakelog.cli.meta", "Bring consumer groups to etcd or back, to more shards, to a backup."
    ),
    "dump": _Row(
        "lakelog.cli.dump.command", "Print every batch and record of segments of any format."
    ),
    "inspect": _Row(
        "lakelog.cli.dump.inspect", "Show what segments hold, and whether they are whole."
    ),
    "init": _Row("lakelog.cli.init", "Make a namespace for topics in an object store."),
    "keep": _Row("lakelog.cli.keep", "Seal, trim, retain and sweep a namespace."),
    "plan": _Row("lakelog.cli.plan", "Tell what a log costs, and how long records take."),
    "iam": _Row("lakelog.cli.iam", "Print what a process needs of a bucket, as an IAM policy."),
    "doctor": _Row("lakelog.cli.doctor", "Find out what is wrong with an installation."),
    "warm": _Row("lakelog.cli.warm", "Compile the kernels ahead of their first use."),
    "import": _Row("lakelog.cli.import_", "Bring topics from Kafka's disks, with their offsets."),
    "spool": _Row(
        "lakelog.cli.spool", "Append to a log on this machine's disk, read it, and ship it."
    ),
    "pipeline": _Row(
        "lakelog.cli.pipeline", "Keep a namespace, and verify and convert topics, on Spark."
    ),
}


_KAFKA = "lakelog_kafka_tools"
KAFKA_TOOLS = {
    "kafka-topics": _Row(f"{_KAFKA}.topics", "Create, list, describe, alter and delete topics."),
    "kafka-consumer-groups": _Row(
        f"{_KAFKA}.groups", "List, describe and delete groups; reset offsets."
    ),
    "kafka-configs": _Row(f"{_KAFKA}.configs", "Describe and alter settings, quotas, passwords."),
    "kafka-acls": _Row(f"{_KAFKA}.acls", "Add, list and remove ACLs."),
    "kafka-get-offsets": _Row(f"{_KAFKA}.get_offsets", "Show offsets of partitions."),
    "kafka-console-producer": _Row(f"{_KAFKA}.producer", "Write each line of stdin to a topic."),
    "kafka-console-consumer": _Row(f"{_KAFKA}.consumer", "Print records of topics as lines."),
    "kafka-dump-log": _Row("lakelog.cli.dump.kafka_dump_log", "Print segments and their indexes."),
}
"""Apache's tools. They read their arguments themselves, and answer ``--help`` as Apache does."""


class _Tool(click.Command):
    """One of Apache's tools: whatever stands behind its name is handed on untouched."""

    def __init__(self, name: str, module: str) -> None:
        super().__init__(name, add_help_option=False)
        self._module = module

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = args
        return args

    def invoke(self, ctx: click.Context) -> None:
        from lakelog_kafka_tools.running import run_tool

        ctx.exit(run_tool(import_module(self._module).run, ctx.args))


class _Commands(click.Group):
    """A group whose members are rows of ``COMMANDS`` and ``KAFKA_TOOLS``."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*COMMANDS, *KAFKA_TOOLS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name in KAFKA_TOOLS:
            return _Tool(cmd_name, KAFKA_TOOLS[cmd_name].module)
        row = COMMANDS.get(cmd_name)
        if row is None:
            return None
        attribute = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command = getattr(import_module(row.module), attribute)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(EXIT_INTERRUPTED)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, row.summary) for name, row in COMMANDS.items()])
        with formatter.section("Apache Kafka's tools, without Java"):
            formatter.write_dl([(name, row.summary) for name, row in KAFKA_TOOLS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lakelog")
def main() -> None:
    """A Kafka-compatible log on object storage."""
