"""What is wrong with a history, by rules that know nothing of how a log is made.

    lost        acknowledged, and not in the log
    twice       in the log at two places, of producers that are idempotent
    moved       elsewhere than its producer was told; or a reader saw something else there
    disordered  records of a producer in one partition that do not stand as they were sent
    gaps        offsets of the log that nobody wrote
    foreign     in the log, or read, and sent by nobody
    regressed   the coordinator told, or a member committed, less than what had been acknowledged
                before it was asked, or than it had told somebody before
    unseen      acknowledged, and not read by a group in a minute after the faults have ended
    unanswered  sent, and neither acknowledged nor refused by then

The log is what is in the store at the end, by partition. The rules are those of Jepsen's workload
for Kafka (``jepsen.tests.kafka``), as far as there are no transactions.

Commits may not regress at all, whichever member makes them: each member begins where the
coordinator says, and goes forward; one that was replaced is refused, and not acknowledged. So what
was acknowledged before a question was asked is a lower bound of its answer. A question and a commit
that overlap may be answered either way.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from tests.cluster.history import History, Read

__all__ = ["SEEN_S", "Findings", "check"]

SEEN_S = 60.0
"""From the end of faults to the moment when everything that was acknowledged has been read."""

_SHOWN = 5

Log = Mapping[int, Sequence[tuple[int, str]]]
"""By partition, in the order of the log: offset and what the record says."""


@dataclass
class Findings:
    """What is wrong, rule by rule: nothing if all is well."""

    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    disordered: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    regressed: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Return how often each rule was broken."""
        return {name: len(found) for name, found in vars(self).items()}

    def __bool__(self) -> bool:
        return any(vars(self).values())

    def shown(self) -> dict[str, list[str]]:
        """Return the first few findings of each rule that was broken."""
        return {name: found[:_SHOWN] for name, found in vars(self).items() if found}


def check(
    history: History,
    log: Log,
    *,
    groups: Iterable[str],
    healed: float,
    order_of: Callable[[str], tuple[str, int]] | None = None,
) -> Findings:
    """Return what is wrong with a history whose faults had ended by ``healed``."""
    found = Findings()
    places = _check_log(history, log, found, order_of or _order_of)
    _check_acked(history, places, found)
    _check_reads(history.reads, log, found)
    _check_commits(history, found)
    _check_seen(history, groups, healed, found)
    found.unanswered += sorted(history.sent.keys() - history.acked.keys() - history.refused.keys())
    return found


def _order_of(value: str) -> tuple[str, int]:
    producer, _, number = value.rpartition(":")
    return producer, int(number)


# ---------------------------------------------------------------------------- records


def _check_log(
    history: History, log: Log, found: Findings, order_of: Callable[[str], tuple[str, int]]
) -> dict[str, tuple[int, int]]:
    """Judge the log by itself, and return where each record is."""
    places: dict[str, tuple[int, int]] = {}
    for partition, rows in log.items():
        offsets = [offset for offset, _ in rows]
        for before, after in pairwise([-1, *offsets]):
            if after != before + 1:
                found.gaps.append(f"{partition}: {after} follows {before}")
        last: dict[str, int] = {}
        for offset, value in rows:
            here = (partition, offset)
            if value not in history.sent:
                found.foreign.append(f"{value} at {partition}/{offset}")
                continue
            if value in places:
                found.twice.append(f"{value} at {_at(places[value])} and {_at(here)}")
                continue
            places[value] = here
            producer, number = order_of(value)
            if number < last.get(producer, -1):
                found.disordered.append(f"{value} at {_at(here)} after {last[producer]}")
            last[producer] = max(number, last.get(producer, -1))
    return places


def _check_acked(history: History, places: Mapping[str, tuple[int, int]], found: Findings) -> None:
    found.twice += [f"{value} was acknowledged twice" for value in history.acked_twice]
    for value, acked in history.acked.items():
        real = places.get(value)
        offset = acked.offset if acked.offset is not None or real is None else real[1]
        told = (acked.partition, offset)
        if real is None:
            found.lost.append(f"{value}, told {_at(told)}")
        elif real != told:
            found.moved.append(f"{value} is at {_at(real)}, told {_at(told)}")


def _check_reads(reads: Iterable[Read], log: Log, found: Findings) -> None:
    stored = {
        (partition, offset): value for partition, rows in log.items() for offset, value in rows
    }
    for one in reads:
        real = stored.get((one.partition, one.offset))
        if real != one.value:
            where = _at((one.partition, one.offset))
            found.moved.append(f"{one.reader} read {one.value} at {where}: there is {real}")


def _at(place: tuple[int, int | None]) -> str:
    return f"{place[0]}/{place[1]}"


# ---------------------------------------------------------------------------- commits


class _Fact(NamedTuple):
    """From this time on the committed offset is not lower, and who says so."""

    at: float
    offset: int
    words: str


class _Question(NamedTuple):
    begun: float
    offset: int
    words: str


def _check_commits(history: History, found: Findings) -> None:
    facts: dict[tuple[str, int], list[_Fact]] = {}
    questions: dict[tuple[str, int], list[_Question]] = {}
    rows = [("committed", one) for one in history.commits]
    rows += [("told", one) for one in history.fetches]  # type: ignore[misc]
    for verb, one in rows:
        where, words = (one.group, one.partition), f"{verb} {one.offset} at {one.at:.3f}"
        facts.setdefault(where, []).append(_Fact(one.at, one.offset, words))
        questions.setdefault(where, []).append(_Question(one.begun, one.offset, words))
    for where, asked in questions.items():
        known = sorted(facts[where])
        asked.sort()
        at, floor = 0, _Fact(0.0, -1, "")
        for question in asked:
            while at < len(known) and known[at].at <= question.begun:
                floor = max(floor, known[at], key=lambda fact: fact.offset)
                at += 1
            if question.offset < floor.offset:
                group, partition = where
                found.regressed.append(f"{group}/{partition}: {question.words} after {floor.words}")


# ---------------------------------------------------------------------------- liveness


def _check_seen(history: History, groups: Iterable[str], healed: float, found: Findings) -> None:
    for group in groups:
        first: dict[str, float] = {}
        for one in history.reads:
            if one.group == group:
                first[one.value] = min(one.at, first.get(one.value, one.at))
        for value, acked in history.acked.items():
            late = first.get(value, float("inf")) - max(healed, acked.at)
            if late > SEEN_S:
                how = "never" if late == float("inf") else f"{late:.0f} s late"
                found.unseen.append(f"{value} by {group}: {how}")
