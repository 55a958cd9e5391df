"""`lakelog` whose lanes are moved by signals, as often as one likes.

    python -m tests.cluster.moving serve ...

SIGUSR1: it announces that it drains, and others take its lanes. SIGUSR2: it serves again, and takes
them back. Nothing else is changed: it goes through a rolling restart without restarting.
"""

import asyncio
import signal
from functools import partial

from lakelog.broker.cluster import Cluster
from lakelog.cli import main
from lakelog.coordination import State

__all__ = ["STATES"]

STATES = {signal.SIGUSR1: State.DRAINING, signal.SIGUSR2: State.SERVING}


def _listen() -> None:
    begin = Cluster.begin

    def change(self: Cluster, state: State) -> None:
        self._spawn(self.node.change(state))

    async def begin_and_listen(self: Cluster) -> None:
        await begin(self)
        for number, state in STATES.items():
            asyncio.get_running_loop().add_signal_handler(number, partial(change, self, state))

    Cluster.begin = begin_and_listen  # type: ignore[method-assign]


if __name__ == "__main__":
    _listen()
    main()
