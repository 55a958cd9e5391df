"""`lakelog init`: make a namespace, where the store can carry one."""

import sys

import click

from lakelog.catalog import make_namespace
from lakelog.cli.arguments import named_values, store_option
from lakelog.errors import InvalidInputError, LakelogError
from lakelog.host import new_id
from lakelog.model import Rules
from lakelog.store import (
    StoreSpec,
    admit,
    expiry_finding,
    file_system_of,
    find_expiry,
    machine_finding,
    probe_store,
    retrying,
    run,
    working,
)

__all__ = ["init"]


@click.command()
@click.argument("url")
@store_option()
@click.option(
    "--lanes",
    default=Rules.__dataclass_fields__["lanes"].default,
    show_default=True,
    help="Four per expected broker.",
)
@click.option(
    "--grace-ms",
    default=Rules.__dataclass_fields__["grace_ms"].default,
    show_default=True,
    help="How long deleters wait. No process may sleep for longer unnoticed.",
)
def init(url: str, store_options: tuple[str, ...], lanes: int, grace_ms: int) -> None:
    """Make a namespace at URL: a bucket, a folder of one, or a folder of this machine.

    The store is tried first: writers race for keys, and exactly one may win each. A store that
    fails is refused.
    """
    spec = StoreSpec(url, named_values(store_options))
    try:
        rules = Rules(lanes=lanes, grace_ms=grace_ms)
        store = spec.open()
    except InvalidInputError as error:
        raise click.UsageError(str(error)) from error
    try:
        findings = [
            *probe_store(store, ""),
            expiry_finding(find_expiry(spec, "")),
            machine_finding(spec, file_system_of(spec)),
        ]
        for warning in admit(url, findings):
            click.echo(f"Warning: {warning}", err=True)
        made = run(make_namespace(new_id(), rules), working(retrying(store.perform)))
    except LakelogError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    click.echo(f"{url}: namespace {made.id.hex()}, {rules.lanes} lanes")
