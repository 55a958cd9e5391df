"""`lakelog user`: who may log in, in the object store. No broker is needed or asked.

So a namespace gets its first user: whoever may write the bucket is trusted with everything in it.
Passwords come from a prompt, a file or a variable, and never from arguments, which everybody on the
machine can read.
"""

import json
from pathlib import Path

import click

from lakelog.catalog import UserChange, change_users, read_users
from lakelog.cli.arguments import json_option, storage_options
from lakelog.cli.storage import open_storage
from lakelog.cli.tables import show_rows
from lakelog.errors import NotFoundError
from lakelog.host import new_id
from lakelog.security import (
    ITERATIONS,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    check_password,
    check_user_name,
    keys_of,
    salt_password,
)

__all__ = ["user"]

PASSWORD_BYTES_MAX = 1 << 13
SOON = "brokers know it within ten seconds"

_mechanisms = click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice([str(one) for one in ScramMechanism]),
    multiple=True,
    help="For which mechanism; may be repeated.  [default: SCRAM-SHA-512, or all to delete]",
)


@click.group()
def user() -> None:
    """Add, list and delete users, who log in by SCRAM or PLAIN.

    These commands use the object store itself: no broker need run. What is kept of a password is
    what SCRAM keeps, and not the password.
    """


@user.command("add")
@click.argument("name")
@storage_options
@_mechanisms
@click.option(
    "--iterations",
    type=click.IntRange(ITERATIONS_MIN, ITERATIONS_MAX),
    default=ITERATIONS,
    show_default=True,
    help="How often the password is hashed: whoever reads the bucket can guess that much slower.",
)
@click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="A file whose first line is the password; - is the standard input.",
)
@click.option("--password", envvar="LAKELOG_PASSWORD", hidden=True)
@click.pass_context
def _add(
    ctx: click.Context,
    name: str,
    url: str,
    store_options: tuple[str, ...],
    mechanisms: tuple[str, ...],
    iterations: int,
    password_file: Path | None,
    password: str | None,
) -> None:
    """Add a user, or give one another password.

    The password is asked for, or comes from --password-file, or from the variable
    LAKELOG_PASSWORD.
    """
    if ctx.get_parameter_source("password") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError(
            "everybody on this machine can read a password among arguments: leave it out to be"
            " asked for it, or use --password-file FILE, or the variable LAKELOG_PASSWORD"
        )
    with open_storage(url, store_options) as storage:
        check_user_name(name)
        secret = check_password(_password(password_file, password))
        changes = []
        for kind in map(ScramMechanism, dict.fromkeys(mechanisms or (ScramMechanism.SHA_512,))):
            salt = new_id()
            salted = salt_password(kind, secret.encode(), salt, iterations)
            changes.append(UserChange(name, kind, keys_of(kind, salted, salt, iterations)))
        storage.run(change_users(tuple(changes), write=new_id(), secret=new_id() + new_id()))
    kinds = ", ".join(change.mechanism for change in changes)
    click.echo(f"{name} can log in by {kinds}, and by PLAIN: {SOON}")


def _password(file: Path | None, given: str | None) -> str:
    if file is None:
        if given is not None:
            return given
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    with click.open_file(str(file), "rb") as opened:
        data: bytes = opened.read(PASSWORD_BYTES_MAX)
    return data.decode(errors="replace").partition("\n")[0].rstrip("\r")


@user.command("list")
@storage_options
@json_option
def _list(url: str, store_options: tuple[str, ...], as_json: bool) -> None:
    """List users, and their mechanisms."""
    with open_storage(url, store_options) as storage:
        users = storage.run(read_users())
    rows = [
        (name, str(kind), keys.iterations)
        for name, own in sorted(users.keys.items())
        for kind, keys in sorted(own.items())
    ]
    if as_json:
        for name, kind, iterations in rows:
            row = {"user": name, "mechanism": kind, "iterations": iterations}
            click.echo(json.dumps(row))
        return
    show_rows(("USER", "MECHANISM", "ITERATIONS"), rows)


@user.command("delete")
@click.argument("name")
@storage_options
@_mechanisms
def _delete(
    name: str, url: str, store_options: tuple[str, ...], mechanisms: tuple[str, ...]
) -> None:
    """Delete a user: it cannot log in any more. Connections that it has go on until they end."""
    with open_storage(url, store_options) as storage:
        own = storage.run(read_users()).keys.get(name, {})
        kinds = [kind for kind in own if not mechanisms or kind in mechanisms]
        if not kinds:
            raise NotFoundError(
                f"there is no user {name}, or not with this mechanism: see lakelog user list"
            )
        changes = tuple(UserChange(name, kind, None) for kind in kinds)
        storage.run(change_users(changes, write=new_id(), secret=new_id() + new_id()))
    click.echo(f"{name} cannot log in by {', '.join(kinds)} any more: {SOON}")
