"""Paths -> the files to read, in order.

A directory may hold a million names, so it is listed once, nothing in it is asked for its size, and
only the names of data files are kept. Names are padded with zeros: their order is that of offsets.
Directories below it come after its own files, in natural order (topic-2 before topic-10); links to
directories are not followed, since they may lead in circles.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from lakelog.cli.recognize import base_offset_of, is_side_name

__all__ = ["Found", "display_path", "find"]

_DIGITS = re.compile(r"(\d+)")


class Found(NamedTuple):
    """A file to read."""

    path: str
    root: str
    """The path that was given, and led to it."""
    base_offset: int | None = None
    """Of a data file in a directory, by its name."""
    next_base_offset: int | None = None
    """Of the next data file of the same kind in the same directory."""


def find(
    paths: Sequence[str], *, refuse: Callable[[str], None], all_files: bool = False
) -> Iterator[Found]:
    """Yield the files that ``paths`` stand for: files themselves, directories all below them.

    ``refuse`` is told of directories that cannot be listed.
    """
    for path in paths:
        root = display_path(path)
        if os.path.isdir(path):  # noqa: PTH112 (a Path would drop the leading "./" people typed)
            yield from _find_below(root, refuse, all_files)
        else:
            yield Found(root, root)


def display_path(path: str) -> str:
    """Return a path as Java's File shows it, which is how kafka-dump-log prints it."""
    return re.sub("/+", "/", path).rstrip("/") or "/"


def _find_below(root: str, refuse: Callable[[str], None], all_files: bool) -> Iterator[Found]:
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        prefix = directory if directory.endswith("/") else f"{directory}/"
        try:
            names, below = _list(directory, all_files)
        except OSError as error:
            refuse(f"{directory}: {error.strerror}")
            continue
        bases = [base_offset_of(name) for name in names]
        following = _following(names, bases)
        for name, base_offset, next_base_offset in zip(names, bases, following, strict=True):
            yield Found(prefix + name, root, base_offset, next_base_offset)
        waiting += (prefix + name for name in reversed(below))


def _following(names: list[str], bases: list[int | None]) -> list[int | None]:
    """Return for each file the base offset of the data file of its kind behind it."""
    following: list[int | None] = []
    later: dict[str, int] = {}
    for name, base_offset in zip(reversed(names), reversed(bases), strict=True):
        suffix = name.rpartition(".")[2]
        following.append(later.get(suffix))
        if base_offset is not None:
            later[suffix] = base_offset
    following.reverse()
    return following


def _list(directory: str, all_files: bool) -> tuple[list[str], list[str]]:
    names: list[str] = []
    below: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                below.append(entry.name)
            elif base_offset_of(entry.name) is not None or (all_files and is_side_name(entry.name)):
                names.append(entry.name)
    names.sort()
    below.sort(key=_natural)
    return names, below


def _natural(name: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name) if part
    ]
