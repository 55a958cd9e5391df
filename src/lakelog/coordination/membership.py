"""Membership: who the brokers of a namespace are, and how one of them says what it does.

    take      a node id: the one that was asked for at once, whoever has it; else the one that the
              same addresses had before; else the lowest free one
    announce  store what this member is, on every change
    beat      say that it lives, every interval
    look      list what the others have said: a new view

A node id belongs to the run whose beat stands under it. A run that finds another one's there has
been replaced: ``FencedError``, and it stops. None of it is needed for safety, see ``liveness``.

In the bucket each member has two cells, so that one LIST shows by their etags who has beaten and
who has changed, and only a member that has changed is read:

    _lakelog/brokers/{node}/beat     changed every interval
    _lakelog/brokers/{node}/member   changed when there is something to say

Nothing is ever deleted. A node id is free again when its member has left, or has not beaten for an
hour by the store's clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from lakelog.coordination.liveness import Liveness
from lakelog.coordination.members import (
    MEMBER_BYTES_MAX,
    NODE_ID_MAX,
    Beat,
    Member,
    State,
    decode_beat,
    decode_member,
    encode_beat,
    encode_member,
)
from lakelog.errors import (
    ConflictError,
    FencedError,
    InvalidInputError,
    LakelogError,
    NotFoundError,
    UnavailableError,
)
from lakelog.names import BROKERS_PREFIX, beat_key, member_key, node_of
from lakelog.store import (
    AT_ONCE,
    Created,
    Fetched,
    Get,
    ObjectInfo,
    Replaced,
    Work,
    ask_all,
    change_cell,
    head,
    list_objects,
    put_if_absent,
    put_if_match,
    read_cell,
)

__all__ = ["BucketMembership", "Membership", "View", "read_members"]

NODE_ID_FIRST = 1
FREE_AFTER_MS = 3_600_000
_NOWHERE: Mapping[str, str] = {}
ATTEMPTS_MAX = 20
"""Of one announcement, each lost to another write of the same node id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The members of a cluster, as one of them sees it."""

    number: int = 0
    """Rises with every change that this broker saw."""
    begun_ms: int = 0
    """When the list was begun that this is made of, by this broker's ``boot_ms``."""
    living: Mapping[int, Member] = field(default_factory=dict)
    dead: Mapping[int, Member] = field(default_factory=dict)
    unreadable: Mapping[int, LakelogError] = field(default_factory=dict)
    """Members that tell of themselves what this version cannot read."""

    @property
    def serving(self) -> tuple[int, ...]:
        """The node ids to which lanes and groups are given."""
        return tuple(sorted(node for node, one in self.living.items() if one.serves))

    def run_of(self, run: bytes) -> Member | None:
        """Return the member, living or dead, that a run is of."""
        known = (*self.living.values(), *self.dead.values())
        return next((one for one in known if one.run == run), None)


class Membership(Protocol):
    """How one run of a broker takes part."""

    def take(
        self, node: int | None, now_ms: int, listeners: Mapping[str, str] = _NOWHERE
    ) -> Work[Member]:
        """Take a node id, and return the member that it was until now, or a new one.

        Two processes cannot have the same addresses: whoever had them before has gone.

        Raises:
            UnavailableError: no answer; take it again.
            ConflictError: others took every id that was free; try again.
        """
        ...

    def announce(self, member: Member) -> Work[Member]:
        """Store what this member is, and return it as it is stored: with the epochs that a former
        run has announced since they were read, among the past ones.

        Raises:
            FencedError: another run has the node id; stop.
            UnavailableError: no answer; it may be stored. Announce again.
        """
        ...

    def beat(self) -> Work[None]:
        """Say that this run lives.

        Raises:
            FencedError: another run has the node id; stop.
            UnavailableError: no answer; beat again.
        """
        ...

    def look(self, begun_ms: int) -> Work[View]:
        """Return the view that a list begun now shows.

        Raises:
            UnavailableError: no answer; the last view is still the best.
        """
        ...


class BucketMembership:
    """Members in the bucket."""

    def __init__(self, run: bytes, interval_ms: int) -> None:
        self._run = run
        self._node = -1
        self._beats = 0
        self._beat_etag = ""
        self._member_etag = ""
        self._announced: Member | None = None
        self._liveness = Liveness(interval_ms)
        self._known: dict[int, tuple[str, Member]] = {}
        """Members, and the version of the object that each was read from."""
        self._view = View()

    # ------------------------------------------------------------------------ myself

    def take(
        self, node: int | None, now_ms: int, listeners: Mapping[str, str] = _NOWHERE
    ) -> Work[Member]:
        """Take a node id.

        Raises:
            ConflictError: others took every id that was free; try again.
        """
        if node is not None and not 0 <= node <= NODE_ID_MAX:
            raise InvalidInputError(f"node id {node}: use one from 0 to {NODE_ID_MAX}")
        if node is None and listeners:
            node = yield from self._of_addresses(listeners)
        if node is None:
            self._node = yield from self._take_lowest(now_ms)
        else:
            self._node = node
            yield from change_cell(beat_key(node), lambda _: self._beat(), self._is_my_beat)
        return (yield from self._former())

    def _of_addresses(self, listeners: Mapping[str, str]) -> Work[int | None]:
        """Return the node id of a member that had the same addresses."""
        found = yield from self._listed()
        members = {node: pair["member"] for node, pair in found.items() if "member" in pair}
        yield from self._read(members)
        same = [node for node, (_, one) in self._known.items() if one.listeners == listeners]
        return min(same, default=None)

    def _take_lowest(self, now_ms: int) -> Work[int]:
        for _ in range(ATTEMPTS_MAX):
            found = yield from self._listed()
            node = NODE_ID_FIRST
            while not (yield from self._is_free(node, found.get(node, {}), now_ms)):
                node += 1
            before = yield from read_cell(beat_key(node))
            if (yield from self._won(node, before)):
                return node
        raise ConflictError("others took every node id that was free: start this broker again")

    def _is_free(self, node: int, objects: Mapping[str, ObjectInfo], now_ms: int) -> Work[bool]:
        beat = objects.get("beat")
        if beat is not None and beat.modified_ms < 0:
            beat = yield from _found(beat_key(node))  # A list of etcd does not tell when.
        if beat is None or now_ms - beat.modified_ms > FREE_AFTER_MS:
            return True
        member = yield from read_cell(member_key(node))
        return member is not None and decode_member(member.body, node).state is State.LEFT

    def _won(self, node: int, before: Fetched | None) -> Work[bool]:
        """Put a first beat in place of what was there, and see whether it is there."""
        if before is None:
            yield from put_if_absent(beat_key(node), self._beat(node))
        else:
            yield from put_if_match(beat_key(node), self._beat(node), before.info.etag)
        now = yield from read_cell(beat_key(node))
        return now is not None and decode_beat(now.body, node).run == self._run

    def _former(self) -> Work[Member]:
        """Return what this node id was until now, as a member that starts.

        Its epochs become past ones: whatever a former run announced is never told lower again.
        """
        beat = yield from read_cell(beat_key(self._node))
        self._beat_etag = "" if beat is None else beat.info.etag
        found = yield from read_cell(member_key(self._node))
        if found is None:
            return Member(node=self._node, run=self._run)
        self._member_etag = found.info.etag
        former = decode_member(found.body, self._node)
        return _after(former, Member(node=self._node, run=self._run))

    def announce(self, member: Member) -> Work[Member]:
        """Store what this member is, and return it as it is stored.

        Raises:
            FencedError: another run has the node id; stop.
        """
        body = _encoded(member)
        key = member_key(self._node)
        for _ in range(ATTEMPTS_MAX):
            etag = yield from _put(key, body, self._member_etag)
            if etag is None:
                found = yield from read_cell(key)
                if found is not None and found.body == body:
                    etag = found.info.etag
                else:
                    # Whose the node id is, the beat tells.
                    yield from self._check_beat()
                    self._member_etag = "" if found is None else found.info.etag
                    if found is not None:
                        # A former run's, that was on its way when this one took the node id.
                        former = decode_member(found.body, self._node)
                        if former.run != self._run:
                            member = _after(former, member)
                            body = _encoded(member)
            if etag is not None:
                self._member_etag, self._announced = etag, member
                return member
        raise ConflictError(
            f"{key}: {ATTEMPTS_MAX} others changed it first: give it a node id of its own"
        )

    def beat(self) -> Work[None]:
        """Say that this run lives.

        Raises:
            FencedError: another run has the node id; stop.
        """
        self._beats += 1
        etag = yield from _put(beat_key(self._node), self._beat(), self._beat_etag)
        if etag is None:
            yield from self._check_beat()
        else:
            self._beat_etag = etag

    def _check_beat(self) -> Work[None]:
        """See that the beat of this node id is mine; one that is gone is made anew."""
        key = beat_key(self._node)
        found = yield from read_cell(key)
        if found is None:
            self._beat_etag = ""
        elif self._is_my_beat(found.body):
            self._beat_etag = found.info.etag
        else:
            raise FencedError(
                f"another broker was started with node id {self._node}: this one stops. Give each "
                "broker its own --node-id, and an address of its own (--advertise)"
            )

    def _beat(self, node: int | None = None) -> bytes:
        return encode_beat(self._node if node is None else node, Beat(self._run, self._beats))

    def _is_my_beat(self, body: bytes) -> bool:
        return decode_beat(body, self._node).run == self._run

    # ------------------------------------------------------------------------ the others

    def look(self, begun_ms: int) -> Work[View]:
        """Return the view that a list begun now shows."""
        found = yield from self._listed()
        members = {node: pair["member"] for node, pair in found.items() if "member" in pair}
        unreadable = yield from self._read(members)
        beats = {node: _version(found[node].get("beat")) for node in members}
        dead = self._liveness.listed(begun_ms, beats) - {self._node}
        for gone in dead - members.keys():
            self._known.pop(gone, None)
        known = {
            node: member for node, (_, member) in self._known.items() if node not in unreadable
        }
        if self._announced is not None:
            known[self._node] = self._announced
        known = {node: one for node, one in known.items() if one.state is not State.LEFT}
        view = View(
            number=self._view.number,
            begun_ms=begun_ms,
            living={node: one for node, one in known.items() if node not in dead},
            dead={node: one for node, one in known.items() if node in dead},
            unreadable=unreadable,
        )
        if (view.living, view.dead) != (self._view.living, self._view.dead):
            view = replace(view, number=view.number + 1)
        self._view = view
        return view

    def _listed(self) -> Work[dict[int, dict[str, ObjectInfo]]]:
        """Return the two objects of each node id."""
        found: dict[int, dict[str, ObjectInfo]] = {}
        for info in (yield from list_objects(BROKERS_PREFIX)):
            of = node_of(info.key)
            if of is not None:
                found.setdefault(of[0], {})[of[1]] = info
        return found

    def _read(self, members: Mapping[int, ObjectInfo]) -> Work[dict[int, LakelogError]]:
        """Read the members that have changed, and return those that cannot be read."""
        changed = [
            node
            for node, info in members.items()
            if node != self._node
            # A store whose lists have no etags does not tell: read it.
            and (not info.etag or self._known.get(node, ("",))[0] != info.etag)
        ]
        found, unreadable = yield from read_members(changed)
        self._known |= found
        return unreadable


def read_members(
    nodes: Sequence[int],
) -> Work[tuple[dict[int, tuple[str, Member]], dict[int, LakelogError]]]:
    """Return what members tell of themselves, with its etag; and why some cannot be read: they are
    too large, damaged, or of a later version. What one of them says hides nobody else.

    Raises:
        UnavailableError: no answer; try again.
    """
    found: dict[int, tuple[str, Member]] = {}
    unreadable: dict[int, LakelogError] = {}
    for at in range(0, len(nodes), AT_ONCE):
        some = nodes[at : at + AT_ONCE]
        answers = yield from ask_all([Get(member_key(one), MEMBER_BYTES_MAX) for one in some])
        for node, answer in zip(some, answers, strict=True):
            if isinstance(answer, UnavailableError):
                raise answer
            if isinstance(answer, NotFoundError):
                continue
            try:
                if isinstance(answer, LakelogError):
                    raise answer
                found[node] = answer.info.etag, decode_member(answer.body, node)
            except LakelogError as error:
                unreadable[node] = error
    return found, unreadable


def _after(former: Member, member: Member) -> Member:
    """Return a member with the epochs of a former run among its past ones."""
    lanes = former.epochs.keys() | former.past.keys()
    past = {lane: max(former.highest(lane), member.past.get(lane, -1)) for lane in lanes}
    return replace(member, past={**member.past, **past})


def _encoded(member: Member) -> bytes:
    body = encode_member(member)
    if len(body) > MEMBER_BYTES_MAX:
        what = f"the member of node {member.node} has {len(body)} bytes"
        raise InvalidInputError(
            f"{what}: at most {MEMBER_BYTES_MAX} are read; name fewer listeners"
        )
    return body


def _put(key: str, body: bytes, etag: str) -> Work[str | None]:
    """Put an object in place of the one with this etag, or of none; None: it is another one."""
    if etag:
        replaced = yield from put_if_match(key, body, etag)
        return replaced.etag if isinstance(replaced, Replaced) else None
    created = yield from put_if_absent(key, body)
    return created.etag if isinstance(created, Created) else None


def _found(key: str) -> Work[ObjectInfo | None]:
    try:
        return (yield from head(key))
    except NotFoundError:
        return None


def _version(info: ObjectInfo | None) -> str:
    """Return what tells one version of an object from the next."""
    return "" if info is None else f"{info.etag}/{info.modified_ms}"
