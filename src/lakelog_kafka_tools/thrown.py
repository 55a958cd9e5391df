"""Java exceptions that Apache's tools throw, as far as they print them.

Most of what goes wrong is shown by the name of a Java class and a message, and by a trace of where
it came from. The names and messages are here. The frames of the traces are not: they are lines of
Java's source.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from lakelog.errors import LakelogError

__all__ = [
    "EXECUTION",
    "RUNTIME",
    "UNSUPPORTED_VERSION",
    "Failure",
    "Thrown",
    "check_codes",
    "config_error",
    "failure",
    "illegal",
    "kafka_error",
    "number_error",
    "refused",
    "unless_thrown",
]

T = TypeVar("T")
_PACKAGE = "org.apache.kafka.common.errors"
EXECUTION = "java.util.concurrent.ExecutionException"
"""What is thrown by an answer that one has waited for."""
RUNTIME = "java.lang.RuntimeException"
UNSUPPORTED_VERSION = 35
"""The error code of a broker that does not know an API, or a version of it."""
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

    def inside(self, *kinds: str) -> "Thrown":
        """Return it as the cause of another without a message of its own, and that of the next."""
        outer = self
        for kind in kinds:
            outer = Thrown(kind, str(outer), self.code, outer)
        return outer


def illegal(message: str) -> Thrown:
    """Return an IllegalArgumentException."""
    return Thrown("java.lang.IllegalArgumentException", message)


def number_error(text: str) -> Thrown:
    """Return what Java throws for a text that is no number."""
    return Thrown("java.lang.NumberFormatException", f'For input string: "{text}"')


def kafka_error(name: str, message: str, code: int = 0) -> Thrown:
    """Return an exception of Kafka's protocol: ``Timeout`` is a TimeoutException."""
    return Thrown(f"{_PACKAGE}.{name}Exception", message, code)


def config_error(message: str) -> Thrown:
    """Return what Java throws for a setting of a client that cannot be."""
    return Thrown("org.apache.kafka.common.config.ConfigException", message)


def refused(code: int, message: str | None = None) -> Thrown:
    """Return what a broker's error code becomes, with the broker's own words if it has any."""
    found = failure(code)
    return Thrown(f"{_PACKAGE}.{found.kind}", found.message if message is None else message, code)


def check_codes(rows: Iterable[Mapping[str, Any]], *inside: str) -> None:
    """Raise the first error of an answer's rows, inside of exceptions of some kinds.

    Raises:
        Thrown: a row has an error code.
    """
    for row in rows:
        if row["error_code"]:
            raise refused(row["error_code"], row.get("error_message")).inside(*inside)


def unless_thrown(value: T | Thrown, *inside: str) -> T:
    """Return a value; raise what was thrown instead of it, inside of exceptions of some kinds.

    Raises:
        Thrown: the value is an exception.
    """
    if isinstance(value, Thrown):
        raise value.inside(*inside)
    return value
