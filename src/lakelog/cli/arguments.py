"""What subcommands have in common: options, and how errors end them."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from lakelog.errors import InvalidInputError, LakelogError
from lakelog.host import install_command

__all__ = [
    "exit_on_error",
    "json_option",
    "missing",
    "named_values",
    "storage_options",
    "storage_options_unless",
    "store_option",
]

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")(
        command
    )


_WHOSE = {
    "": "An option of the store",
    "from-": "An option of the store that holds the directories",
    "to-": "An option of the store that is written to",
    "against-": "An option of the store to compare with, or of the Kafka client",
}


def store_option(of: str = "") -> Callable[[F], F]:
    """Return what adds the options of a store; ``of`` names one that is not the command's own."""
    return click.option(
        f"--{of}store-option",
        f"{of.replace('-', '_')}store_options",
        multiple=True,
        metavar="NAME=VALUE",
        help=f"{_WHOSE[of]}: endpoint, region, ...; may be repeated.",
    )


class _StorageOption(click.Option):
    """An option that is needed unless a flag is given, which is read before it."""

    def __init__(self, *names: Any, unless: str = "", **settings: Any) -> None:
        super().__init__(*names, **settings)
        self._unless = unless

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        return None if ctx.params.get(self._unless) else super().process_value(ctx, value)


def storage_options(command: F) -> F:
    """Add the options that say where the log is."""
    return storage_options_unless("")(command)


def storage_options_unless(flag: str) -> Callable[[F], F]:
    """Add the options that say where the log is; with the ``flag``, it need not be said."""
    option = click.option(
        "--storage",
        "url",
        cls=_StorageOption,
        unless=flag,
        required=True,
        envvar="LAKELOG_STORAGE",
        show_envvar=True,
        metavar="URL",
        help="Where the log is: s3://bucket/folder, file:///path, ...",
    )
    return lambda command: option(store_option()(command))


def missing(error: ImportError, extra: str = "spark") -> str:
    """Return what to say of a package that is not installed, and comes with an extra."""
    return f"{error.name} is not installed: {install_command(extra)}"


def named_values(texts: tuple[str, ...]) -> dict[str, str]:
    """Return what was given as NAME=VALUE."""
    for text in texts:
        if "=" not in text:
            raise click.UsageError(f"{text!r} is not NAME=VALUE")
    return dict(text.partition("=")[::2] for text in texts)


@contextmanager
def exit_on_error() -> Iterator[None]:
    """End the command with a line and an exit code when an error comes out of the block."""
    try:
        yield
    except InvalidInputError as error:
        raise click.UsageError(str(error)) from error
    except LakelogError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
