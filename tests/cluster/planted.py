"""`lakelog` with bugs that were put into it: what a run must find, or it proves nothing.

    python -m tests.cluster.planted serve ...

One batch in thirty is acknowledged and not stored, another is stored twice; and one commit in ten
is acknowledged and forgotten. Idempotent producers would notice the first two, so that sequences
are not looked at either.
"""

import itertools
from typing import Any

from lakelog.broker.coordinator import Coordinator
from lakelog.broker.lanes import LaneWriter
from lakelog.cli import main
from lakelog.groups import Code, Commit, CommitAnswer
from lakelog.journal import Append, Stored, draft

__all__ = ["plant"]

EVERY = 30
COMMITS = 10


def plant() -> None:
    """Put the bugs in."""
    batches, commits = itertools.count(1), itertools.count(1)
    submit, commit = LaneWriter.submit, Coordinator.commit

    def submit_badly(self: LaneWriter, request: Any, done: Any, *args: Any) -> None:
        number = next(batches) % EVERY if isinstance(request, Append) else -1
        if number == 0:
            done(Stored(1 << 40, 0, 0, 0))
            return
        if number == EVERY // 2:
            submit(self, request, lambda _: None, *args)
        submit(self, request, done, *args)

    async def commit_badly(self: Coordinator, group_id: str, event: Commit) -> CommitAnswer:
        if next(commits) % COMMITS == 0:
            return CommitAnswer(codes=(Code.NONE,) * len(event.offsets))
        return await commit(self, group_id, event)

    LaneWriter.submit = submit_badly  # type: ignore[method-assign,assignment]
    Coordinator.commit = commit_badly  # type: ignore[method-assign]
    draft.judge = lambda *_: None  # type: ignore[attr-defined]


if __name__ == "__main__":
    plant()
    main()
