"""One step in the making: the group so far, and the effects so far, in order.

A turn is a scratch pad. It lives as long as one call of ``step``, which hands out what the turn has
arrived at: a new group, and effects. A group that is half changed is never seen outside.
"""

from dataclasses import replace
from typing import Any

from lakelog.groups.codes import Code
from lakelog.groups.events import (
    Answer,
    Effect,
    JoinAnswer,
    Now,
    Persist,
    Reply,
    StoredPart,
    SyncAnswer,
)
from lakelog.groups.group import Group, Roster, RosterMember
from lakelog.groups.members import Member
from lakelog.groups.rules import GroupRules

__all__ = ["Turn"]


class Turn:
    """The group and the effects of one step, while it is taken."""

    def __init__(self, group: Group, now: Now, rules: GroupRules) -> None:
        self.group = group
        self.now = now
        self.rules = rules
        self.effects: list[Effect] = []

    def change(self, **fields: Any) -> None:
        self.group = replace(self.group, **fields)

    def persist(self, part: StoredPart) -> None:
        self.effects.append(Persist(part))

    def reply(
        self, ticket: int | None, answer: Answer, waits_for: StoredPart | None = None
    ) -> None:
        """Answer a request, if there is one: of a member that waits, or does not."""
        if ticket is not None:
            self.effects.append(Reply(ticket, answer, waits_for))

    def take(self, stepped: tuple[Group, tuple[Effect, ...]]) -> None:
        """Go on from a group and effects that another function has made."""
        self.group, effects = stepped
        self.effects += effects

    # ------------------------------------------------------------------------ members

    def put(self, member: Member) -> None:
        """Add a member, or change it where it stands."""
        self.change(members={**self.group.members, member.id: member})

    def heard(self, member: Member) -> None:
        """A member has shown that it is alive."""
        self.put(replace(member, deadline_ms=self.now.boot_ms + member.session_timeout_ms))

    def drop(self, member_id: str) -> None:
        """Remove a member, or an id that was only given out. Requests of it are answered."""
        group = self.group
        member = group.members.get(member_id)
        if member is not None:
            self.reply(member.join, JoinAnswer(code=Code.UNKNOWN_MEMBER_ID))
            self.reply(member.sync, SyncAnswer(code=Code.UNKNOWN_MEMBER_ID))
        left = {key: one for key, one in group.members.items() if key != member_id}
        self.change(
            members=left,
            pending={key: one for key, one in group.pending.items() if key != member_id},
            awaited=group.awaited - {member_id},
            leader=next(iter(left), None) if group.leader == member_id else group.leader,
        )

    def check_member(self, member_id: str, instance_id: str | None) -> Code:
        """Say whether there is a member of this id, and of this instance if it is static."""
        if instance_id is not None:
            holder = self.group.holder(instance_id)
            if holder is None:
                return Code.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return Code.FENCED_INSTANCE_ID
        return Code.NONE if member_id in self.group.members else Code.UNKNOWN_MEMBER_ID

    # ------------------------------------------------------------------------ answers

    def joined(self, member_id: str) -> JoinAnswer:
        """Return what a member is told of this generation."""
        group = self.group
        return JoinAnswer(
            member_id=member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=group.leader or "",
            members=group.joined() if group.leader == member_id else (),
        )

    def decided(self, member: Member) -> SyncAnswer:
        """Return what a member is to do."""
        return SyncAnswer(
            protocol_type=self.group.protocol_type,
            protocol=self.group.protocol,
            assignment=member.assignment,
        )

    # ------------------------------------------------------------------------ storing

    def enroll(self, *, is_decided: bool) -> None:
        """Make the group as it is now the generation that is stored."""
        group = self.group
        roster = Roster(
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=group.leader,
            since_ms=self.now.wall_ms,
            is_decided=is_decided,
            members=tuple(
                RosterMember(
                    id=one.id,
                    instance_id=one.instance_id,
                    client_id=one.client_id,
                    client_host=one.client_host,
                    session_timeout_ms=one.session_timeout_ms,
                    rebalance_timeout_ms=one.rebalance_timeout_ms,
                    metadata=one.metadata(group.protocol),
                    assignment=one.assignment,
                )
                for one in group.members.values()
            ),
        )
        self.change(roster=roster)
        self.persist(StoredPart.ROSTER)
