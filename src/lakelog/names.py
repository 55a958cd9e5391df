"""Where every object of a namespace stands. A namespace is a store, or a folder of one.

    _lakelog/cluster.json                          identity, and the rules of this namespace
    _lakelog/topics/{topic}                        cell: id, incarnation, partitions, lanes, configs
    _lakelog/lanes/{lane:04}/head                  cell: the floor of a lane
    _lakelog/lanes/{lane:04}/tail                  advisory: a recent checkpoint
    _lakelog/lanes/{lane:04}/{seq:020}.bundle      journal; created once
    _lakelog/lanes/{lane:04}/{seq:020}.checkpoint  derived from the journal
    _lakelog/staged/{write}/{lane:04}/{part:06}.batches   bytes of one attempt of a bulk write
    _lakelog/commits/{query}/{number:020}          created once: names the attempt that counts
    _lakelog/time/{id}                             a moment of the store's clock; deleted at once
    {path}/{partition}/manifest                    cell: history of one partition
    {path}/{partition}/segment-{base:020}.kfs      and .index, .timeindex: sealed history
    {path}/{partition}/page-{write}.json           older rows of a manifest

A cell is changed only by compare-and-swap. Everything else is created once and never overwritten.
``path`` is the name of the topic. When a topic of that name was deleted before, it is
``{topic}~{incarnation}``: no Kafka name has a ``~``, so nothing of the old one can be taken for the
new one's.
"""

import re

from crc32c import crc32c

from lakelog.errors import InvalidInputError

__all__ = [
    "CLUSTER_KEY",
    "LANES_MAX",
    "LANES_PREFIX",
    "TIME_PREFIX",
    "TOPICS_PREFIX",
    "bundle_key",
    "check_topic_name",
    "checkpoint_key",
    "head_key",
    "is_topic_name",
    "lane_of",
    "lane_prefix",
    "manifest_key",
    "page_stem",
    "partition_prefix",
    "segment_stem",
    "seq_of",
    "staged_key",
    "tail_key",
    "time_key",
    "topic_key",
    "topic_path",
]

CLUSTER_KEY = "_lakelog/cluster.json"
TOPICS_PREFIX = "_lakelog/topics/"
LANES_PREFIX = "_lakelog/lanes/"
TIME_PREFIX = "_lakelog/time/"
LANES_MAX = 1024

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_SEQ = re.compile(r"(\d{20})\.(bundle|checkpoint)")


def is_topic_name(name: str) -> bool:
    """Say whether Kafka allows it as a name, and the house has not taken it."""
    return bool(_TOPIC.fullmatch(name)) and name not in (".", "..", "_lakelog")


def check_topic_name(name: str) -> str:
    """Return a name of a topic.

    Raises:
        InvalidInputError: Kafka does not allow it, or it is taken by the house.
    """
    if not is_topic_name(name):
        raise InvalidInputError(
            f"{name[:64]!r} is no name of a topic: use 1 to 249 of a-z A-Z 0-9 . _ -"
        )
    return name


def topic_key(topic: str) -> str:
    return TOPICS_PREFIX + topic


def topic_path(topic: str, incarnation: int) -> str:
    return f"{topic}~{incarnation}" if incarnation else topic


def lane_of(topic_id: bytes, partition: int, lanes: int) -> int:
    """Return the lane of a partition; neighbours are in neighbouring lanes."""
    return (crc32c(topic_id) + partition) % lanes


def lane_prefix(lane: int) -> str:
    return f"{LANES_PREFIX}{lane:04}/"


def head_key(lane: int) -> str:
    return lane_prefix(lane) + "head"


def tail_key(lane: int) -> str:
    return lane_prefix(lane) + "tail"


def bundle_key(lane: int, seq: int) -> str:
    return f"{LANES_PREFIX}{lane:04}/{seq:020}.bundle"


def checkpoint_key(lane: int, seq: int) -> str:
    return f"{LANES_PREFIX}{lane:04}/{seq:020}.checkpoint"


def seq_of(key: str) -> int | None:
    """Return the seq in the key of a bundle or checkpoint; None for another key."""
    found = _SEQ.fullmatch(key.rpartition("/")[2])
    return int(found[1]) if found else None


def staged_key(write: bytes, lane: int, part: int) -> str:
    return f"_lakelog/staged/{write.hex()}/{lane:04}/{part:06}.batches"


def time_key(id_: bytes) -> str:
    return TIME_PREFIX + id_.hex()


def partition_prefix(path: str, partition: int) -> str:
    return f"{path}/{partition}/"


def manifest_key(path: str, partition: int) -> str:
    return f"{path}/{partition}/manifest"


def page_stem(write: bytes) -> str:
    return f"page-{write.hex()}"


def segment_stem(base_offset: int, write: bytes | None = None) -> str:
    """Return a segment's name without suffix; a write makes it unlike any other."""
    tail = f"-{write.hex()}" if write else ""
    return f"segment-{base_offset:020}{tail}"
