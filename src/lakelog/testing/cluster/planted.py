"""Bugs of clusters, each of which the simulated cluster must find."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from lakelog.coordination import (
    DEAD_AFTER,
    BucketGroups,
    BucketMembership,
    ClaimedShard,
    Claiming,
    Leadership,
    Liveness,
    Member,
    Node,
    Told,
    Verdict,
    View,
    owners_of,
)
from lakelog.errors import FencedError
from lakelog.journal import Outcome, Stored
from lakelog.store import Work
from lakelog.testing.cluster.brokers import ClusterBroker
from lakelog.testing.repaired import Bug
from lakelog.testing.scale import patched

__all__ = ["CLUSTER_BUGS", "planted_in_cluster"]


@contextmanager
def planted_in_cluster(name: str) -> Iterator[None]:
    """Plant a bug while this lasts; the empty name plants none."""
    with patched(CLUSTER_BUGS[name].patches if name else ()):
        yield


def _nothing(*_: Any) -> Work[None]:
    yield from ()


_told = Leadership.told
_save = BucketGroups.save


def _one_more(self: Leadership, lane: int, view: View) -> Told | None:
    told = _told(self, lane, view)
    if told is None or told.node == self.node:
        return told
    return Told(told.node, told.epoch + 1 + self.node % 2)


def _always(*_: Any, **__: Any) -> Verdict:
    return Verdict.TAKE


def _by_time(self: Any, begun_ms: int, beats: dict[int, str]) -> frozenset[int]:
    """Who has not been seen to beat for three intervals, however few lists there were."""
    first = self.__dict__.setdefault("first", {})
    for node, etag in beats.items():
        if first.get(node, ("", 0))[0] != etag:
            first[node] = (etag, begun_ms)
    limit_ms = DEAD_AFTER * self._interval_ms
    return frozenset(node for node, (_, at_ms) in first.items() if begun_ms - at_ms > limit_ms)


def _only_looked(self: ClusterBroker, lane: int, done: Callable[[int | None], None]) -> None:
    """Take the epoch that a lane has for a new one."""

    def probed() -> None:
        last = self.last_writer(lane)
        done(None if last is None else last.epoch)

    self.probe(lane, probed)


def _as_it_was(*_: Any) -> Work[bool]:
    yield from ()
    return True


def _by_runs(self: Leadership, view: View, *, serves: bool) -> dict[int, int]:
    """Hash runs and not node ids: a restart moves lanes."""
    runs = {
        int.from_bytes(one.run[-4:]): node
        for node, one in view.living.items()
        if (one.serves or (serves and node == self.node)) and (serves or node != self.node)
    }
    return {lane: runs[run] for lane, run in owners_of(runs, self.lanes, "lane").items()}


def _without_past(self: Any) -> Work[Member]:
    member = yield from _former(self)
    return replace(member, past={})


_former = BucketMembership._former  # noqa: SLF001


def _told_early(self: Node, lane: int) -> Told | None:
    mine = replace(self.member, epochs=dict(self.leadership.epochs))
    view = replace(self.view, living={**self.view.living, mine.node: mine})
    return self.leadership.told(lane, view)


def _guessed(self: BucketGroups, held: ClaimedShard, changed: Any) -> Work[ClaimedShard]:
    """Take it for stored when the cell is another one."""
    try:
        return (yield from _save(self, held, changed))
    except FencedError:
        return held.changed(changed)


def _highest_living(self: Leadership, lane: int, view: View) -> Told | None:
    """Forget the epochs of whoever is not seen alive any more."""
    del self
    epochs = ((one.epochs.get(lane, -1), node) for node, one in view.living.items())
    epoch, node = max(epochs, default=(-1, -1))
    return None if epoch < 0 else Told(node, epoch)


def _any_outcome(self: ClusterBroker, outcome: Outcome | None, reply: Any) -> None:
    """Acknowledge what may not be stored."""
    del self
    reply("ok", outcome if isinstance(outcome, Stored) else Stored(0, 0, 0, 0))


CLUSTER_BUGS = {
    "fetch-no-look": Bug(
        "committed offsets are told without a look at the claim",
        ((BucketGroups, "look", _nothing),),
    ),
    "epoch-invented": Bug(
        "whoever does not lead tells an epoch of its own", ((Leadership, "told", _one_more),)
    ),
    "claim-at-once": Bug("a shard is claimed whoever holds it", ((Claiming, "judge", _always),)),
    "dead-by-time": Bug(
        "who is silent for three intervals is dead, however few lists there were",
        ((Liveness, "listed", _by_time),),
    ),
    "no-empty-bundle": Bug(
        "a lane is led without a bundle that raises its epoch",
        ((ClusterBroker, "touch", _only_looked),),
    ),
    "old-view": Bug(
        "a client is sent elsewhere by a view from before its request",
        ((ClusterBroker, "_look", _as_it_was),),
    ),
    "no-release": Bug(
        "who should no longer own a shard keeps its claim", ((BucketGroups, "release", _nothing),)
    ),
    "hash-of-runs": Bug(
        "lanes are placed by runs and not by node ids", ((Leadership, "owners", _by_runs),)
    ),
    "past-forgotten": Bug(
        "a new run does not keep the epochs that its node id announced",
        ((BucketMembership, "_former", _without_past),),
    ),
    "told-early": Bug("an epoch is told before it is stored", ((Node, "told", _told_early),)),
    "save-guessed": Bug(
        "a commit that was fenced is taken for stored", ((BucketGroups, "save", _guessed),)
    ),
    "replaced-lives-on": Bug(
        "a run does not notice that another has its node id",
        ((BucketMembership, "_check_beat", _nothing),),
    ),
    "dead-epochs-forgotten": Bug(
        "a lower epoch is told when the leader is dead", ((Leadership, "told", _highest_living),)
    ),
    "unknown-acked": Bug(
        "a batch of unknown outcome is acknowledged",
        ((ClusterBroker, "_produced", _any_outcome),),
    ),
}
"""Every bug by name."""
