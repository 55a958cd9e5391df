"""Where every object of a namespace stands. A namespace is a store, or a folder of one.

    _lakelog/cluster.json                          identity, and the rules of this namespace
    _lakelog/users                                 cell: what is kept of users' passwords
    _lakelog/topics/{topic}                        cell: id, incarnation, partitions, lanes, configs
    _lakelog/lanes/{lane:04}/head                  cell: the floor of a lane
    _lakelog/lanes/{lane:04}/tail                  advisory: a recent checkpoint
    _lakelog/lanes/{lane:04}/{seq:020}.bundle      journal; created once
    _lakelog/lanes/{lane:04}/{seq:020}.checkpoint  derived from the journal
    _lakelog/staged/{write}/identity               which bulk write this is an attempt of
    _lakelog/staged/{write}/{lane:04}/{part:06}.batches   its bytes
    _lakelog/staged/{write}/plan                   what of them goes where, if it is the one
    _lakelog/commits/{query}/{number:020}          cell: which attempt counts, and how far it is
    _lakelog/groups/{shard:02}                     cell: consumer groups, and who coordinates them
    _lakelog/groups/{shard:02}/claim               with etcd, in its place: who coordinates them
    _lakelog/groups/{shard:02}/{hash}              and one consumer group
    _lakelog/groups/{move}-{shard:02}...           the same, after all of them were moved
    _lakelog/mirror/{move}/{shard:02}              cell: groups that are in etcd, as they were
    _lakelog/metadata.json                         in etcd: which namespace it is of
    _lakelog/brokers/{node}/beat                   cell: the heartbeat of a broker
    _lakelog/brokers/{node}/member                 cell: its state, addresses and lanes
    _lakelog/brokers/{broker}                      cell: the last heartbeat of a 0.1 broker
    _lakelog/pipeline                              cell: until when a pipeline keeps all of it
    _lakelog/acls                                  cell: who may do what
    _lakelog/quotas                                cell: how much clients may use
    _lakelog/time/{id}                             a moment of the store's clock; deleted at once
    {path}/{partition}/manifest                    cell: history of one partition
    {path}/{partition}/segment-{base:020}.kfs      and .index, .timeindex: sealed history
    {path}/{partition}/page-{write}.json           older rows of a manifest

A cell is changed only by compare-and-swap. Everything else is created once and never overwritten.
``path`` is the name of the topic. When a topic of that name was deleted before, it is
``{topic}~{incarnation}``: no Kafka name has a ``~``, so nothing of the old one can be taken for the
new one's.
"""

import hashlib
import re

from crc32c import crc32c

from lakelog.errors import InvalidInputError

__all__ = [
    "ACLS_KEY",
    "BROKERS_PREFIX",
    "CLUSTER_KEY",
    "COMMITS_PREFIX",
    "GROUPS_PREFIX",
    "LANES_MAX",
    "LANES_PREFIX",
    "METADATA_KEY",
    "MIRROR_PREFIX",
    "PIPELINE_KEY",
    "QUOTAS_KEY",
    "RESERVED",
    "STAGED_PREFIX",
    "STAGING",
    "TIME_PREFIX",
    "TOPICS_PREFIX",
    "USERS_KEY",
    "beat_key",
    "bundle_key",
    "check_topic_name",
    "checkpoint_key",
    "claim_key",
    "commit_key",
    "commit_of",
    "group_key",
    "group_prefix",
    "group_shard_key",
    "head_key",
    "identity_key",
    "is_topic_name",
    "lane_of",
    "lane_prefix",
    "manifest_key",
    "member_key",
    "mirror_key",
    "node_of",
    "page_stem",
    "partition_prefix",
    "plan_key",
    "pulse_key",
    "segment_stem",
    "seq_of",
    "shard_named",
    "staged_key",
    "staged_of",
    "tail_key",
    "time_key",
    "topic_key",
    "topic_path",
]

CLUSTER_KEY = "_lakelog/cluster.json"
PIPELINE_KEY = "_lakelog/pipeline"
ACLS_KEY = "_lakelog/acls"
QUOTAS_KEY = "_lakelog/quotas"
TOPICS_PREFIX = "_lakelog/topics/"
USERS_KEY = "_lakelog/users"
LANES_PREFIX = "_lakelog/lanes/"
STAGED_PREFIX = "_lakelog/staged/"
COMMITS_PREFIX = "_lakelog/commits/"
TIME_PREFIX = "_lakelog/time/"
GROUPS_PREFIX = "_lakelog/groups/"
MIRROR_PREFIX = "_lakelog/mirror/"
METADATA_KEY = "_lakelog/metadata.json"
BROKERS_PREFIX = "_lakelog/brokers/"
LANES_MAX = 1024

STAGING = ".lakelog-staging"
"""The folder where a local store keeps what it has not finished writing. No key begins with it in
any store, so a topic of this name would have no place for its history.
"""

RESERVED = frozenset({".", "..", "_lakelog", STAGING})
"""Names that Kafka, a file system, this layout or a store has taken."""

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_STAGED = re.compile(
    re.escape(STAGED_PREFIX)
    + r"([0-9a-f]{32})/(?:identity|plan(?:-\d{5})?|(\d{4})/\d{6,10}\.batches)"
)
_COMMIT = re.compile(re.escape(COMMITS_PREFIX) + r"([0-9a-f]{32})/(\d{20})")
_SHARD = re.compile(re.escape(GROUPS_PREFIX) + r"(?:([1-9]\d*)-)?(\d\d)(?:/([0-9a-z]+))?")
_MEMBER = re.compile(re.escape(BROKERS_PREFIX) + r"(0|[1-9]\d{0,9})/(beat|member)")
_SEQ = re.compile(r"(\d{20})\.(bundle|checkpoint)")


def is_topic_name(name: str) -> bool:
    """Say whether Kafka allows it as a name, and it is not reserved."""
    return bool(_TOPIC.fullmatch(name)) and name not in RESERVED


def check_topic_name(name: str) -> str:
    """Return a name of a topic.

    Raises:
        InvalidInputError: Kafka does not allow it, or it is reserved.
    """
    if name in RESERVED:
        raise InvalidInputError(f"{name!r} is reserved, and no name of a topic: choose another one")
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
    return f"{STAGED_PREFIX}{write.hex()}/{lane:04}/{part:06}.batches"


def identity_key(write: bytes) -> str:
    return f"{STAGED_PREFIX}{write.hex()}/identity"


def plan_key(write: bytes, page: int = 0) -> str:
    """Return the key of a page of a plan; the first is put last, and says how many there are."""
    return f"{STAGED_PREFIX}{write.hex()}/plan" + (f"-{page:05}" if page else "")


def staged_of(key: str) -> tuple[bytes, int | None] | None:
    """Return whose staged object this is, and of which lane, if of any; None for another key."""
    found = _STAGED.fullmatch(key)
    if found is None:
        return None
    return bytes.fromhex(found[1]), int(found[2]) if found[2] else None


def commit_key(query: bytes, number: int) -> str:
    return f"{COMMITS_PREFIX}{query.hex()}/{number:020}"


def commit_of(key: str) -> tuple[bytes, int] | None:
    """Return the query and the number of a write; None for another key."""
    found = _COMMIT.fullmatch(key)
    return (bytes.fromhex(found[1]), int(found[2])) if found else None


def group_shard_key(shard: int, move: int = 0) -> str:
    """All shards have other names after they were moved: nobody mistakes the old for the new."""
    return f"{GROUPS_PREFIX}{move}-{shard:02}" if move else f"{GROUPS_PREFIX}{shard:02}"


def group_prefix(shard: int, move: int = 0) -> str:
    """Below which the groups of a shard are, where each has a key."""
    return f"{group_shard_key(shard, move)}/"


def claim_key(shard: int, move: int = 0) -> str:
    return f"{group_prefix(shard, move)}claim"


def group_key(shard: int, group_id: str, move: int = 0) -> str:
    """A group may have any name; what is hashed is short, and plain."""
    name = hashlib.sha256(group_id.encode(errors="surrogatepass")).hexdigest()
    return f"{group_prefix(shard, move)}{name[:32]}"


def shard_named(key: str) -> tuple[int, int, str] | None:
    """Return the move and the shard that a key is of, and what it is there; None: of none."""
    found = _SHARD.fullmatch(key)
    return (int(found[1] or 0), int(found[2]), found[3] or "") if found else None


def mirror_key(shard: int, move: int = 0) -> str:
    return f"{MIRROR_PREFIX}{move}/{shard:02}"


def pulse_key(broker: bytes) -> str:
    return BROKERS_PREFIX + broker.hex()


def beat_key(node: int) -> str:
    return f"{BROKERS_PREFIX}{node}/beat"


def member_key(node: int) -> str:
    return f"{BROKERS_PREFIX}{node}/member"


def node_of(key: str) -> tuple[int, str] | None:
    """Return the node id of a member's object, and which of the two it is; None for another key."""
    found = _MEMBER.fullmatch(key)
    return (int(found[1]), found[2]) if found else None


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
