"""`lakelog init`: make a namespace, if the store can carry one."""

import sys

import click

from lakelog.catalog import make_namespace
from lakelog.cli.arguments import exit_on_error, store_option
from lakelog.cli.storage import admit_store, spec_of
from lakelog.errors import LakelogError
from lakelog.host import new_id
from lakelog.model import Rules
from lakelog.store import DividedStore, retrying, run, working

__all__ = ["init"]


@click.command()
@click.argument("url")
@store_option()
@click.option(
    "--lanes",
    default=Rules.__dataclass_fields__["lanes"].default,
    show_default=True,
    help="How many lanes the journal has; use four for each expected broker.",
)
@click.option(
    "--grace-ms",
    default=Rules.__dataclass_fields__["grace_ms"].default,
    show_default=True,
    help="How long objects stay after their deletion was decided. No process may be suspended"
    " for longer.",
)
def init(url: str, store_options: tuple[str, ...], lanes: int, grace_ms: int) -> None:
    """Make a namespace at URL: a bucket, a folder of one, or a folder of this machine.

    The store is tried first: writers race for keys, and exactly one may win each. A store that
    fails is refused.
    """
    spec = spec_of(url, store_options)
    with exit_on_error():
        rules = Rules(lanes=lanes, grace_ms=grace_ms)
        store = spec.open()
    try:
        admit_store(spec, store)
        made = run(
            make_namespace(
                new_id(), rules, etcd_for=url if isinstance(store, DividedStore) else ""
            ),
            working(retrying(store.perform)),
        )
    except LakelogError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    click.echo(f"{url}: namespace {made.id.hex()}, {rules.lanes} lanes")
