"""A wall clock of its own for a process, which can be set while it runs: by libfaketime.

    clock = SteppedClock(folder / "clock")
    Process(argv, log, {**clock.env()})
    clock.step(600)       from now on, or a second later, it is ten minutes ahead
    clock.step(0)         it is right again

The monotonic clocks are left alone, as they are when somebody sets the clock of a machine.
"""

import os
from pathlib import Path

from tests.parts.process import MissingPartError

__all__ = ["SteppedClock"]

_PLACES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1")
CACHE_S = 1
"""So long after a step a process may still have the time of before."""


class SteppedClock:
    """The clock of some processes; its file says how far it is ahead."""

    def __init__(self, path: Path) -> None:
        self._path, self._library = path, _library()
        self.step(0)

    def step(self, seconds: float) -> None:
        """Be so many seconds ahead of the right time; below 0: behind it."""
        beside = self._path.with_suffix(".new")
        beside.write_text(f"{seconds:+g}s\n")
        beside.replace(self._path)

    def env(self, path: str = "") -> dict[str, str]:
        """Return the variables of a process that goes by this clock, and imports from a path."""
        inherited = path or os.environ.get("PYTHONPATH", "")  # noqa: TID251 (a child inherits)
        here = str(Path(__file__).parent / "stepped")
        return {
            "LD_PRELOAD": self._library,
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_CACHE_DURATION": str(CACHE_S),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Of condition variables, too: otherwise threads that wait for the interpreter's lock
            # do not wait but spin.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
            # The ages of files are left alone, or Python would compile all modules again.
            "NO_FAKE_STAT": "1",
            "PYTHONPATH": f"{here}:{inherited}" if inherited else here,
        }


def _library() -> str:
    for place in _PLACES:
        for found in Path("/").glob(place[1:]):
            return str(found)
    raise MissingPartError("libfaketime is missing: apt-get install libfaketime")
