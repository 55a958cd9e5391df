"""What a login asks for while it goes on, and how it ends.

A mechanism is a generator: it begins with a client's message, yields what it needs, and returns an
outcome. Nothing in it waits or looks anything up: whoever drives it does.

    Say(data)                    send it, and send back the client's next message
    FindKeys(user, mechanism)    send back the keys of a user, or None, and decoys that look like it
    Hash(...)                    send back a salted password, computed in a thread
    CheckToken(token)            send back a ``Token``, or a sentence on what is wrong with it
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from lakelog.security.scram import ScramMechanism

__all__ = ["CheckToken", "Exchange", "FindKeys", "Hash", "Need", "Outcome", "Say", "Token"]


class Say(NamedTuple):
    """Something that the client is to be sent."""

    data: bytes
    why: str = ""
    """Why the login fails, if it does: it goes on so that the client can hear of it."""


class FindKeys(NamedTuple):
    """Keys of a user; of no mechanism: of the best that he has."""

    user: str
    mechanism: "ScramMechanism | None" = None


class Hash(NamedTuple):
    """A password that is to be salted."""

    mechanism: "ScramMechanism"
    password: bytes
    salt: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"Hash(iterations={self.iterations})"


class CheckToken(NamedTuple):
    """A token that somebody else has signed."""

    text: str

    def __repr__(self) -> str:
        return f"CheckToken({len(self.text)} characters)"


class Token(NamedTuple):
    """What a token says that is good."""

    user: str
    expires_ms: int


class Outcome(NamedTuple):
    """How a login ended."""

    user: str = ""
    """Who it is; or, if it failed, who it said it was."""
    why: str = ""
    """What was wrong, for the operator: the client is not told. Nothing: it succeeded."""
    last: bytes = b""
    """What the client is sent at the end."""
    expires_ms: int | None = None
    """When what it has shown ends to be good, by the wall clock."""


Need = Say | FindKeys | Hash | CheckToken
Exchange = Generator[Need, Any, Outcome]
