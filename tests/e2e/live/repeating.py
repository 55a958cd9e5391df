"""Something that is done again and again while a story goes on, by a thread of its own."""

import threading
import time
from types import TracebackType
from typing import Self

__all__ = ["Repeating"]


class Repeating:
    """A thread of passes; leaving the context ends it, and raises what a pass raised."""

    def __init__(self, name: str, pause_s: float) -> None:
        """``pause_s`` lies between two passes."""
        self.pause_s = pause_s
        self.seconds: list[float] = []
        """How long each pass took, with the pause behind it."""
        self._over = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name=name)

    def one_pass(self) -> None:
        """Do it once."""
        raise NotImplementedError

    def pause(self, _began: float) -> float:
        """Return how long to wait behind a pass."""
        return self.pause_s

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        if error is None:
            self.check()

    def check(self) -> None:
        """Raise what went wrong, if something did."""
        if self._failed:
            raise self._failed[0]

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                began = time.monotonic()
                self.one_pass()
                self._over.wait(self.pause(began))
                self.seconds.append(time.monotonic() - began)
        except BaseException as error:  # noqa: BLE001 (the test raises it)
            self._failed.append(error)
