"""The directory of one partition: which files it holds, and which of them are its segments.

    {topic}-{partition}/
        {base offset:020}.log .index .timeindex .txnindex     a segment
        {next offset:020}.snapshot                            producers, up to that offset
        leader-epoch-checkpoint  partition.metadata           see ``checkpoints``

A topic's name may hold hyphens, so the partition is what stands behind the last one. Files on their
way out or in (.deleted, .cleaned, .swap, .tmp), and an index without its log, are no part of the
log; nor are directories on their way out or in ({topic}-{partition}.{id}-delete, -stray, -future).

Planning reads names and sizes only, and looks at each once.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lakelog.errors import InvalidInputError
from lakelog.formats.contract import Files
from lakelog.formats.kafkalog.checkpoints import LEADER_EPOCHS_NAME, METADATA_NAME
from lakelog.formats.kafkalog.producers import SNAPSHOT_SUFFIX
from lakelog.formats.kafkalog.segment import LOG_SUFFIX

__all__ = ["LogDirectory", "directory_name", "parse_directory_name", "plan_directory"]

_FILE = re.compile(r"([0-9]{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)")
_DIRECTORY = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})")
_I32_MAX = (1 << 31) - 1
_I64_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """What a directory holds."""

    segments: tuple[Files, ...]
    """In order of base offset. A snapshot that bears a segment's name is among its files."""

    snapshots: tuple[int, ...]
    """The offsets up to which there are producer snapshots, in order."""

    has_leader_epochs: bool
    has_metadata: bool

    ignored: tuple[str, ...]
    """Names that are no part of the log, in the order they came."""


def plan_directory(entries: Iterable[tuple[str, int]], *, active: bool = True) -> LogDirectory:
    """Return what the files of one partition's directory are, given their names and sizes.

    ``active`` says whether a broker may be writing to the last segment; in an archive none does.
    """
    sizes: dict[int, dict[str, int]] = {}
    names: set[str] = set()
    ignored: list[str] = []
    for name, size in entries:
        found = _FILE.fullmatch(name)
        if found is not None and (base := int(found[1])) <= _I64_MAX:
            sizes.setdefault(base, {})[found[2]] = size
        elif name in (LEADER_EPOCHS_NAME, METADATA_NAME):
            names.add(name)
        else:
            ignored.append(name)
    bases = sorted(base for base, held in sizes.items() if LOG_SUFFIX in held)
    for base, held in sizes.items():
        if LOG_SUFFIX not in held:
            ignored += (f"{base:020}{suffix}" for suffix in held if suffix != SNAPSHOT_SUFFIX)
    return LogDirectory(
        segments=tuple(
            Files(base_offset=base, sizes=sizes[base], active=active and base == bases[-1])
            for base in bases
        ),
        snapshots=tuple(sorted(base for base, held in sizes.items() if SNAPSHOT_SUFFIX in held)),
        has_leader_epochs=LEADER_EPOCHS_NAME in names,
        has_metadata=METADATA_NAME in names,
        ignored=tuple(ignored),
    )


def directory_name(topic: str, partition: int) -> str:
    """Return the name of a partition's directory.

    Raises:
        InvalidInputError: no Kafka topic or partition is called so.
    """
    name = f"{topic}-{partition}"
    if parse_directory_name(name) != (topic, partition):
        raise InvalidInputError(f"topic {topic!r}, partition {partition}")
    return name


def parse_directory_name(name: str) -> tuple[str, int] | None:
    """Return topic and partition, or None when the directory holds no partition."""
    found = _DIRECTORY.fullmatch(name)
    if found is None or found[1] in (".", "..") or int(found[2]) > _I32_MAX:
        return None
    return found[1], int(found[2])
