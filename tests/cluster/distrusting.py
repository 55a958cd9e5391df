"""`lakelog` that holds all others dead while it is told to, whatever they do.

    python -m tests.cluster.distrusting serve ...

From SIGUSR1 to SIGUSR2 every list shows it that the beats of all others have stopped.
"""

import signal
from collections.abc import Mapping

from lakelog.cli import main
from lakelog.coordination import liveness

_told = [signal.SIGUSR2]
"""What it was told, the last thing last."""


def _plant() -> None:
    listed = liveness.Liveness.listed

    def listed_badly(
        self: liveness.Liveness, begun_ms: int, beats: Mapping[int, str]
    ) -> frozenset[int]:
        dead = listed(self, begun_ms, beats)
        # The one that lists takes itself out.
        return frozenset(beats) if _told[-1] == signal.SIGUSR1 else dead

    liveness.Liveness.listed = listed_badly  # type: ignore[method-assign]


if __name__ == "__main__":
    _plant()
    for one in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(one, lambda number, _: _told.append(signal.Signals(number)))
    main()
