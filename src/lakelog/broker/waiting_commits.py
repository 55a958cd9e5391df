"""Commits for groups that come here in a moment: they wait, and are put in the order they came.

    commit --> the shard is not here --> whom are clients sent to? --another--> NOT_COORDINATOR
                                             `--this one--> wait until it is here, for seconds

librdkafka looks for another coordinator once for each commit, and no further: the second time that
it is told to look elsewhere, the application is told. So whoever was sent here, because this broker
should coordinate its group, is not sent away while this one is about to.
"""

import asyncio
from collections.abc import Callable

from lakelog.broker.held_shards import LOADING, HeldShards
from lakelog.broker.supervision import Supervisor
from lakelog.groups import Answer, Code, Commit

__all__ = ["WaitingCommits"]

WAIT_S = 15.0
"""As long as it takes until a broker that was killed is replaced; clients wait twice as long."""
OFFSETS_MAX = 20_000
"""Of all commits that wait: what comes beyond is answered at once."""

_Waiting = tuple[str, Commit, "asyncio.Future[Answer]"]


class WaitingCommits:
    """Those of one broker."""

    def __init__(
        self,
        shards: HeldShards,
        ask: Callable[[str, Commit], "asyncio.Future[Answer]"],
        tasks: Supervisor,
    ) -> None:
        self._shards, self._ask, self._tasks = shards, ask, tasks
        self._waiting: dict[int, list[_Waiting]] = {}
        """Of each shard for which some wait."""
        self._offsets = 0

    def takes(self, shard: int, found: object, commit: Commit) -> bool:
        """Whether a commit has to wait: for a shard, or behind another that does."""
        is_due = shard in self._waiting or found in (LOADING, Code.NOT_COORDINATOR)
        return is_due and self._offsets + len(commit.offsets) <= OFFSETS_MAX

    def wait(self, shard: int, group_id: str, commit: Commit) -> "asyncio.Future[Answer]":
        """Put a commit to its shard when that is here, or is known not to come."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._offsets += len(commit.offsets)
        if shard in self._waiting:
            self._waiting[shard].append((group_id, commit, answer))
        else:
            self._waiting[shard] = [(group_id, commit, answer)]
            self._tasks.once("waiting commits", self._serve(shard))
        return answer

    async def _serve(self, shard: int) -> None:
        try:
            await self._shards.soon(shard, WAIT_S)
        finally:
            for group_id, commit, answer in self._waiting.pop(shard):
                self._offsets -= len(commit.offsets)
                if not answer.done():
                    self._ask(group_id, commit).add_done_callback(
                        lambda found, answer=answer: _hand_on(found, answer)  # type: ignore[misc]
                    )


def _hand_on(found: "asyncio.Future[Answer]", answer: "asyncio.Future[Answer]") -> None:
    if answer.done():
        return  # Nobody waits any more.
    if found.cancelled():
        answer.cancel()
    elif (error := found.exception()) is not None:
        answer.set_exception(error)
    else:
        answer.set_result(found.result())
