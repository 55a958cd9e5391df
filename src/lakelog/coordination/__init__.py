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
shards      cells of the namespace: one broker writes them, and whoever takes over from it
keyed_groups  the same with a key for each group, for etcd
values      a group as text
"""

from lakelog.coordination.claiming import LOOK_MS, Claiming, Verdict
from lakelog.coordination.claims import ShardClaims
from lakelog.coordination.keyed_groups import GROUP_BYTES_MAX, KeyedGroups, decode_claim, groups_in
from lakelog.coordination.leadership import Leadership, Told
from lakelog.coordination.leading import Lanes, LastWriter, Leading
from lakelog.coordination.liveness import DEAD_AFTER, Liveness
from lakelog.coordination.members import Member, State, decode_member, encode_member
from lakelog.coordination.membership import BucketMembership, Membership, View
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
    BucketGroups,
    Claim,
    ClaimedShard,
    Groups,
    Pulse,
    decode_shard,
    shard_of,
)
from lakelog.coordination.values import decode_group, encode_group

__all__ = [
    "DEAD_AFTER",
    "GROUP_BYTES_MAX",
    "LOAD_MAX",
    "LOOK_MS",
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
    "encode_group",
    "encode_member",
    "groups_in",
    "owners_of",
    "read_overview",
    "shard_of",
    "stored_shards",
]
