"""Where the state of groups lives.

contract   shards and claims; what every store of groups does
bucket     cells of the namespace: one broker, and whoever takes over from it
memory     this process
values     a group as text
"""

from lakelog.coordination.bucket import BucketGroups, decode_shard
from lakelog.coordination.contract import (
    SHARD_BYTES_MAX,
    SHARDS,
    SHARDS_MAX,
    Claim,
    ClaimedShard,
    GroupStore,
    Pulse,
    shard_of,
)
from lakelog.coordination.memory import MemoryGroups
from lakelog.coordination.values import decode_group, encode_group

__all__ = [
    "SHARDS",
    "SHARDS_MAX",
    "SHARD_BYTES_MAX",
    "BucketGroups",
    "Claim",
    "ClaimedShard",
    "GroupStore",
    "MemoryGroups",
    "Pulse",
    "decode_group",
    "decode_shard",
    "encode_group",
    "shard_of",
]
