"""`lakelog warm`: compile the kernels ahead of their first use."""

import time
from importlib import import_module
from pkgutil import iter_modules

import click

from lakelog.cli.arguments import missing

__all__ = ["kernel_modules", "warm"]

PACKAGE = "lakelog.records.kernels"
OTHERS = (
    "lakelog.formats.kernels",
    "lakelog.formats.kernels_encode",
    "lakelog.formats.kernels_spool",
)


@click.command()
def warm() -> None:
    """Compile the kernels ahead of their first use.

    Spark and lakelog.scan read and write columns with them. They are compiled once on a machine,
    and again with each new version of lakelog, Numba or Python: run this where an image is built.
    The result is stored beside the package, or in NUMBA_CACHE_DIR.
    """
    try:
        from numba.core.event import install_recorder

        modules = kernel_modules()
    except ImportError as error:
        raise click.UsageError(missing(error, "arrow")) from error
    begun_s = time.monotonic()
    compiled = 0
    for name in modules:
        from_s = time.monotonic()
        with install_recorder("numba:compile") as recorder:
            import_module(name)
        if recorder.buffer:
            compiled += 1
            click.echo(f"{name} {time.monotonic() - from_s:.1f} s")
    if compiled:
        took_s = time.monotonic() - begun_s
        click.echo(f"{compiled} of {len(modules)} modules were compiled, in {took_s:.1f} s.")
    else:
        click.echo("Everything was compiled already.")


def kernel_modules() -> list[str]:
    """Return the names of all modules with something to compile."""
    package = import_module(PACKAGE)
    inside = sorted(f"{PACKAGE}.{one.name}" for one in iter_modules(package.__path__))
    return [*inside, *OTHERS]
