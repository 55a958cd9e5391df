"""OffsetCommit (key 8, versions 2 to 9).

Behaviour
    Answered when it is stored. Commits of one connection take effect in their order, also when the
    topics of one must be looked for first. Offsets belong to a topic by its id: one that is deleted
    and made again begins without. Generation -1 and no member commits from outside of a group, as
    long as it has no members: consumers that assign themselves, and operators. In a group of the
    newer protocol a member commits in the epoch it is in. Offsets for partitions that a group has
    not committed before need room: without it they are refused with INVALID_COMMIT_OFFSET_SIZE,
    which clients tell their users.

Not done
    A retention of its own for each commit (versions 2 to 4): the broker's counts. Version 10, in
    which topics come by id.

Versions
    6 adds leader epochs, 7 static members. From 9 on a group that is not there is called so, and
    members of the newer protocol may commit.
"""

from collections.abc import Awaitable

from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v9.request import OffsetCommitRequest

from lakelog.broker.services import Call, Services, then
from lakelog.broker.turns import in_turns
from lakelog.catalog import Topic
from lakelog.errors import LakelogError
from lakelog.groups import Commit, CommitAnswer, NewOffset, TopicIdPartition
from lakelog.names import is_topic_name
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["find_topic", "offset_commit"]

KNOWS_MISSING_FROM = 9


async def offset_commit(
    services: Services, call: Call, request: OffsetCommitRequest
) -> Fields | Awaitable[Fields]:
    """Store how far a group has come."""
    may_commit = call.may_group(Operation.READ, request.group_id)
    wanted: list[NewOffset] = []
    topics: list[Fields] = []
    rows: list[Fields] = []
    """Of the answer, in the order of ``wanted``."""
    async for given in in_turns(request.topics):
        found: Topic | ErrorCode = ErrorCode.group_authorization_failed
        if may_commit:
            found = await find_topic(services, call, Operation.READ, given.name)
        partitions: list[Fields] = []
        async for one in in_turns(given.partitions):
            row: Fields = {"partition_index": one.partition_index}
            partitions.append(row)
            if isinstance(found, ErrorCode):
                row["error_code"] = found
            elif not 0 <= one.partition_index < found.partitions:
                row["error_code"] = ErrorCode.unknown_topic_or_partition
            else:
                partition = TopicIdPartition(found.id, one.partition_index)
                epoch, said = one.committed_leader_epoch, one.committed_metadata or ""
                wanted.append(NewOffset(partition, one.committed_offset, epoch, said))
                rows.append(row)
        topics.append({"name": given.name, "partitions": partitions})
    event = Commit(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_host=call.client_host,
        generation=request.generation_id_or_member_epoch,
        offsets=tuple(wanted),
        knows_missing=call.version >= KNOWS_MISSING_FROM,
    )
    if not wanted:
        return {"topics": topics}

    def fields(answer: CommitAnswer) -> Fields:
        for row, code in zip(rows, answer.codes, strict=True):
            row["error_code"] = ErrorCode(code)
        return {"topics": topics}

    return then(services.coordinator.commit(request.group_id, event), fields)


async def find_topic(
    services: Services, call: Call, operation: Operation, name: str
) -> Topic | ErrorCode:
    """Return the topic of a name, or why there is none with which the client may do this."""
    if not call.may_topic(operation, name):
        return ErrorCode.topic_authorization_failed
    try:
        topic = await services.catalog.topic(name) if is_topic_name(name) else None
    except LakelogError:
        return ErrorCode.coordinator_not_available  # Nothing is known of it: try again.
    return ErrorCode.unknown_topic_or_partition if topic is None else topic
