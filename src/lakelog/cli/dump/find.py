"""Paths -> the files to read, in order.

A directory may hold a million names, so it is listed once, nothing in it is asked for its size, and
only the names of data files are kept. Names are padded with zeros: their order is that of offsets.
Directories below it come after its own files, in natural order (topic-2 before topic-10); links to
directories are not followed, since they may lead in circles.

Of a partition in a namespace, the segments are those that its manifest names: what merging or
compaction has replaced lies there for a while, and holds records a second time. It is left out, and
that is said. Whoever names a file sees it. Records that are only in the journal of a namespace are
in no segment: that there are some is said, once for each namespace and path.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from lakelog.cli.dump.recognize import base_offset_of, is_side_name

__all__ = ["Found", "display_path", "find"]

_NAMESPACE = "_lakelog"
"""The folder that every namespace has."""
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
    paths: Sequence[str],
    *,
    refuse: Callable[[str], None],
    say: Callable[[str], None],
    all_files: bool = False,
) -> Iterator[Found]:
    """Yield the files that ``paths`` stand for: files themselves, directories all below them.

    ``refuse`` is told of what cannot be listed or read, ``say`` of what is left out.
    """
    for path in paths:
        root = display_path(path)
        if os.path.isdir(path):  # noqa: PTH112 (a Path would drop the leading "./" people typed)
            _tell_of_journal_above(path, say)
            yield from _find_below(root, refuse, say, all_files)
        else:
            yield Found(root, root)


def display_path(path: str) -> str:
    """Return a path as Java's File shows it, which is how kafka-dump-log prints it."""
    return re.sub("/+", "/", path).rstrip("/") or "/"


def _find_below(
    root: str, refuse: Callable[[str], None], say: Callable[[str], None], all_files: bool
) -> Iterator[Found]:
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        prefix = directory if directory.endswith("/") else f"{directory}/"
        try:
            names, below, has_manifest = _list(directory, all_files)
        except OSError as error:
            refuse(f"{directory}: {error.strerror}")
            continue
        if _NAMESPACE in below:
            _tell_of_journal(directory, say)
        if has_manifest:
            names = _named(directory, names, refuse, say)
        bases = [base_offset_of(name) for name in names]
        following = _following(names, bases)
        for name, twice in _twice(names, bases):
            refuse(
                f"{prefix}{name} begins at offset {twice} as the one before it does, and no "
                "manifest says which of them counts: records may be shown twice"
            )
        for name, base_offset, next_base_offset in zip(names, bases, following, strict=True):
            yield Found(prefix + name, root, base_offset, next_base_offset)
        waiting += (prefix + name for name in reversed(below))


def _named(
    directory: str, names: list[str], refuse: Callable[[str], None], say: Callable[[str], None]
) -> list[str]:
    """Return the names of a partition of a namespace that its manifest names."""
    # Only here: the commands on files are to start fast.
    from lakelog.segments import LAYOUTS, Directory, read_named
    from lakelog.store import LocalStore, run, working

    whole = os.path.abspath(directory)  # noqa: PTH100 (a link stays what it is)
    above, _, partition = whole.rpartition("/")
    root, _, topic = above.rpartition("/")
    path = f"{topic}/{partition}"
    place = LAYOUTS["kafs"].partition_of(path)
    if place is None:
        return names
    listed = Directory(
        path=path, topic=place[0], partition=place[1], segments=(), has_manifest=True
    )
    (found,) = run(read_named([listed]), working(LocalStore(root or "/").perform))
    if found.fault is not None:
        refuse(f"{directory}: {found.fault}; every segment is shown, also what was replaced")
        return names
    stems = {one.stem.rpartition("/")[2] for one in found.segments}
    kept = [name for name in names if name.rpartition(".")[0] in stems]
    for stem in sorted(stems - {name.rpartition(".")[0] for name in kept}):
        refuse(
            f"{directory}/{stem}.kfs is missing, and the manifest beside it names it: restore it"
        )
    if len(kept) < len(names):
        what = "1 file is" if len(names) - len(kept) == 1 else f"{len(names) - len(kept)} files are"
        say(f"{directory}: {what} left out that the manifest does not name; name them to see them")
    return kept


def _tell_of_journal_above(path: str, say: Callable[[str], None]) -> None:
    """Tell of the journal, where ``path`` is the folder of a topic or partition of a namespace."""
    inner: list[str] = []
    folder = os.path.abspath(path)  # noqa: PTH100 (a link stays what it is)
    for _ in range(2):
        folder, _, name = folder.rpartition("/")
        inner.insert(0, name)
        if name != _NAMESPACE and os.path.isdir(f"{folder}/{_NAMESPACE}"):  # noqa: PTH112
            _tell_of_journal(folder, say, *inner)
            return


def _tell_of_journal(
    root: str, say: Callable[[str], None], path: str | None = None, partition: str = ""
) -> None:
    """Tell of records of a namespace, or of a topic or partition of it, that no segment holds."""
    # Only here: the commands on files are to start fast.
    from lakelog.host import SystemClock, new_id
    from lakelog.log import tell_unsealed
    from lakelog.segments import Selection
    from lakelog.store import LocalStore, run, working

    selection = Selection()
    if path is not None:
        topic = path.partition("~")[0]
        selection = Selection(topics=frozenset({topic}))
        if partition.isdecimal():
            selection = Selection(partitions=frozenset({(topic, int(partition))}))
    flow = tell_unsealed(selection, SystemClock(), new_id)
    if told := run(flow, working(LocalStore(root or "/").perform)):
        say(
            f"{root}: {told}: lakelog pipeline seal {shlex.quote(root)} --now makes segments of "
            "them, and lakelog.scan in Python reads them as they are"
        )


def _twice(names: list[str], bases: list[int | None]) -> Iterator[tuple[str, int]]:
    """Yield the data files that begin where one before them does."""
    seen: dict[str, int] = {}
    for name, base_offset in zip(names, bases, strict=True):
        suffix = name.rpartition(".")[2]
        if base_offset is not None and seen.get(suffix) == base_offset:
            yield name, base_offset
        elif base_offset is not None:
            seen[suffix] = base_offset


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


def _list(directory: str, all_files: bool) -> tuple[list[str], list[str], bool]:
    """Return the files to read, the directories, and whether there is a manifest."""
    has_manifest = False
    names: list[str] = []
    below: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                below.append(entry.name)
            elif base_offset_of(entry.name) is not None or (all_files and is_side_name(entry.name)):
                names.append(entry.name)
            elif entry.name == "manifest":
                has_manifest = True
    names.sort()
    below.sort(key=_natural)
    return names, below, has_manifest


def _natural(name: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name) if part
    ]
