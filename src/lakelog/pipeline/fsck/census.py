"""A census: every object of a namespace, sorted by what its name says that it is.

    _lakelog/…                  System: topics, lanes, shards of groups; read at once, it is small
    {path}/{partition}/…        Folder: what lies beside one manifest; a folder at a time
    anything else               strangers: nobody here knows the name

Of a lane only runs of neighbouring bundles are kept, of a folder a name for each segment: a
listing of millions of objects goes by, and little of it stays.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from lakelog.maintenance import HistoryObject, history_object
from lakelog.names import (
    ACLS_KEY,
    BROKERS_PREFIX,
    CLUSTER_KEY,
    LANES_MAX,
    MIRROR_PREFIX,
    PIPELINE_KEY,
    QUOTAS_KEY,
    TIME_PREFIX,
    TOPICS_PREFIX,
    USERS_KEY,
    is_topic_name,
    shard_named,
)
from lakelog.pipeline.frame import Finding, FindingCollector, Result, Subject
from lakelog.store import ObjectInfo

__all__ = [
    "SYSTEM_PREFIX",
    "Folder",
    "LaneFolder",
    "System",
    "folders_of",
    "strangers_in",
    "system_of",
]

SYSTEM_PREFIX = "_lakelog/"
_KNOWN = (CLUSTER_KEY, PIPELINE_KEY, ACLS_KEY, USERS_KEY, QUOTAS_KEY)

_PASSING = (
    TIME_PREFIX,
    BROKERS_PREFIX,
    MIRROR_PREFIX,
    "_lakelog/staged/",
    "_lakelog/commits/",
    "lakelog-probe/",
)
"""Names that are known, and of which nothing can be said without somebody who refers to them."""

_LANE = re.compile(r"_lakelog/lanes/(\d{4})/(?:(head)|(tail)|(\d{20})\.(bundle|checkpoint))")
_FOLDER = re.compile(r"([a-zA-Z0-9._-]{1,249}(?:~[1-9]\d{0,9})?)/(0|[1-9]\d{0,9})/(.+)")


# ---------------------------------------------------------------------------- the system's own


@dataclass(slots=True)
class LaneFolder:
    """What lies in the folder of a lane."""

    runs: list[tuple[int, int]] = field(default_factory=list)
    """Bundles, as runs of neighbours: ``[first, next)``."""
    checkpoints: list[int] = field(default_factory=list)
    bundles: int = 0
    size: int = 0
    """Bytes of all bundles."""

    def saw_bundle(self, seq: int, size: int) -> None:
        """Take note of a bundle; they come in order."""
        self.bundles, self.size = self.bundles + 1, self.size + size
        if self.runs and self.runs[-1][1] == seq:
            self.runs[-1] = self.runs[-1][0], seq + 1
        else:
            self.runs.append((seq, seq + 1))


@dataclass(slots=True)
class System:
    """What lies below the prefix of the system."""

    topics: list[str] = field(default_factory=list)
    lanes: dict[int, LaneFolder] = field(default_factory=dict)
    shards: list[tuple[int, int]] = field(default_factory=list)
    """Of groups: the number of the move that made each, and its own."""
    strangers: list[str] = field(default_factory=list)
    count: int = 0


def system_of(listing: Iterable[ObjectInfo]) -> System:
    """Sort what a listing of the prefix of the system shows."""
    system = System()
    for info in listing:
        system.count += 1
        key = info.key
        if found := _LANE.fullmatch(key):
            _saw_in_lane(system, found, info)
        elif key.startswith(TOPICS_PREFIX) and is_topic_name(key.removeprefix(TOPICS_PREFIX)):
            system.topics.append(key.removeprefix(TOPICS_PREFIX))
        elif (shard := shard_named(key)) is not None and not shard[2]:
            system.shards.append(shard[:2])
        elif key not in _KNOWN and not key.startswith(_PASSING):
            system.strangers.append(key)
    return system


def _saw_in_lane(system: System, found: re.Match[str], info: ObjectInfo) -> None:
    number = int(found[1])
    if number >= LANES_MAX:
        system.strangers.append(info.key)
        return
    lane = system.lanes.setdefault(number, LaneFolder())
    if found[5] == "bundle":
        lane.saw_bundle(int(found[4]), info.size)
    elif found[5] == "checkpoint":
        lane.checkpoints.append(int(found[4]))


# ---------------------------------------------------------------------------- partitions


@dataclass(slots=True)
class Folder:
    """What lies beside a manifest, or where one should be."""

    path: str
    partition: int
    objects: dict[HistoryObject, list[str]] = field(default_factory=dict)
    """Segments and pages, and the suffixes of their keys."""
    strangers: list[str] = field(default_factory=list)

    @property
    def prefix(self) -> str:
        return f"{self.path}/{self.partition}/"


def folders_of(listing: Iterable[ObjectInfo]) -> Iterator[Folder | str]:
    """Yield the folders of partitions, each when it is complete, and the keys of strangers."""
    for topic_partition, infos in groupby(listing, key=_place):
        if topic_partition is None:
            yield from (one.key for one in infos if _is_strange(one.key))
            continue
        folder = Folder(*topic_partition)
        for info in infos:
            name = info.key.removeprefix(folder.prefix)
            if (found := history_object(name)) is not None:
                folder.objects.setdefault(found, []).append(name.removeprefix(found.stem))
            elif name != "manifest":
                folder.strangers.append(info.key)
        yield folder


def _is_strange(key: str) -> bool:
    return not key.startswith((SYSTEM_PREFIX, *_PASSING))


def _place(info: ObjectInfo) -> tuple[str, int] | None:
    found = _FOLDER.fullmatch(info.key)
    if found is None or info.key.startswith(SYSTEM_PREFIX):
        return None
    return found[1], int(found[2])


def strangers_in(folder: str, keys: Iterable[str]) -> Result | None:
    """Return what is to be told of objects that nobody knows; None if there are none."""
    what = "nobody here knows this name: it is left alone"
    findings = FindingCollector(*(Finding(key, 0, 0, what) for key in keys))
    return Subject(folder, -1, 0, folder).result("stranger", findings) if findings.count else None
