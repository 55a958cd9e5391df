"""Cells that can be judged by themselves: the namespace's own, those of topics, shards of groups.

A cell has no checksum. So what is checked is that it decodes, that it is the one its name says, and
that it agrees with the objects it speaks of. What nothing else speaks of nothing can contradict: a
config, a time, an offset that a group has committed.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakelog.catalog import (
    Namespace,
    Topic,
    is_pipeline_claimed,
    open_namespace,
    read_acls,
    read_quotas,
    read_topic,
    read_users,
)
from lakelog.coordination import decode_shard
from lakelog.errors import CorruptError, InvalidInputError, NotFoundError, UnsupportedError
from lakelog.names import (
    ACLS_KEY,
    CLUSTER_KEY,
    GROUPS_PREFIX,
    PIPELINE_KEY,
    QUOTAS_KEY,
    USERS_KEY,
    group_shard_key,
    topic_key,
)
from lakelog.pipeline.frame import Finding, FindingCollector, Result, Subject
from lakelog.store import CELL_BYTES_MAX, Get, Work, ask

__all__ = [
    "CLUSTER",
    "Shards",
    "Topics",
    "check_shards",
    "look_at_acls",
    "look_at_claim",
    "look_at_namespace",
    "look_at_quotas",
    "look_at_users",
    "read_topics",
]

CLUSTER = Subject(CLUSTER_KEY, -1, 0, CLUSTER_KEY)


def look_at_namespace() -> Work[Namespace | Result]:
    """Return the namespace, or what is wrong with its cell.

    Raises:
        NotFoundError: there is none.
    """
    try:
        return (yield from open_namespace())
    except (CorruptError, UnsupportedError) as error:
        what = f"{error.what}; nothing else was verified"
        return CLUSTER.found("damaged", what, at=error.at)


def look_at_claim() -> Work[Result | None]:
    """Return what is wrong with the claim of a pipeline, if something is."""
    try:
        yield from is_pipeline_claimed(0)
    except (CorruptError, UnsupportedError) as error:
        subject = Subject(PIPELINE_KEY, -1, 0, PIPELINE_KEY)
        return subject.found("damaged", f"{error.what}; it may be deleted", at=error.at)
    return None


def look_at_acls() -> Work[Result | None]:
    """Return what is wrong with the cell of ACLs, if something is."""
    return _looked_at(
        read_acls(), ACLS_KEY, "no broker with an authorizer starts without it: restore it"
    )


def look_at_users() -> Work[Result | None]:
    """Return what is wrong with the users, if something is."""
    return _looked_at(read_users(), USERS_KEY, "nobody can log in")


def look_at_quotas() -> Work[Result | None]:
    """Return what is wrong with the quotas, if something is."""
    what = "brokers go on with those they know, and know none when they start"
    return _looked_at(read_quotas(), QUOTAS_KEY, what)


def _looked_at(reading: Work[Any], key: str, consequence: str) -> Work[Result | None]:
    subject = Subject(key, -1, 0, key)
    try:
        yield from reading
    except (CorruptError, UnsupportedError) as error:
        return subject.found("damaged", f"{error.what}; {consequence}", at=error.at)
    except InvalidInputError:
        # The policy of a pipeline, as `lakelog iam` prints it, keeps these from it.
        return subject.found("unjudged", "these credentials may not read it")
    return None


# ---------------------------------------------------------------------------- topics


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics whose cells could be read, and what is wrong with the others."""

    good: dict[str, Topic]
    bad: dict[str, Result]

    def incarnations(self) -> dict[str, Topic]:
        """Return every incarnation that is remembered, by its path."""
        return {one.path: one for topic in self.good.values() for one in topic.incarnations()}


def read_topics(names: Sequence[str], lanes: int) -> Work[Topics]:
    """Read the cells of topics, in a namespace of so many lanes."""
    topics = Topics({}, {})
    for name in names:
        yield from _read_topic(name, lanes, topics)
    return topics


def _read_topic(name: str, lanes: int, topics: Topics) -> Work[None]:
    key = topic_key(name)
    try:
        topic = yield from read_topic(name)
    except NotFoundError:
        what = "it was there a moment ago, and a cell outlives its topic: restore it"
        topics.bad[name] = _bad_topic(name, Finding(key, 0, 0, what))
    except (CorruptError, UnsupportedError) as error:
        what = f"{error.what}; nothing of this topic was verified"
        topics.bad[name] = _bad_topic(name, Finding(key, error.at, 0, what))
    else:
        topics.good[name] = topic
        if topic.lanes > lanes:
            what = f"{topic.lanes} lanes, in a namespace of {lanes}"
            found = (Finding(one, 0, 0, what) for one in (key, CLUSTER_KEY))
            topics.bad[name] = _bad_topic(name, *found)


def _bad_topic(name: str, *findings: Finding) -> Result:
    return Subject(name, -1, 0, topic_key(name)).result("damaged", FindingCollector(*findings))


# ---------------------------------------------------------------------------- groups


@dataclass(frozen=True, slots=True)
class Shards:
    """A unit: the shards of groups that there are."""

    numbers: tuple[int, ...]
    move: int

    @property
    def size(self) -> int:
        return 64 << 10


def check_shards(unit: Shards) -> Work[Result]:
    """Check every shard, and whether there are as many as each says.

    One that is missing is told and is no damage: a broker makes them one after the other when it
    starts for the first time, and may die in between.
    """
    damage, missing = FindingCollector(), FindingCollector()
    counts: dict[int, int] = {}
    for number in unit.numbers:
        key = group_shard_key(number, unit.move)
        try:
            found = yield from ask(Get(key, CELL_BYTES_MAX))
            counts[number] = decode_shard(found.body, number, key).shards
        except NotFoundError:
            damage.add(key, "it was there a moment ago: restore it")
        except (CorruptError, UnsupportedError) as error:
            damage.add(key, error.what, at=error.at)
    ((most, times),) = Counter(counts.values()).most_common(1) or ((0, 0),)
    for number, count in counts.items():
        if count != most or 2 * times <= len(counts):
            damage.add(
                group_shard_key(number, unit.move),
                f"it is one of {count} shards, and of {most} by what others say",
            )
    for number in range(most):
        if number not in unit.numbers:
            missing.add(
                group_shard_key(number, unit.move),
                "no broker has made it, or it is lost with the offsets of its groups",
            )
    subject = Subject(GROUPS_PREFIX.rstrip("/"), -1, 0, GROUPS_PREFIX.rstrip("/"))
    if damage.count:
        return subject.result("damaged", damage)
    return subject.result("unclaimed" if missing.count else "good", missing)
