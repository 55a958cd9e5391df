"""The two text files of a Kafka log directory: who led it, and which topic it belongs to.

    leader-epoch-checkpoint
        0                   version
        2                   how many lines follow
        0 0                 leader epoch, and the first offset it wrote
        3 1042

    partition.metadata
        version: 0
        topic_id: 3fz-TXJbTVSQ5Wp2mAabcQ

Lines end in a newline, except the last of partition.metadata, which has none. Both columns of the
checkpoint rise strictly. The topic id is 16 bytes as URL-safe base64 without padding. Kafka makes
an empty checkpoint before it has anything to say, so an empty one is good.
Specification: docs/reference/formats/kafka-log-directory.md
"""

import re
from base64 import urlsafe_b64decode
from typing import NamedTuple
from uuid import UUID

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats.contract import Bytes
from lakelog.records import I32_MAX, I64_MAX

__all__ = [
    "LEADER_EPOCHS_NAME",
    "METADATA_NAME",
    "EpochStart",
    "decode_leader_epochs",
    "decode_metadata",
]

LEADER_EPOCHS_NAME = "leader-epoch-checkpoint"
METADATA_NAME = "partition.metadata"
VERSION = 0

_NUMBER = re.compile(rb"[0-9]{1,19}")
_PAIR = re.compile(rb"([0-9]{1,19})[ \t]+([0-9]{1,19})")
_METADATA = re.compile(rb"version:\s+([0-9]{1,9})\r?\ntopic_id:\s+([0-9A-Za-z_-]{22})\s*")


class EpochStart(NamedTuple):
    """The first offset that was written in a leader epoch."""

    epoch: int
    start_offset: int


def decode_leader_epochs(data: Bytes) -> tuple[EpochStart, ...]:
    """Return the leader epochs, oldest first.

    Raises:
        UnsupportedError: another version.
        CorruptError: no Kafka wrote this.
    """
    lines = bytes(data).splitlines()
    if not lines:
        return ()
    if _NUMBER.fullmatch(lines[0]) is None:
        raise _bad(f"version {lines[0][:40]!r}", 0)
    if int(lines[0]) != VERSION:
        raise UnsupportedError(
            f"version {int(lines[0])}, this reader knows {VERSION}", at=0, where=LEADER_EPOCHS_NAME
        )
    if len(lines) < 2 or _NUMBER.fullmatch(lines[1]) is None:
        raise _bad("no count on the second line", 0)
    if int(lines[1]) != len(lines) - 2:
        raise _bad(f"{len(lines) - 2} lines, not {int(lines[1])}", len(lines[0]) + 1)
    epochs: list[EpochStart] = []
    at = len(lines[0]) + len(lines[1]) + 2
    last = EpochStart(-1, -1)
    for line in lines[2:]:
        pair = _PAIR.fullmatch(line)
        if pair is None:
            raise _bad(f"{line[:40]!r} is not an epoch and an offset", at)
        entry = EpochStart(int(pair[1]), int(pair[2]))
        if not (last.epoch < entry.epoch <= I32_MAX):
            raise _bad(f"epoch {entry.epoch} behind {last.epoch}", at)
        if not (last.start_offset < entry.start_offset <= I64_MAX):
            raise _bad(f"start offset {entry.start_offset} behind {last.start_offset}", at)
        epochs.append(entry)
        last = entry
        at += len(line) + 1
    return tuple(epochs)


def _bad(what: str, at: int) -> CorruptError:
    return CorruptError(what, at=at, where=LEADER_EPOCHS_NAME)


def decode_metadata(data: Bytes) -> UUID:
    """Return the topic id.

    Raises:
        UnsupportedError: another version.
        CorruptError: no Kafka wrote this.
    """
    found = _METADATA.fullmatch(data)
    if found is None:
        raise CorruptError("not a version and a topic id", at=0, where=METADATA_NAME)
    if int(found[1]) != VERSION:
        raise UnsupportedError(
            f"version {int(found[1])}, this reader knows {VERSION}", at=0, where=METADATA_NAME
        )
    # 22 letters are 132 bits: 16 bytes, and 4 bits that say nothing.
    topic_id = UUID(bytes=urlsafe_b64decode(found[2] + b"=="))
    if topic_id.int == 0:
        raise CorruptError("the topic id is all zero", at=found.start(2), where=METADATA_NAME)
    return topic_id
