"""Fetch sessions (KIP-227): a consumer of many partitions says only what changed.

    epoch -1            no session; one that is named ends
    epoch 0             everything is said: begin a session
    epoch 1, 2, 3, ...  the next one of this session: only what changed is said, and answered

Sessions are a convenience: any may be forgotten, and the consumer begins anew. One that has come to
want more than a request may name at once is forgotten, too, and there is no new one while all of
them want as many partitions as they may: so many slots would not say how much memory they take. A
session belongs to the principal that began it: to everybody else it is not there. It remembers
which of its topics may be read.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from lakelog.ports import Ids
from lakelog.security import ANONYMOUS, AclRules, Principal
from lakelog.wire import APIS, ApiKey, FetchedTopic, FetchPartition, FetchRequest, FetchTopic

__all__ = ["Session", "Sessions", "Wanted", "wanted_of"]

EPOCH_MAX = 0x7FFFFFFF
IDLE_MS = 120_000
"""A session in use is not given up for another one."""

_WANTED_MAX = APIS[ApiKey.FETCH].elements_max

_Key = tuple[str, bytes, int]


class Wanted(NamedTuple):
    """One partition of a fetch."""

    name: str
    id: bytes
    partition: FetchPartition


def wanted_of(topics: list[FetchTopic]) -> dict[_Key, Wanted]:
    """Return each partition once, as it was named last: so does Kafka."""
    return {
        (name, id_, one.partition): Wanted(name, id_, one)
        for name, id_, partitions in topics
        for one in partitions
    }


@dataclass(slots=True, eq=False)
class Session:
    """What a consumer wants, and what it was told last."""

    id: int
    used_ms: int
    has_ids: bool
    principal: Principal = ANONYMOUS
    epoch: int = 1
    wanted: dict[_Key, Wanted] = field(default_factory=dict)
    told: dict[_Key, tuple[int, int]] = field(default_factory=dict)

    judged: tuple[object, dict[str, bool]] = (None, {})
    """The mark of some ACLs, and what they say of topics."""

    def verdicts(self, rules: AclRules) -> dict[str, bool]:
        """Return which topics may be read, as far as that has been asked, by these ACLs."""
        if self.judged[0] is not rules.mark or len(self.judged[1]) > _WANTED_MAX:
            self.judged = rules.mark, {}
        return self.judged[1]

    def want(self, topics: list[FetchTopic]) -> None:
        """Take in what is said."""
        self.wanted.update(wanted_of(topics))

    def forget(self, topics: list[tuple[str, bytes, list[int]]]) -> None:
        """Want some no more."""
        for name, id_, indexes in topics:
            for index in indexes:
                self.wanted.pop((name, id_, index), None)
                self.told.pop((name, id_, index), None)

    def news(self, topics: list[FetchedTopic], *, full: bool) -> list[FetchedTopic]:
        """Return what the consumer does not know yet, and remember that it was told.

        Partitions that had something go to the end of the line, so that the others get their turn.
        """
        out: list[FetchedTopic] = []
        for name, id_, partitions in topics:
            new = []
            for part in partitions:
                key = name, id_, part.partition
                marks = part.high_watermark, part.log_start
                is_told = self.told.get(key) == marks and part.preferred_replica < 0
                if full or part.size or part.error or not is_told:
                    new.append(part)
                    self.told[key] = marks
                if part.size and key in self.wanted:
                    self.wanted[key] = self.wanted.pop(key)
            if new:
                out.append(FetchedTopic(name, id_, new))
        return out


class Sessions:
    """The sessions of a broker, up to so many, and up to so many partitions of all of them."""

    def __init__(self, most: int, partitions_most: int, ids: Ids) -> None:
        self._most, self._partitions_most = most, partitions_most
        self._ids = ids
        self._sessions: OrderedDict[int, Session] = OrderedDict()
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """How many all of them want."""
        return self._partitions

    def find(
        self,
        request: FetchRequest,
        now_ms: int,
        *,
        has_ids: bool,
        principal: Principal = ANONYMOUS,
    ) -> Session | ErrorCode | None:
        """Return the session of a request, with what it wants; None: it has none.

        ``has_ids``: it names topics by their ids. A session that was begun otherwise cannot be
        answered so: what it wants has no ids.
        """
        session = self._sessions.get(request.session_id)
        if session is not None and session.principal != principal:
            session = None
        if request.session_epoch <= 0:
            if session is not None:
                self._end(session)
            if request.session_epoch < 0:
                return None
            return self._begin(request, now_ms, has_ids=has_ids, principal=principal)
        if session is None:
            return ErrorCode.fetch_session_id_not_found
        if session.has_ids != has_ids:
            return ErrorCode.fetch_session_topic_id_error
        if session.epoch != request.session_epoch:
            return ErrorCode.invalid_fetch_session_epoch
        session.epoch = session.epoch + 1 if session.epoch < EPOCH_MAX else 1
        session.used_ms = now_ms
        self._sessions.move_to_end(session.id)
        self._partitions -= len(session.wanted)
        session.forget(request.forgotten)
        session.want(request.topics)
        self._partitions += len(session.wanted)
        if len(session.wanted) > _WANTED_MAX or self._partitions > self._partitions_most:
            self._end(session)
            return ErrorCode.fetch_session_id_not_found
        return session

    def _begin(
        self, request: FetchRequest, now_ms: int, *, has_ids: bool, principal: Principal
    ) -> Session | None:
        wanted = wanted_of(request.topics)
        if len(wanted) > self._partitions_most:
            return None
        while (
            len(self._sessions) >= self._most
            or self._partitions + len(wanted) > self._partitions_most
        ):
            oldest = next(iter(self._sessions.values()))
            if now_ms - oldest.used_ms < IDLE_MS:
                return None
            self._end(oldest)
        session_id = 0
        while not session_id or session_id in self._sessions:
            session_id = int.from_bytes(self._ids()[:4], "big") & EPOCH_MAX
        session = Session(session_id, now_ms, has_ids=has_ids, principal=principal, wanted=wanted)
        self._sessions[session_id] = session
        self._partitions += len(wanted)
        return session

    def _end(self, session: Session) -> None:
        del self._sessions[session.id]
        self._partitions -= len(session.wanted)
