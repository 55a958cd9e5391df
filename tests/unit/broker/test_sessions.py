"""Fetch sessions: what is remembered, and for how long."""

from itertools import count

from kio.schema.errors import ErrorCode

from lakelog.broker.sessions import EPOCH_MAX, IDLE_MS, Session, Sessions
from lakelog.security import AclRules
from lakelog.wire import (
    APIS,
    ApiKey,
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchRequest,
    FetchTopic,
)

_numbers = count(1)


def ids() -> bytes:
    return next(_numbers).to_bytes(4, "big") + bytes(12)


def request(
    session: int, epoch: int, *wanted: int, forgotten: tuple[int, ...] = ()
) -> FetchRequest:
    parts = [FetchPartition(index, 0, 100) for index in wanted]
    gone = [("t", b"", list(forgotten))] if forgotten else []
    topics = [FetchTopic("t", b"", parts)]
    return FetchRequest(-1, 0, 1, 100, 0, session, epoch, topics, gone, "")


def begun(sessions: Sessions, now_ms: int, *wanted: int) -> Session:
    session = sessions.find(request(0, 0, *wanted), now_ms, has_ids=False)
    assert isinstance(session, Session)
    return session


def wanted(session: Session) -> list[int]:
    return [one.partition.partition for one in session.wanted.values()]


def test_what_is_said_adds_up_and_what_is_forgotten_goes() -> None:
    sessions = Sessions(10, 100, ids)
    session = begun(sessions, 0, 1, 2)
    assert sessions.find(request(session.id, 1, 3), 0, has_ids=False) is session
    assert wanted(session) == [1, 2, 3]
    assert sessions.find(request(session.id, 2, forgotten=(1, 9)), 0, has_ids=False) is session
    assert wanted(session) == [2, 3]


def test_a_session_does_not_want_more_than_a_request_may_name() -> None:
    sessions = Sessions(10, 1 << 20, ids)
    most = APIS[ApiKey.FETCH].elements_max
    session = begun(sessions, 0, *range(most - 1))
    assert sessions.find(request(session.id, 1, 0, most - 1), 0, has_ids=False) is session
    gone = ErrorCode.fetch_session_id_not_found
    assert sessions.find(request(session.id, 2, most), 0, has_ids=False) is gone
    assert len(sessions) == 0


def test_all_sessions_together_want_no_more_partitions_than_they_may() -> None:
    sessions = Sessions(10, 100, ids)
    first, second = begun(sessions, 0, *range(60)), begun(sessions, 0, *range(30))
    assert sessions.find(request(0, 0, *range(20)), 1, has_ids=False) is None
    assert sessions.find(request(first.id, 1, forgotten=(0, 1)), 1, has_ids=False) is first
    assert sessions.partitions == 88
    gone = ErrorCode.fetch_session_id_not_found
    assert sessions.find(request(first.id, 2, *range(60, 73)), 1, has_ids=False) is gone
    assert sessions.partitions == 30
    third = begun(sessions, IDLE_MS, *range(90))
    assert (len(sessions), sessions.partitions) == (1, 90), "the second was idle"
    assert sessions.find(request(second.id, 1), IDLE_MS, has_ids=False) is gone
    assert sessions.find(request(third.id, -1), IDLE_MS, has_ids=False) is None
    assert sessions.partitions == 0
    assert sessions.find(request(0, 0, *range(101)), IDLE_MS, has_ids=False) is None


def test_epochs_rise_by_one_and_begin_again_at_1() -> None:
    sessions = Sessions(10, 100, ids)
    session = begun(sessions, 0, 1)
    wrong = ErrorCode.invalid_fetch_session_epoch
    assert sessions.find(request(session.id, 2), 0, has_ids=False) is wrong
    assert sessions.find(request(session.id, 1), 0, has_ids=False) is session
    assert sessions.find(request(session.id, 1), 0, has_ids=False) is wrong
    session.epoch = EPOCH_MAX
    assert sessions.find(request(session.id, EPOCH_MAX), 0, has_ids=False) is session
    assert sessions.find(request(session.id, 1), 0, has_ids=False) is session


def test_a_session_ends_by_epoch_minus_1_and_is_replaced_by_epoch_0() -> None:
    sessions = Sessions(10, 100, ids)
    session = begun(sessions, 0, 1)
    assert sessions.find(request(session.id, -1, 1), 0, has_ids=False) is None
    assert len(sessions) == 0
    gone = ErrorCode.fetch_session_id_not_found
    assert sessions.find(request(session.id, 1), 0, has_ids=False) is gone
    old = begun(sessions, 0, 1)
    new = sessions.find(request(old.id, 0, 1), 0, has_ids=False)
    assert isinstance(new, Session)
    assert new.id != old.id
    assert len(sessions) == 1


def test_when_there_are_too_many_only_an_idle_one_makes_room() -> None:
    sessions = Sessions(2, 100, ids)
    first, second = begun(sessions, 0, 1), begun(sessions, 10, 1)
    assert sessions.find(request(0, 0, 1), IDLE_MS - 1, has_ids=False) is None, "both are in use"
    assert sessions.find(request(first.id, 1), IDLE_MS, has_ids=False) is first
    third = begun(sessions, IDLE_MS + 10, 1)
    assert len(sessions) == 2
    gone = ErrorCode.fetch_session_id_not_found
    assert sessions.find(request(second.id, 1), IDLE_MS + 10, has_ids=False) is gone
    assert sessions.find(request(third.id, 1), IDLE_MS + 10, has_ids=False) is third


def test_only_news_are_told() -> None:
    session = begun(Sessions(10, 100, ids), 0, 0, 1, 2)

    def told(*parts: FetchedPartition, full: bool = False) -> list[int]:
        news = session.news([FetchedTopic("t", b"", list(parts))], full=full)
        return [part.partition for topic in news for part in topic.partitions]

    empty = [FetchedPartition(index, 0, 5, 0) for index in range(3)]
    assert told(*empty, full=True) == [0, 1, 2]
    assert told(*empty) == []
    assert told(empty[0], FetchedPartition(1, 0, 6, 0), FetchedPartition(2, 0, 5, 1)) == [1, 2]
    assert told(FetchedPartition(0, 3, 5, 0)) == [0]
    assert told(FetchedPartition(1, 0, 6, 0, [b"xy"], 2)) == [1]
    assert wanted(session) == [0, 2, 1], "who had something is the last to be asked"


def test_a_session_is_named_as_it_was_begun() -> None:
    """One that was begun with names has no ids to answer with, and the other way round."""
    sessions = Sessions(10, 100, ids)
    for has_ids in (True, False):
        session = sessions.find(request(0, 0, 1), 0, has_ids=has_ids)
        assert isinstance(session, Session)
        wrong = ErrorCode.fetch_session_topic_id_error
        assert sessions.find(request(session.id, 1), 0, has_ids=not has_ids) is wrong
        assert sessions.find(request(session.id, 1), 0, has_ids=has_ids) is session


def test_verdicts_are_of_the_acls_that_they_were_made_by_and_not_without_end() -> None:
    session = begun(Sessions(10, 100, ids), 0, 1)
    rules, others = AclRules(), AclRules()
    session.verdicts(rules)["a"] = True
    assert session.verdicts(rules) == {"a": True}
    assert session.verdicts(others) == {}
    most = APIS[ApiKey.FETCH].elements_max
    session.verdicts(others).update({str(number): True for number in range(most + 1)})
    assert session.verdicts(others) == {}
