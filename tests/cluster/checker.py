"""What is wrong with a history, by rules that know nothing of how a log is made.

    lost-write             acknowledged, and read by nobody: neither below what was read, nor from
                           the store at the end; or read by somebody, and gone from the store
    inconsistent-offsets   two records at one place, or one elsewhere than its producer was told
    duplicate              one record at two places, of producers that are idempotent
    aborted-read           read, although its producer was told for certain that it failed
    int-poll-skip          a reader got a record and one behind it, and not what is in between:
                           in one poll
    ext-poll-skip          the same in two polls
    int-nonmonotonic-poll  a reader that nobody told to went back: in one poll
    ext-nonmonotonic-poll  the same in two polls
    int-nonmonotonic-send  what one producer sent stands in another order, of idempotent ones
    ext-nonmonotonic-send  sent after another was acknowledged, and stored before it
    end-regress            a partition ended before what somebody had been told, had read or stored
    start-regress          it began before where somebody was told it begins
    commit-regress         the coordinator told, or a member committed, less than what had been
                           acknowledged before it was asked, or than it had told somebody before
    gap                    an offset of the log that nobody wrote
    foreign                in the log, or read, and sent by nobody
    spark-divergence       a batch of Spark's left out what had been acknowledged or read before it
                           began, or showed something else than clients saw
    unreadable             a partition that cannot be read from the store
    damaged                an object in the store that contradicts another one
    orphan                 an object that nobody names, and that no sweep has found
    unseen                 acknowledged, and not read by a group in a minute after the faults ended
    unanswered             sent, and neither acknowledged nor refused by then

All but the last eight are those of Jepsen's workload for Kafka (``jepsen.tests.kafka``), as far as
there are no transactions, and three of its kind for offsets that are told. Jepsen sees only what
clients see; here the log that is in the store at the end counts as well, as a reader of everything.
What lies before the start of a partition was retained away: nobody has to have seen it.

Commits may not regress at all, whichever member makes them: each member begins where the
coordinator says, and goes forward; one that was replaced is refused, and not acknowledged. So what
was acknowledged before a question was asked is a lower bound of its answer. A question and a commit
that overlap may be answered either way.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tests.cluster.case import Case, Log, Place
from tests.cluster.history import STORE, Bound, History, Read

__all__ = ["LIVENESS", "RULES", "SEEN_S", "Findings", "check"]

SEEN_S = 60.0
"""From the end of faults to the moment when everything that was acknowledged has been read."""

LIVENESS = ("unseen", "unanswered")
"""Rules about what should happen in time; all others are about what must never happen."""

_SHOWN = 5


@dataclass(frozen=True)
class Findings:
    """What is wrong, rule by rule: nothing if all is well."""

    rules: Mapping[str, list[str]]

    def __getitem__(self, rule: str) -> list[str]:
        return self.rules[rule]

    def counts(self) -> dict[str, int]:
        """Return how often each rule was broken."""
        return {name: len(found) for name, found in self.rules.items()}

    def __bool__(self) -> bool:
        return any(self.rules.values())

    def shown(self) -> dict[str, list[str]]:
        """Return the first few findings of each rule that was broken."""
        return {name: found[:_SHOWN] for name, found in self.rules.items() if found}


def check(
    history: History,
    log: Log,
    *,
    groups: Iterable[str],
    healed: float,
    order_of: Callable[[str], tuple[str, int]] | None = None,
    repeating: Collection[str] = (),
) -> Findings:
    """Return what is wrong with a history whose faults had ended by ``healed``.

    Every group has to read everything. Producers that are not idempotent are ``repeating``: what
    they send may be stored twice, and in another order.
    """
    case = Case(history, log, tuple(groups), healed, order_of or _order_of, frozenset(repeating))
    return Findings({name: list(rule(case)) for name, rule in RULES.items()})


def _order_of(value: str) -> tuple[str, int]:
    producer, _, number = value.rpartition(":")
    return producer, int(number)


# ---------------------------------------------------------------------------- records


def lost_write(case: Case) -> Iterator[str]:
    """Yield what was acknowledged or read, and is gone."""
    highest: dict[int, int] = {}
    for partition, offset in (place for places in case.places.values() for place in places):
        highest[partition] = max(offset, highest.get(partition, -1))
    for value, acked in case.history.acked.items():
        if value in case.places or (acked.offset or 0) < case.start(acked.partition):
            continue
        is_passed = acked.offset is None or acked.offset < highest.get(acked.partition, -1)
        if acked.partition in case.log or is_passed:
            yield f"{value}, told {_at((acked.partition, acked.offset))}"
    for one in case.history.reads:
        place = (one.partition, one.offset)
        is_gone = one.partition in case.log and place not in case.stored
        if is_gone and one.offset >= case.start(one.partition):
            yield f"{one.value}, which {one.reader} read at {_at(place)}, is not stored"


def inconsistent_offsets(case: Case) -> Iterator[str]:
    """Yield places of which two things are said."""
    found: dict[Place, dict[str, str]] = defaultdict(dict)
    for place, value in case.stored.items():
        found[place].setdefault(value, "is stored")
    for one in case.history.reads:
        found[one.partition, one.offset].setdefault(one.value, f"was read by {one.reader}")
    for value, place in case.told.items():
        found[place].setdefault(value, "was told its producer")
        elsewhere = case.places.get(value, set()) - {place}
        if elsewhere and place not in case.places[value]:
            yield f"{value} is at {_at(min(elsewhere))}, told {_at(place)}"
    for value, acked in case.history.acked.items():
        partitions = {partition for partition, _ in case.places.get(value, ())}
        if acked.offset is None and partitions - {acked.partition}:
            yield f"{value} is in {partitions}, told {acked.partition}"
    for place, values in found.items():
        if len(values) > 1:
            yield f"{_at(place)}: " + ", ".join(f"{value} {how}" for value, how in values.items())


def duplicate(case: Case) -> Iterator[str]:
    """Yield records that are at two places, or were acknowledged twice."""
    for value in case.history.acked_twice:
        yield f"{value} was acknowledged twice"
    for value, places in case.places.items():
        if len(places) > 1 and case.is_exact(value):
            yield f"{value} at {' and '.join(map(_at, sorted(places)))}"


def aborted_read(case: Case) -> Iterator[str]:
    """Yield what is there although it failed."""
    for value in sorted(case.history.failed & case.places.keys()):
        yield f"{value} at {_at(min(case.places[value]))}: {case.history.refused[value]}"


def gap(case: Case) -> Iterator[str]:
    """Yield offsets of the log behind which one is missing."""
    for partition, rows in case.log.items():
        offsets = [offset for offset, _ in rows]
        for before, after in pairwise([case.start(partition) - 1, *offsets]):
            if after != before + 1:
                yield f"{partition}: {after} follows {before}"


def foreign(case: Case) -> Iterator[str]:
    """Yield what nobody sent."""
    for value, places in case.places.items():
        if value not in case.history.sent:
            yield f"{value} at {_at(min(places))}"


def spark_divergence(case: Case) -> Iterator[str]:
    """Yield what Spark was not shown, or was shown otherwise."""
    seen: dict[Place, tuple[float, str]] = {}
    for value, place in case.told.items():
        seen[place] = (case.history.acked[value].at, value)
    for one in case.history.reads:
        known = seen.get((one.partition, one.offset), (one.at, one.value))
        seen[one.partition, one.offset] = min(known, (one.at, one.value))
    for scan in case.history.scans:
        shown = {(key, offset): value for key, rows in scan.rows.items() for offset, value in rows}
        when = f"{scan.who} at {scan.at:.3f}"
        if len(shown) < sum(map(len, scan.rows.values())):
            yield f"{when}: an offset came twice"
        for (partition, offset), (at, value) in seen.items():
            place = (partition, offset)
            is_due = at <= scan.begun and offset >= case.start_by(partition, scan.at)
            if shown.get(place, value) != value:
                yield f"{when}: {_at(place)} is {shown[place]}, and {value} to clients"
            elif is_due and place not in shown and partition in scan.rows:
                yield f"{when}: {_at(place)} is missing, {value} to clients"
        for place, value in shown.items():
            is_kept = place[0] in case.log and place[1] >= case.start(place[0])
            if is_kept and case.stored.get(place) != value:
                yield f"{when}: {_at(place)} is {value}, and {case.stored.get(place)} in the store"


def _told_of_store(rule: str) -> Callable[[Case], Iterator[str]]:
    """Return a rule: what whoever read the store in the end has found of that kind."""

    def found(case: Case) -> Iterator[str]:
        errors = (what for _, who, what in case.history.errors if who == STORE)
        yield from (what for what in errors if what.startswith(rule))

    return found


# ---------------------------------------------------------------------------- order


def _steps(case: Case) -> Iterator[tuple[Read, Read]]:
    """Yield two records that a reader got of a partition one after the other."""
    last: dict[tuple[str, int, int], Read] = {}
    for one in case.history.reads:
        whose = (one.reader, one.partition, one.stint)
        if whose in last:
            yield last[whose], one
        last[whose] = one


def _poll_skips(case: Case, *, within: bool) -> Iterator[str]:
    for before, after in _steps(case):
        if (before.poll == after.poll) is not within or after.offset <= before.offset + 1:
            continue
        start = case.start_by(after.partition, after.at)
        offsets = case.offsets[after.partition]
        first = bisect_left(offsets, max(before.offset + 1, start))
        left_out = offsets[first : bisect_left(offsets, after.offset)]
        if left_out:
            yield f"{after.reader} read {after.partition}/{after.offset} after {before.offset}"


def _poll_returns(case: Case, *, within: bool) -> Iterator[str]:
    for before, after in _steps(case):
        if (before.poll == after.poll) is within and after.offset <= before.offset:
            yield f"{after.reader} read {after.partition}/{after.offset} after {before.offset}"


def int_nonmonotonic_send(case: Case) -> Iterator[str]:
    """Yield what stands before something that its producer sent earlier."""
    sent: dict[tuple[str, int], list[tuple[int, int, str]]] = defaultdict(list)
    for value in case.history.sent:
        where = case.told.get(value) or min(case.places.get(value, ()), default=None)
        if where is not None and case.is_exact(value):
            producer, number = case.order_of(value)
            sent[producer, where[0]].append((number, where[1], value))
    for (_, partition), rows in sent.items():
        rows.sort()
        for (_, before, _), (_, after, value) in pairwise(rows):
            if after < before:
                yield f"{value} at {partition}/{after} after {before}"


def ext_nonmonotonic_send(case: Case) -> Iterator[str]:
    """Yield what was sent after another was acknowledged, and got a lower offset."""
    facts, questions = _Facts(), _Facts()
    for value, (partition, offset) in case.told.items():
        acked = case.history.acked[value]
        facts.add(partition, acked.at, offset, f"{value} was told {offset}")
        questions.add(partition, case.history.sent[value].at, offset, f"{value} {offset}")
    yield from _regressed(facts, questions)


# ---------------------------------------------------------------------------- what is told


class _Word(NamedTuple):
    """What is so from a time on, or was asked for at that time; and who says so."""

    at: float
    offset: int
    words: str


class _Facts(defaultdict[object, list[_Word]]):
    """By what they are about."""

    def __init__(self) -> None:
        super().__init__(list)

    def add(self, where: object, at: float, offset: int, words: str) -> None:
        self[where].append(_Word(at, offset, words))


def _regressed(facts: _Facts, questions: _Facts) -> Iterator[str]:
    """Yield answers that are below what was so before they were asked for."""
    for where, asked in questions.items():
        known, at, floor = sorted(facts.get(where, [])), 0, _Word(0.0, -1, "")
        for question in sorted(asked):
            while at < len(known) and known[at].at <= question.at:
                floor = max(floor, known[at], key=lambda fact: fact.offset)
                at += 1
            if question.offset < floor.offset:
                yield f"{where}: {question.words} after {floor.words}"


def _bounds(name: str, told: Iterable[Bound], facts: _Facts) -> Iterator[str]:
    questions = _Facts()
    for one in told:
        words = f"{name} {one.offset} at {one.at:.3f}"
        facts.add(one.partition, one.at, one.offset, words)
        questions.add(one.partition, one.begun, one.offset, words)
    yield from _regressed(facts, questions)


def end_regress(case: Case) -> Iterator[str]:
    """Yield ends that were told before what had been told, read or acknowledged."""
    facts = _Facts()
    for value, (partition, offset) in case.told.items():
        facts.add(partition, case.history.acked[value].at, offset + 1, f"{value} was stored")
    for one in case.history.reads:
        facts.add(one.partition, one.at, one.offset + 1, f"{one.value} was read")
    yield from _bounds("end", case.history.ends, facts)


def start_regress(case: Case) -> Iterator[str]:
    """Yield starts that were told before one that had been told."""
    yield from _bounds("start", case.history.starts, _Facts())


def commit_regress(case: Case) -> Iterator[str]:
    """Yield commits and answers that are below what was committed or told."""
    facts, questions = _Facts(), _Facts()
    rows = [("committed", one) for one in case.history.commits]
    rows += [("told", one) for one in case.history.fetches]  # type: ignore[misc]
    for verb, one in rows:
        where, words = f"{one.group}/{one.partition}", f"{verb} {one.offset} at {one.at:.3f}"
        facts.add(where, one.at, one.offset, words)
        questions.add(where, one.begun, one.offset, words)
    yield from _regressed(facts, questions)


# ---------------------------------------------------------------------------- liveness


def unseen(case: Case) -> Iterator[str]:
    """Yield what a group has not read in time."""
    first: dict[tuple[str, str], float] = {}
    for one in case.history.reads:
        by = (one.group, one.value)
        first[by] = min(one.at, first.get(by, one.at))
    for group in case.groups:
        for value, acked in case.history.acked.items():
            is_gone = acked.offset is not None and acked.offset < case.start(acked.partition)
            if acked.partition not in case.log or is_gone:
                continue
            late = first.get((group, value), float("inf")) - max(case.healed, acked.at)
            if late > SEEN_S:
                how = "never" if late == float("inf") else f"{late:.0f} s late"
                yield f"{value} by {group}: {how}"


def unanswered(case: Case) -> Iterator[str]:
    """Yield what was sent, and of which nothing was heard."""
    history = case.history
    yield from sorted(history.sent.keys() - history.acked.keys() - history.refused.keys())


RULES: Mapping[str, Callable[[Case], Iterable[str]]] = {
    "lost-write": lost_write,
    "inconsistent-offsets": inconsistent_offsets,
    "duplicate": duplicate,
    "aborted-read": aborted_read,
    "int-poll-skip": lambda case: _poll_skips(case, within=True),
    "ext-poll-skip": lambda case: _poll_skips(case, within=False),
    "int-nonmonotonic-poll": lambda case: _poll_returns(case, within=True),
    "ext-nonmonotonic-poll": lambda case: _poll_returns(case, within=False),
    "int-nonmonotonic-send": int_nonmonotonic_send,
    "ext-nonmonotonic-send": ext_nonmonotonic_send,
    "end-regress": end_regress,
    "start-regress": start_regress,
    "commit-regress": commit_regress,
    "gap": gap,
    "foreign": foreign,
    "spark-divergence": spark_divergence,
    "unreadable": _told_of_store("unreadable"),
    "damaged": _told_of_store("damaged"),
    "orphan": _told_of_store("orphan"),
    "unseen": unseen,
    "unanswered": unanswered,
}


def _at(place: tuple[int, int | None]) -> str:
    return f"{place[0]}/{place[1]}"
