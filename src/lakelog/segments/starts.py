"""Where logs begin: what DeleteRecords took, though its bytes may still be on disk.

A broker deletes whole segments. When a client has records deleted up to an offset inside one, the
broker only notes that offset, once a minute, in a file at the root of its log directory:

    log-start-offset-checkpoint
        0                   version
        1                   how many lines follow
        orders 0 1042       topic, partition, first offset that is left

A partition that is not named begins with its first segment. Kafka makes an empty file before it has
anything to say, so an empty one is good.
"""

import re
from collections.abc import Iterable, Iterator

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.store import Flow, get

__all__ = ["LOG_STARTS_NAME", "LogStarts", "decode_log_starts", "note_roots", "read_log_starts"]

LOG_STARTS_NAME = "log-start-offset-checkpoint"

_VERSION = 0
_LINE = re.compile(rb"([a-zA-Z0-9._-]{1,249}) (0|[1-9][0-9]{0,9}) ([0-9]{1,19})")

LogStarts = dict[tuple[str, str, int], int]
"""Root directory, topic, partition -> first offset that is left."""


def note_roots(objects: Iterable[tuple[str, int]], roots: set[str]) -> Iterator[tuple[str, int]]:
    """Pass a listing on, and add to ``roots`` the directories that hold a checkpoint."""
    for item in objects:
        directory, _, name = item[0].rpartition("/")
        if name == LOG_STARTS_NAME:
            roots.add(directory)
        yield item


def read_log_starts(roots: Iterable[str]) -> Flow[LogStarts]:
    """Return what the checkpoints of some roots say.

    Raises:
        CorruptError, UnsupportedError: one of them is no such file; ``where`` is its key.
    """
    starts: LogStarts = {}
    for root in sorted(roots):
        key = f"{root}/{LOG_STARTS_NAME}" if root else LOG_STARTS_NAME
        found = decode_log_starts((yield from get(key)), where=key)
        starts.update(((root, *place), offset) for place, offset in found.items())
    return starts


def decode_log_starts(data: bytes, *, where: str = LOG_STARTS_NAME) -> dict[tuple[str, int], int]:
    """Return the first offset that is left of each partition that is named.

    Raises:
        UnsupportedError: another version.
        CorruptError: no Kafka wrote this.
    """
    lines = data.splitlines()
    if not lines:
        return {}
    if len(lines) < 2 or not all(line.isdigit() for line in lines[:2]):
        raise CorruptError("no version and count on the first two lines", at=0, where=where)
    if int(lines[0]) != _VERSION:
        what = f"version {int(lines[0])}, this reader knows {_VERSION}"
        raise UnsupportedError(what, at=0, where=where)
    at = len(lines[0]) + len(lines[1]) + 2
    if int(lines[1]) != len(lines) - 2:
        raise CorruptError(f"{len(lines) - 2} lines, not {int(lines[1])}", at=at, where=where)
    starts: dict[tuple[str, int], int] = {}
    for line in lines[2:]:
        found = _LINE.fullmatch(line)
        if found is None:
            what = f"{line[:40]!r} is not a topic, a partition and an offset"
            raise CorruptError(what, at=at, where=where)
        starts[found[1].decode(), int(found[2])] = int(found[3])
        at += len(line) + 1
    return starts
