"""Who the brokers of a namespace are, who of them does what, and where groups are kept.

members     a broker, as it tells of itself
liveness    which of them live, by what one's own lists have shown
membership  how a broker takes part: the contract, and members in the bucket
placement   who should own what
leadership  which lanes a broker leads, and what it tells of the others
node        one broker of a cluster: what it knows, and what it announces
leading     takes the lanes that it should lead, and gives up those that another leads
claiming    when it may claim a shard of groups
claims      claims it, and says who coordinates the others
overview    all of it in one look, for whoever is no member
shards      shards of groups: what is stored of each, and who may write it
stored_groups  one broker writes a shard, and whoever takes over from it; or all are moved
bucket_groups  a cell of the bucket for each shard
keyed_groups  a key for each group, for etcd
mirrors     a copy of that in the bucket
values      a group as text
"""

from lakelog.coordination.bucket_groups import BucketGroups
from lakelog.coordination.claiming import LOOK_MS, Claiming, Verdict
from lakelog.coordination.claims import ShardClaims
from lakelog.coordination.keyed_groups import GROUP_BYTES_MAX, KeyedGroups, decode_claim, groups_in
from lakelog.coordination.leadership import Leadership, Told
from lakelog.coordination.leading import Lanes, LastWriter, Leading
from lakelog.coordination.liveness import DEAD_AFTER, Liveness
from lakelog.coordination.members import Member, State, decode_member, encode_member
from lakelog.coordination.membership import BucketMembership, Membership, View
from lakelog.coordination.mirrors import (
    MIRROR_INTERVAL_MS,
    Mirrored,
    drop_mirrors,
    mirror_shard,
    read_mirror,
)
from lakelog.coordination.node import Node
from lakelog.coordination.overview import (
    Overview,
    Placed,
    SeenMember,
    read_overview,
    stored_shards,
)
from lakelog.coordination.placement import LOAD_MAX, owners_of
from lakelog.coordination.shards import (
    RELEASED,
    SHARD_BYTES_MAX,
    SHARDS,
    SHARDS_MAX,
    Claim,
    ClaimedShard,
    decode_shard,
    encode_shard,
    shard_of,
)
from lakelog.coordination.stored_groups import Groups, Pulse, drop_moved
from lakelog.coordination.values import decode_group, encode_group

__all__ = [
    "DEAD_AFTER",
    "GROUP_BYTES_MAX",
    "LOAD_MAX",
    "LOOK_MS",
    "MIRROR_INTERVAL_MS",
    "RELEASED",
    "SHARDS",
    "SHARDS_MAX",
    "SHARD_BYTES_MAX",
    "BucketGroups",
    "BucketMembership",
    "Claim",
    "ClaimedShard",
    "Claiming",
    "Groups",
    "KeyedGroups",
    "Lanes",
    "LastWriter",
    "Leadership",
    "Leading",
    "Liveness",
    "Member",
    "Membership",
    "Mirrored",
    "Node",
    "Overview",
    "Placed",
    "Pulse",
    "SeenMember",
    "ShardClaims",
    "State",
    "Told",
    "Verdict",
    "View",
    "decode_claim",
    "decode_group",
    "decode_member",
    "decode_shard",
    "drop_mirrors",
    "drop_moved",
    "encode_group",
    "encode_member",
    "encode_shard",
    "groups_in",
    "mirror_shard",
    "owners_of",
    "read_mirror",
    "read_overview",
    "shard_of",
    "stored_shards",
]
