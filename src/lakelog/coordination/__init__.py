"""Where the state of groups lives.

shards     cells of the namespace: one broker writes them, and whoever takes over from it
values     a group as text
"""

from lakelog.coordination.shards import (
    SHARD_BYTES_MAX,
    SHARDS,
    SHARDS_MAX,
    BucketGroups,
    Claim,
    ClaimedShard,
    Pulse,
    decode_shard,
    shard_of,
)
from lakelog.coordination.values import decode_group, encode_group

__all__ = [
    "SHARDS",
    "SHARDS_MAX",
    "SHARD_BYTES_MAX",
    "BucketGroups",
    "Claim",
    "ClaimedShard",
    "Pulse",
    "decode_group",
    "decode_shard",
    "encode_group",
    "shard_of",
]
