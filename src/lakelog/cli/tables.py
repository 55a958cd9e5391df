"""Rows for people or for programs: a table on a terminal, tab-separated text everywhere else.

The text begins with a line of names and is never folded, so that ``cut``, ``awk`` and ``grep`` work
on it. Names that clients chose are shown without control characters, and not beyond 256 characters:
a group may be called anything, and its name must not control a terminal.
"""

import sys
from collections.abc import Iterable, Sequence

import click

__all__ = ["counted", "plain", "show_rows"]

TEXT_CHARS_MAX = 256


def plain(text: str) -> str:
    """Return a text that is safe to print: control characters escaped, and cut."""
    cut = text[:TEXT_CHARS_MAX] + ("…" if len(text) > TEXT_CHARS_MAX else "")
    if cut.isprintable():
        return cut
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in cut
    )


def counted(count: int, what: str) -> str:
    """Return a number and what it counts: 1 file, 2 files."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def show_rows(names: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows; None is shown as a dash, numbers to the right."""
    texts = [["-" if one is None else plain(str(one)) for one in row] for row in rows]
    if not sys.stdout.isatty():
        for row in (names, *texts):
            click.echo("\t".join(row))
        return
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE, pad_edge=False)
    for at, name in enumerate(names):
        number = bool(texts) and all(row[at].lstrip("-").isdecimal() for row in texts)
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in texts:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)
