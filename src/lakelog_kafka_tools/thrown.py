"""What Java's tools throw, as far as they print it.

Most of what goes wrong is shown by the name of a Java class and a message, and by a trace of where
it came from. The names and messages are here, the traces are not: they tell of Java's source.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

from lakelog.errors import LakelogError

__all__ = ["EXECUTION", "Failure", "Thrown", "failure", "illegal", "refused", "timed_out"]

_PACKAGE = "org.apache.kafka.common.errors"
EXECUTION = "java.util.concurrent.ExecutionException"
"""What is thrown by an answer that one has waited for."""
_FILE = Path(__file__).with_name("failures.tsv")


class Failure(NamedTuple):
    """An error code of Kafka's protocol."""

    name: str
    kind: str
    message: str


@cache
def _failures() -> dict[int, Failure]:
    rows = (line.split("\t") for line in _FILE.read_text().splitlines())
    return {int(code): Failure(*rest) for code, *rest in rows}


def failure(code: int) -> Failure:
    """Return what an error code means; those of the future mean as much as -1."""
    return _failures().get(code) or _failures()[-1]


class Thrown(LakelogError):  # noqa: N818 (it is what Java calls it, and stays in the tools)
    """An exception of Java's, with the class that would be printed."""

    def __init__(
        self, kind: str, message: str | None, code: int = 0, cause: "Thrown | None" = None
    ) -> None:
        super().__init__(kind, message, code)
        self.kind = kind
        self.message = "null" if message is None else message
        self.code = code
        """Of the protocol; 0 if it did not come from a broker."""
        self.cause = cause

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"

    def trace(self) -> str:
        """Return its trace without the frames."""
        caused = f"Caused by: {self.cause.trace()}" if self.cause else ""
        return f"{self}\n{caused}"

    def inside(self, kind: str) -> "Thrown":
        """Return it inside of another, which has no words of its own."""
        return Thrown(kind, str(self), self.code, self)


def illegal(message: str) -> Thrown:
    """Return an IllegalArgumentException."""
    return Thrown("java.lang.IllegalArgumentException", message)


def timed_out(message: str) -> Thrown:
    """Return what Java throws when nobody answers."""
    return Thrown(f"{_PACKAGE}.TimeoutException", message)


def refused(code: int, message: str | None = None) -> Thrown:
    """Return what a broker's error code becomes, with the broker's own words if it has any."""
    found = failure(code)
    return Thrown(f"{_PACKAGE}.{found.kind}", found.message if message is None else message, code)
