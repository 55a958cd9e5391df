"""How text gets to stdout: in large pieces, but never late.

Lines are gathered and written together, since a write for each would cost more than making it. Yet
whoever looks at a large file wants its first line at once, and a terminal wants every line: so what
was gathered is written when it is large, when it is old, and always on a terminal.
"""

import time
from typing import BinaryIO

import click

__all__ = ["Output"]

PIECE_CHARS = 128 * 1024
DELAY_S_MAX = 0.1


class Output:
    """Gathers text and writes it as UTF-8."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty()
        self._parts: list[str] = []
        self._chars = 0
        self._written_at = -DELAY_S_MAX

    def write(self, text: str) -> None:
        """Write ``text``, which ends in a newline, sooner or later."""
        self._parts.append(text)
        self._chars += len(text)
        is_old = time.monotonic() - self._written_at >= DELAY_S_MAX
        if self._chars >= PIECE_CHARS or is_old or self.is_terminal:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered."""
        if self._parts:
            # A path that is not UTF-8 comes with surrogate escapes, and goes out as it was.
            data = "".join(self._parts).encode("utf-8", "surrogateescape")
            self._parts.clear()
            self._chars = 0
            try:
                self._stream.write(data)
                self._stream.flush()
            except BrokenPipeError:
                raise
            except OSError as error:
                raise click.ClickException(f"cannot write to stdout: {error.strerror}") from error
        self._written_at = time.monotonic()
