"""`lakelog` with bugs that were put into it: what a run must find, or it proves nothing.

    LAKELOG_PLANTED=ack-unstored,stored-twice  python -m tests.cluster.planted serve ...

Some are those of the simulators (``lakelog.testing``), as far as they are bugs of what brokers run.
The product has no switch for any of them: they are put in from outside, before it begins.
"""

import itertools
import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from lakelog.broker.coordinator import Coordinator
from lakelog.broker.lanes import LaneWriter
from lakelog.cli import main
from lakelog.coordination import BucketGroups, ClaimedShard
from lakelog.groups import Code, Commit, CommitAnswer
from lakelog.journal import Append, Stored, draft
from lakelog.store import Work
from lakelog.testing.cluster.planted import CLUSTER_BUGS
from lakelog.testing.planted import BUGS as LOG_BUGS
from lakelog.testing.repaired import Bug
from lakelog.testing.scale import patched

__all__ = ["BUGS", "VARIABLE", "environment"]

VARIABLE = "LAKELOG_PLANTED"
EVERY = 30
COMMITS = 10

_batches, _more, _commits = itertools.count(1), itertools.count(EVERY // 2), itertools.count(1)
_submit, _commit, _claim = LaneWriter.submit, Coordinator.commit, BucketGroups.claim


def _submit_once_too_few(self: LaneWriter, request: Any, done: Any, *args: Any) -> None:
    if isinstance(request, Append) and next(_batches) % EVERY == 0:
        done(Stored(1 << 40, 0, 0, 0))
    else:
        _submit(self, request, done, *args)


def _submit_once_too_often(self: LaneWriter, request: Any, done: Any, *args: Any) -> None:
    if isinstance(request, Append) and next(_more) % EVERY == 0:
        _submit(self, request, lambda _: None, *args)
    # Both replace the same function: with both planted, one calls the other.
    others = _submit_once_too_few if "ack-unstored" in _names() else _submit
    others(self, request, done, *args)


async def _forget_some(self: Coordinator, group_id: str, event: Commit) -> CommitAnswer:
    if next(_commits) % COMMITS == 0:
        return CommitAnswer(codes=(Code.NONE,) * len(event.offsets))
    return await _commit(self, group_id, event)


def _claim_empty(self: BucketGroups, *args: Any, **named: Any) -> Work[ClaimedShard]:
    return replace((yield from _claim(self, *args, **named)), groups={})


def _do_not_judge(*_: object) -> None:
    """Idempotent producers would notice what is missing, and what is there twice is refused."""


_UNJUDGED = (draft, "judge", _do_not_judge)

BUGS: dict[str, Bug] = {
    "ack-unstored": Bug(
        "one batch in thirty is acknowledged and not stored",
        ((LaneWriter, "submit", _submit_once_too_few), _UNJUDGED),
    ),
    "stored-twice": Bug(
        "one batch in thirty is stored twice",
        ((LaneWriter, "submit", _submit_once_too_often), _UNJUDGED),
    ),
    "sequences-ignored": Bug("what a producer sends again is stored again", (_UNJUDGED,)),
    "commit-forgotten": Bug(
        "one commit in ten is acknowledged and forgotten",
        ((Coordinator, "commit", _forget_some),),
    ),
    "takeover-empty": Bug(
        "whoever takes a shard of groups over does not read what is in it",
        ((BucketGroups, "claim", _claim_empty),),
    ),
    "save-guessed": CLUSTER_BUGS["save-guessed"],
    **{name: LOG_BUGS[name] for name in ("ack-failed", "end-lost")},
}
"""Every bug by name."""


_planted = ExitStack()
"""What is planted stays so while this is there."""


def environment(names: Iterable[str]) -> dict[str, str]:
    """Return the variables of a process that has some bugs."""
    return {VARIABLE: ",".join(names)}


def _names() -> list[str]:
    return os.environ[VARIABLE].split(",")  # noqa: TID251 (lakelog's own options are as ever)


def _plant() -> None:
    for name in _names():
        _planted.enter_context(patched(BUGS[name].patches))


if __name__ in ("__main__", "__mp_main__"):  # The latter is what a broker's keeper is.
    _plant()
if __name__ == "__main__":
    main()
