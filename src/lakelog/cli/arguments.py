"""What subcommands that read segments have in common: arguments, streams, and a quiet end."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import click

from lakelog.cli.output import Output
from lakelog.cli.report import Report
from lakelog.errors import InvalidInputError
from lakelog.formats import FORMATS
from lakelog.host import install_command

__all__ = [
    "format_option",
    "json_option",
    "missing",
    "named_values",
    "paths_argument",
    "readable",
    "store_option",
    "streams",
]

F = TypeVar("F", bound=Callable[..., Any])


def paths_argument(command: F) -> F:
    kind = click.Path(exists=True)
    return click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=kind)(command)


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")(
        command
    )


def format_option(command: F) -> F:
    option = click.option(
        "--format",
        "told",
        type=click.Choice(list(FORMATS)),
        help="Of data files; recognized by name and first bytes unless given.",
    )
    return option(command)


_WHOSE = {
    "": "An option of the store",
    "from-": "An option of the store that holds the directories",
    "to-": "An option of the store that is written to",
    "against-": "An option of the store to compare with, or of the Kafka client",
}


def store_option(of: str = "") -> Callable[[F], F]:
    """Return what adds the options of the store; of another one than the command's own: ``of``."""
    return click.option(
        f"--{of}store-option",
        f"{of.replace('-', '_')}store_options",
        multiple=True,
        metavar="NAME=VALUE",
        help=f"{_WHOSE[of]}: endpoint, region, ...; may be repeated.",
    )


def missing(error: ImportError, extra: str = "spark") -> str:
    """Return what to say of a package that is not installed here, and comes with an extra."""
    return f"{error.name} is missing here: {install_command(extra)}"


def named_values(texts: tuple[str, ...]) -> dict[str, str]:
    """Return what was given as NAME=VALUE."""
    for text in texts:
        if "=" not in text:
            raise click.UsageError(f"{text!r} is not NAME=VALUE")
    return dict(text.partition("=")[::2] for text in texts)


@contextmanager
def readable(path: str, report: Report) -> Iterator[None]:
    """Go on with the next file when this one cannot be read; say so on stderr."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        report.refuse(f"{path}: {error.strerror}")
    except InvalidInputError as error:
        report.refuse(error)


@contextmanager
def streams() -> Iterator[tuple[Output, Report]]:
    """Give stdout and stderr, and end quietly when nobody reads stdout any more."""
    output = Output(sys.stdout.buffer)
    report = Report(sys.stderr, output)
    try:
        yield output, report
        output.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout once more when it ends; let that go nowhere.
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
    sys.exit(report.exit_code)
