"""The judge of clusters finds every error that is planted, and none where there is none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.checker import LIVENESS, RULES, SEEN_S, Findings, check
from tests.cluster.history import Diary, History

Lines = list[list[Any]]
Log = dict[int, list[tuple[int, str]]]

HEALED = 20.0


def story() -> tuple[Lines, Log]:
    """Two producers, two partitions, one group of two members: all of it is right."""
    lines: Lines = []
    log: Log = {0: [], 1: []}
    for number in range(10):
        for producer in ("a", "b"):
            partition = number % 2
            offset = len(log[partition])
            value = f"{producer}:{number}"
            log[partition].append((offset, value))
            lines += [
                ["sent", number, producer, number, partition],
                ["acked", number + 0.5, producer, number, partition, offset],
                ["read", number + 0.7, f"g/{partition}", partition, offset, value],
            ]
        if number % 4 == 3:
            offsets = {str(partition): len(rows) for partition, rows in log.items()}
            lines += [
                ["committed", number + 0.8, number + 0.9, "g", offsets],
                ["fetched", number + 0.91, number + 0.95, "g", offsets],
            ]
    # At least once: a member that takes over reads again what was not committed.
    lines.append(["read", 12.0, "g/1", 0, 9, "b:8"])
    return lines, log


def judged(lines: Lines, log: Log) -> Findings:
    history = History()
    for line in lines:
        history.take(json.loads(json.dumps(line)))
    return check(history, log, groups=["g"], healed=HEALED)


def change(lines: Lines, *start: Any, to: list[Any] | None) -> None:
    """Put another line, or none, in the place of the one that begins so."""
    (at,) = [i for i, line in enumerate(lines) if line[: len(start)] == list(start)]
    lines[at : at + 1] = [] if to is None else [to]


def test_a_history_in_which_all_is_well_has_no_findings() -> None:
    found = judged(*story())
    assert not found, found.shown()
    assert set(found.counts().values()) == {0}


def test_a_record_whose_offset_nobody_was_told_is_where_it_is() -> None:
    lines, log = story()
    change(lines, "acked", 4.5, "a", to=["acked", 4.5, "a", 4, 0, None])
    assert not judged(lines, log)


def test_spark_need_not_show_what_came_while_it_read() -> None:
    lines, log = story()
    scan(lines, log)
    assert not judged(lines, log)


def lose(lines: Lines, log: Log) -> None:
    """The last record of a partition, which nobody has read."""
    log[1].pop()
    lines[:] = [line for line in lines if line[0] != "read" or line[-1] != "b:9"]


def lose_and_overwrite(lines: Lines, log: Log) -> None:
    log[1][-1] = (9, "c:0")
    lines.append(["sent", 1, "c", 0, 1])
    lines.append(["refused", 2, "c", 0, "TIMED_OUT"])
    lines[:] = [line for line in lines if line[0] != "read" or line[-1] != "b:9"]


def store_twice(lines: Lines, log: Log) -> None:
    log[0].append((10, "a:0"))


def acknowledge_twice(lines: Lines, log: Log) -> None:
    lines.append(["acked", 9.0, "a", 0, 0, 0])


def tell_another_place(lines: Lines, log: Log) -> None:
    change(lines, "acked", 4.5, "a", to=["acked", 4.5, "a", 4, 0, 5])


def tell_another_partition(lines: Lines, log: Log) -> None:
    """And no offset, which alone is nothing wrong."""
    change(lines, "acked", 4.5, "a", to=["acked", 4.5, "a", 4, 1, None])


def show_another_record(lines: Lines, log: Log) -> None:
    lines.append(["read", 5.0, "/somebody", 0, 4, "b:2"])


def show_what_is_not_there(lines: Lines, log: Log) -> None:
    lines.append(["read", 5.0, "/somebody", 0, 77, "b:2"])


def exchange(lines: Lines, log: Log) -> None:
    """Two records of one producer, and everybody is told so."""
    log[0][0], log[0][2] = (0, "a:2"), (2, "a:0")
    change(lines, "acked", 0.5, "a", to=["acked", 0.5, "a", 0, 0, 2])
    change(lines, "acked", 2.5, "a", to=["acked", 2.5, "a", 2, 0, 0])
    change(lines, "read", 0.7, "g/0", 0, 0, to=["read", 0.7, "g/0", 0, 2, "a:0"])
    change(lines, "read", 2.7, "g/0", 0, 2, to=["read", 2.7, "g/0", 0, 0, "a:2"])


def skip_an_offset(lines: Lines, log: Log) -> None:
    log[0].append((11, "c:0"))
    lines.append(["sent", 1, "c", 0, 0])
    lines.append(["refused", 2, "c", 0, "TIMED_OUT"])


def begin_late(lines: Lines, log: Log) -> None:
    """As if what was there had been retained away."""
    del log[0][0]
    lines[:] = [line for line in lines if line[-1] != "a:0" and line[2:4] != ["a", 0]]


def invent(lines: Lines, log: Log) -> None:
    log[0].append((10, "z:1"))


def forget_a_commit(lines: Lines, log: Log) -> None:
    lines.append(["fetched", 8.0, 8.1, "g", {"0": 4}])


def forget_all_commits(lines: Lines, log: Log) -> None:
    lines.append(["fetched", 8.0, 8.1, "g", {"1": -1}])


def tell_less_than_before(lines: Lines, log: Log) -> None:
    """Nobody was told that the commit is stored, but somebody was told the offset."""
    lines.append(["fetched", 10.0, 10.1, "g", {"0": 9}])
    lines.append(["fetched", 10.2, 10.3, "g", {"0": 8}])


def commit_less(lines: Lines, log: Log) -> None:
    """A member that was sent back to an older offset commits from there."""
    lines.append(["committed", 9.0, 9.1, "g", {"0": 5}])


def skip_a_record(lines: Lines, log: Log) -> None:
    lines[:] = [line for line in lines if line[0] != "read" or line[-1] != "a:7"]


def read_too_late(lines: Lines, log: Log) -> None:
    late = HEALED + SEEN_S + 0.1
    change(lines, "read", 7.7, "g/1", 1, 6, to=["read", late, "g/1", 1, 6, "a:7"])


def never_answer(lines: Lines, log: Log) -> None:
    lines.append(["sent", 9.9, "a", 10, 0])


def fail_and_store(lines: Lines, log: Log) -> None:
    """The producer was told that the record is too large, and yet it is there."""
    log[0].append((10, "c:0"))
    lines.append(["sent", 1, "c", 0, 0])
    lines.append(["refused", 2, "c", 0, "MSG_SIZE_TOO_LARGE"])


def read_what_is_gone(lines: Lines, log: Log) -> None:
    """Nobody was told that it is stored, but somebody has read it."""
    lines.append(["sent", 1, "c", 0, 0])
    lines.append(["refused", 2, "c", 0, "TIMED_OUT"])
    lines.append(["read", 5.0, "/somebody", 0, 10, "c:0"])


def polled(*offsets: int, at: float = 13.0, log: Log) -> list[Any]:
    """A poll of partition 0 by somebody who is in no group."""
    rows = [[offset, log[0][offset][1]] for offset in offsets]
    return ["polled", at - 0.1, at, "/somebody", {"0": rows}]


def skip_in_a_poll(lines: Lines, log: Log) -> None:
    lines.append(polled(2, 3, 5, log=log))


def skip_between_polls(lines: Lines, log: Log) -> None:
    lines += [polled(2, 3, log=log), polled(5, 6, at=14.0, log=log)]


def return_in_a_poll(lines: Lines, log: Log) -> None:
    lines.append(polled(2, 3, 3, log=log))


def return_between_polls(lines: Lines, log: Log) -> None:
    lines += [polled(2, 3, log=log), polled(0, 1, at=14.0, log=log)]


def scan(lines: Lines, log: Log, **changed: list[tuple[int, str]]) -> None:
    """Spark reads everything in the middle, and in the end, when something may be otherwise."""
    half = {key: [row for row in rows if row[0] < 4] for key, rows in log.items()}
    lines.append(["scanned", 4.0, 4.6, "/spark", half])
    lines.append(
        ["scanned", 30.0, 31.0, "/spark", log | {int(k[1:]): v for k, v in changed.items()}]
    )


def leave_out_of_spark(lines: Lines, log: Log) -> None:
    scan(lines, log, p1=log[1][:-1])


def begin_later_in_spark(lines: Lines, log: Log) -> None:
    scan(lines, log, p0=log[0][1:])


def show_otherwise_in_spark(lines: Lines, log: Log) -> None:
    scan(lines, log, p0=[*log[0][:-1], (9, "a:8")])


def show_twice_in_spark(lines: Lines, log: Log) -> None:
    scan(lines, log, p0=[*log[0], log[0][-1]])


def show_more_in_spark(lines: Lines, log: Log) -> None:
    scan(lines, log, p0=[*log[0], (10, "a:8")])


def be_damaged(lines: Lines, log: Log) -> None:
    lines.append(["error", 20.0, "/store", "damaged: an object"])


def leave_an_orphan(lines: Lines, log: Log) -> None:
    lines.append(["error", 20.0, "/store", "orphan: an object"])


def be_unreadable(lines: Lines, log: Log) -> None:
    lines.append(["error", 20.0, "/store", "unreadable: t/0: an object is missing"])


def exchange_under_way(lines: Lines, log: Log) -> None:
    """The second was sent before the first was acknowledged."""
    log[0] += [(10, "c:1"), (11, "c:0")]
    lines += [["sent", 1, "c", 0, 0], ["sent", 1, "c", 1, 0]]
    lines += [["acked", 11, "c", 0, 0, 11], ["acked", 11, "c", 1, 0, 10]]
    lines += [["read", 12, "g/2", 0, *row] for row in log[0][10:]]


def store_before(lines: Lines, log: Log) -> None:
    """Of two producers, so that neither can tell by itself."""
    log[0] += [(10, "d:0"), (11, "c:0")]
    lines += [["sent", 1, "c", 0, 0], ["acked", 2, "c", 0, 0, 11]]
    lines += [["sent", 3, "d", 0, 0], ["acked", 4, "d", 0, 0, 10]]
    lines += [["read", 5, "g/2", 0, 10, "d:0"], ["read", 5, "g/2", 0, 11, "c:0"]]


def end_before_what_was_told(lines: Lines, log: Log) -> None:
    lines.append(["ends", 14.0, 14.1, "/somebody", {"0": 12}])
    lines.append(["ends", 14.2, 14.3, "/somebody", {"0": 11}])


def end_before_what_was_stored(lines: Lines, log: Log) -> None:
    lines.append(["ends", 14.0, 14.1, "/somebody", {"0": 9}])


def begin_before_what_was_told(lines: Lines, log: Log) -> None:
    lines.append(["starts", 3.0, 3.1, "/somebody", {"0": 2}])
    lines.append(["starts", 3.2, 3.3, "/somebody", {"0": 1}])
    del log[0][:2]


PLANTED: dict[Callable[[Lines, Log], None], set[str]] = {
    lose: {"lost-write", "unseen"},
    lose_and_overwrite: {"lost-write", "inconsistent-offsets", "unseen"},
    read_what_is_gone: {"lost-write"},
    store_twice: {"duplicate"},
    acknowledge_twice: {"duplicate"},
    tell_another_place: {"inconsistent-offsets"},
    tell_another_partition: {"inconsistent-offsets"},
    show_another_record: {"inconsistent-offsets", "duplicate"},
    show_what_is_not_there: {"lost-write", "duplicate"},
    fail_and_store: {"aborted-read"},
    skip_in_a_poll: {"int-poll-skip"},
    skip_between_polls: {"ext-poll-skip"},
    return_in_a_poll: {"int-nonmonotonic-poll"},
    return_between_polls: {"ext-nonmonotonic-poll"},
    exchange: {
        "int-nonmonotonic-send",
        "ext-nonmonotonic-send",
        "ext-nonmonotonic-poll",
        "ext-poll-skip",
    },
    exchange_under_way: {"int-nonmonotonic-send"},
    store_before: {"ext-nonmonotonic-send"},
    skip_an_offset: {"gap"},
    begin_late: {"gap"},
    end_before_what_was_told: {"end-regress"},
    end_before_what_was_stored: {"end-regress"},
    begin_before_what_was_told: {"start-regress"},
    invent: {"foreign"},
    be_unreadable: {"unreadable"},
    be_damaged: {"damaged"},
    leave_an_orphan: {"orphan"},
    leave_out_of_spark: {"spark-divergence"},
    begin_later_in_spark: {"spark-divergence"},
    show_otherwise_in_spark: {"spark-divergence"},
    show_twice_in_spark: {"spark-divergence"},
    show_more_in_spark: {"spark-divergence"},
    forget_a_commit: {"commit-regress"},
    forget_all_commits: {"commit-regress"},
    tell_less_than_before: {"commit-regress"},
    commit_less: {"commit-regress"},
    skip_a_record: {"ext-poll-skip", "unseen"},
    read_too_late: {"unseen"},
    never_answer: {"unanswered"},
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_error_is_found_and_called_by_its_name(
    plant: Callable[[Lines, Log], None],
) -> None:
    lines, log = story()
    plant(lines, log)
    found = judged(lines, log)
    assert {name for name, count in found.counts().items() if count} == PLANTED[plant]
    assert found.shown().keys() == PLANTED[plant]


def test_every_rule_has_a_planted_error() -> None:
    assert set().union(*PLANTED.values()) == RULES.keys()
    assert RULES.keys() >= set(LIVENESS)


def test_every_rule_is_broken_by_itself() -> None:
    """By an error that breaks nothing else, or a rule could stand for another."""
    alone = {name for names in PLANTED.values() if len(names) == 1 for name in names}
    assert RULES.keys() == alone


def test_what_overlaps_may_be_told_either_way() -> None:
    for told in (8, 10):
        lines, log = story()
        lines.append(["committed", 10.0, 10.5, "g", {"0": 10}])
        lines.append(["fetched", 10.2, 10.6, "g", {"0": told}])
        assert not judged(lines, log)


def test_a_producer_that_is_not_idempotent_may_repeat_itself_and_change_the_order() -> None:
    lines, log = story()
    log[0] += [(10, "c:1"), (11, "c:0"), (12, "c:1")]
    lines += [["sent", 1, "c", 0, 0], ["sent", 1, "c", 1, 0]]
    lines += [["acked", 11, "c", 0, 0, 11], ["acked", 11, "c", 1, 0, 12]]
    lines += [["read", 12, "g/2", 0, *row] for row in log[0][10:]]
    history = History()
    for line in lines:
        history.take(line)
    assert not check(history, log, groups=["g"], healed=HEALED, repeating=["c"])
    found = check(history, log, groups=["g"], healed=HEALED)
    assert {name for name, count in found.counts().items() if count} == {"duplicate"}


def test_what_was_retained_away_is_neither_lost_nor_left_out() -> None:
    lines, log = story()
    del log[0][:6]
    lines[:] = [line for line in lines if line[0] != "read" or line[3] != 0 or line[4] > 5]
    lines += [["polled", 4.0, 4.1, "/somebody", {"0": [[1, "b:0"]]}]]
    lines += [["polled", 4.2, 4.3, "/somebody", {"0": [[6, "a:6"]]}]]
    assert {"lost-write", "ext-poll-skip", "unseen", "gap"} == judged(lines, log).shown().keys()
    lines.append(["starts", 4.3, 4.4, "/somebody", {"0": 6}])
    assert not judged(lines, log)


def test_one_who_was_given_a_partition_again_may_go_back() -> None:
    lines, log = story()
    lines += [polled(2, 3, log=log), ["assigned", 13.5, "/somebody", [0]]]
    lines.append(polled(0, 1, at=14.0, log=log))
    assert not judged(lines, log)


def test_partitions_that_are_not_in_the_store_any_more_are_judged_by_what_was_read() -> None:
    """A topic that was deleted: behind what was read nothing is known."""
    lines, log = story()
    lines += [["sent", 1, "c", number, 7] for number in range(3)]
    lines += [["acked", 2 + number, "c", number, 7, number] for number in range(3)]
    lines.append(["polled", 4, 5, "g/0", {"7": [[0, "c:0"], [1, "c:1"]]}])
    assert not judged(lines, log)
    lines[-1] = ["polled", 4, 5, "g/0", {"7": [[0, "c:0"]]}]
    assert not judged(lines, log)
    lines[-1] = ["polled", 4, 5, "g/0", {"7": [[0, "c:0"], [2, "c:2"]]}]
    assert judged(lines, log).shown().keys() == {"lost-write", "int-poll-skip"}


def test_what_was_refused_may_be_stored_or_not() -> None:
    for is_stored in (True, False):
        lines, log = story()
        lines += [["sent", 5.0, "c", 0, 0], ["refused", 6.0, "c", 0, "TIMED_OUT"]]
        if is_stored:
            log[0].append((10, "c:0"))
        assert not judged(lines, log)


def test_a_record_that_was_acknowledged_late_may_be_read_later() -> None:
    lines, log = story()
    late = HEALED + SEEN_S
    log[0].append((10, "a:10"))
    lines += [["sent", 5.0, "a", 10, 0], ["acked", late, "a", 10, 0, 10]]
    lines.append(["read", late + 1, "g/0", 0, 10, "a:10"])
    assert not judged(lines, log)


def test_a_diary_is_read_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "diary"
    writer, reader, history = Diary(path), Diary(path), History()
    reader.read_into(history)
    writer.write("sent", 1.0, "a", 0, 0)
    with path.open("a") as file:
        file.write('["acked", 2.0, "a", ')  # A line of which only the beginning is there yet.
    reader.read_into(history)
    assert list(history.sent) == ["a:0"]
    with path.open("a") as file:
        file.write("0, 0, 0]\n")
    reader.read_into(history)
    assert list(history.acked) == ["a:0"]
