"""Who may connect, and how many that are."""

from typing import Any

import pytest
import structlog

from lakelog.broker import Limits, Metrics
from lakelog.broker.connection_limits import TELL_S, ConnectionLimiter


def opened(open_files: int, **limits: int) -> tuple[ConnectionLimiter, list[dict[str, Any]]]:
    """Return doors at time 0, and what they tell the log."""
    told: list[dict[str, Any]] = []

    def note(_: Any, __: str, event: Any) -> Any:
        told.append(dict(event))
        raise structlog.DropEvent

    log = structlog.wrap_logger(structlog.PrintLogger(), processors=[note])
    return ConnectionLimiter(Limits(**limits), open_files, Metrics(), log, 0.0), told


@pytest.mark.parametrize(
    ("open_files", "most", "of_address", "is_told"),
    [
        (256, 128, 96, True),
        (4_096, 3_584, 2_688, True),
        (20_000, 19_488, 14_616, False),
        (1 << 20, 20_000, 15_000, False),
    ],
)
def test_connections_leave_files_to_the_store(
    open_files: int, most: int, of_address: int, is_told: bool
) -> None:
    doors, told = opened(open_files)
    assert (doors.most, doors.most_of_address) == (most, of_address)
    assert bool(told) is is_told


def test_who_leaves_makes_room() -> None:
    doors, _ = opened(1_000, connections=4, connections_per_address=2)
    refused = [bool(doors.enter(who, 0.0)) for who in "aaabbc"]
    assert refused == [False, False, True, False, False, True]
    doors.leave("a")
    assert not doors.enter("c", 0.0)


def test_a_rate_comes_back_with_time() -> None:
    doors, _ = opened(10_000, connection_rate=10, address_connection_rate=4)
    assert [bool(doors.enter("a", 0.0)) for _ in range(5)] == [False] * 4 + [True]
    assert not doors.enter("a", 0.25)
    assert "in a second" in doors.enter("a", 0.25)
    assert sum(not doors.enter(str(number), 0.25) for number in range(20)) == 7


def test_a_flood_of_refused_connections_is_none_in_the_log() -> None:
    doors, told = opened(1_000, connections=1)
    doors.enter("a", 0.0)
    told.clear()
    for tick in range(100):
        doors.enter("b", tick / 10)
        doors.sweep(tick / 10)
    assert [event["count"] for event in told] == [1]
    doors.sweep(TELL_S)
    assert [event["count"] for event in told] == [1, 99]
    assert told[1]["last"] == "b"
