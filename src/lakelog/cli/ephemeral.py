"""`lakelog serve --ephemeral`: a broker for the tests of programs in any language.

It prints one line, its address, and serves until it is asked to end, until what started it is gone,
or until that closes the pipe to its standard input: whichever comes first. So a test that is killed
leaves no broker behind. A standard input that is a terminal, a file or nothing says nothing.

The parent is looked at, and no signal is asked of the kernel for its death: that comes when the
*thread* ends that has started the broker, and runners of tests start it from any.
"""

import json
import os
import select
import signal
import stat
import sys
from typing import Any, NoReturn

import click

from lakelog.cli.arguments import exit_on_error, missing

__all__ = ["serve_ephemeral"]

OPTIONS = {"partitions": "num.partitions", "auto_create_topics": "auto.create.topics.enable"}
"""Those that it takes, and what Kafka calls them."""

LOOK_S = 0.2
"""How often it looks whether its parent is there."""

_STDIN = 0
_READ_BYTES = 1 << 16


def serve_ephemeral(ctx: click.Context, *, as_json: bool) -> None:
    """Serve from a temporary folder, on a port that is free."""
    given = {
        param.name or "": param.opts[0]
        for param in ctx.command.params
        if ctx.get_parameter_source(param.name or "") is click.core.ParameterSource.COMMANDLINE
    }
    others = [given[name] for name in given.keys() - {"ephemeral", "as_json", *OPTIONS}]
    if others:
        raise click.UsageError(
            f"--ephemeral has a folder and a port of its own, and does not go with "
            f"{', '.join(sorted(others))}: leave that out, or --ephemeral"
        )
    properties = {
        name: str(ctx.params[option]).lower() for option, name in OPTIONS.items() if option in given
    }
    parent = os.getppid()
    try:
        from lakelog.ephemeral import EphemeralBroker
    except ImportError as error:
        raise click.UsageError(missing(error, "server")) from error
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, _leave)
    with exit_on_error(), EphemeralBroker(properties) as broker:
        told = {"bootstrap_servers": broker.bootstrap_servers, "pid": os.getpid()}
        click.echo(json.dumps(told) if as_json else broker.bootstrap_servers)
        _wait(parent)


def _leave(*_: Any) -> NoReturn:
    sys.exit(0)


def _wait(parent: int) -> None:
    """Wait until the parent is gone, or has closed the pipe to this process."""
    watched = [_STDIN] if _is_pipe() else []
    while os.getppid() == parent:
        ready, _, _ = select.select(watched, (), (), LOOK_S)
        if ready and not os.read(_STDIN, _READ_BYTES):
            return


def _is_pipe() -> bool:
    try:
        mode = os.fstat(_STDIN).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
