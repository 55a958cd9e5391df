"""Users: what is kept of their passwords, and decoys for those who are not there.

Whoever asks for a user that is not there must not learn that. So he is shown a salt and a number of
iterations that do not change from one time to the next, as those of a user do not. They look like
those of one of the users, chosen by a secret of the namespace: where some have other numbers than
others, so have those who are not there, as often.
"""

import hashlib
import hmac
import re
import stringprep
import unicodedata
from collections.abc import Mapping
from typing import TypeVar

from lakelog.errors import InvalidInputError
from lakelog.security.scram import ITERATIONS, ScramKeys, ScramMechanism

__all__ = ["USERS_MAX", "Users", "check_password", "check_user_name", "saslprep"]

USERS_MAX = 10_000
NAME_CHARS_MAX = 255
PASSWORD_CHARS_MAX = 1_024
_SALT_BYTES = 26
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
Keys = Mapping[ScramMechanism, ScramKeys]
T = TypeVar("T")


_SOMEBODY: Keys = {ScramMechanism.SHA_512: ScramKeys(b"", 0, b"", b"")}


class Users:
    """All users of a namespace."""

    __slots__ = ("_all", "_rows", "keys", "secret")

    def __init__(self, keys: Mapping[str, Keys] | None = None, secret: bytes = b"") -> None:
        self.keys: Mapping[str, Keys] = keys or {}
        """By name."""
        self.secret = secret
        """What decoys are made of."""
        self._all = [*self.keys.values(), _SOMEBODY]
        self._rows = {
            mechanism: [own[mechanism] for own in self.keys.values() if mechanism in own]
            for mechanism in ScramMechanism
        }

    def find(self, user: str, mechanism: ScramMechanism) -> tuple[ScramKeys | None, ScramKeys]:
        """Return the keys of a user for a mechanism, if there are any, and decoys."""
        decoy = self._decoy(user, mechanism)
        return self.keys.get(user, {}).get(mechanism), decoy

    def best(self, user: str) -> tuple[ScramMechanism, ScramKeys | None, ScramKeys]:
        """Return the best mechanism of a user, his keys for it, if there are any, and decoys."""
        own = self.keys.get(user) or self._like(user, self._all)
        is_best = ScramMechanism.SHA_512 in own
        mechanism = ScramMechanism.SHA_512 if is_best else ScramMechanism.SHA_256
        return mechanism, *self.find(user, mechanism)

    def _decoy(self, user: str, mechanism: ScramMechanism) -> ScramKeys:
        others = self._rows[mechanism]
        size, iterations = _SALT_BYTES, ITERATIONS
        if others:
            like = self._like(user, others)
            size, iterations = len(like.salt), like.iterations
        made = self._draw(user, f"{mechanism} salt", size)
        stored = self._draw(user, f"{mechanism} keys", 2 * mechanism.size)
        return ScramKeys(made, iterations, stored[: mechanism.size], stored[mechanism.size :])

    def _like(self, user: str, rows: list[T]) -> T:
        number = int.from_bytes(self._draw(user, "like", 8), "big")
        return rows[number % len(rows)]

    def _draw(self, user: str, what: str, size: int) -> bytes:
        key = hmac.digest(self.secret, f"{what}\0{user}".encode(errors="replace"), "sha512")
        return hashlib.shake_256(key).digest(size)


def check_user_name(name: str) -> str:
    """Return a name that a user may have.

    Raises:
        InvalidInputError: it may not.
    """
    if not 1 <= len(name) <= NAME_CHARS_MAX or _CONTROL.search(name) or saslprep(name) != name:
        raise InvalidInputError(
            f"{name[:64]!r} is no name of a user: use 1 to {NAME_CHARS_MAX} characters that"
            " SASLprep (RFC 4013) leaves as they are, letters, digits and - . _ @ for instance"
        )
    return name


def check_password(password: str) -> str:
    """Return a password that all clients send alike.

    Some prepare passwords as RFC 4013 says, and some, all of Kafka's among them, do not. So one
    that would be changed is refused.

    Raises:
        InvalidInputError: they do not, or it is too long, or empty.
    """
    if not 1 <= len(password) <= PASSWORD_CHARS_MAX or saslprep(password) != password:
        raise InvalidInputError(
            f"this is no password that all clients send alike: use 1 to {PASSWORD_CHARS_MAX}"
            " characters that SASLprep (RFC 4013) leaves as they are, those of ASCII for instance"
        )
    return password


_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
    stringprep.in_table_a1,
)


def saslprep(text: str) -> str | None:
    """Return a text as RFC 4013 prepares it; None: it is prohibited."""
    mapped = "".join(
        " " if stringprep.in_table_c12(one) else one
        for one in text
        if not stringprep.in_table_b1(one)
    )
    made = unicodedata.normalize("NFKC", mapped)
    if any(prohibited(one) for one in made for prohibited in _PROHIBITED):
        return None
    if any(map(stringprep.in_table_d1, made)):  # Written from right to left.
        ends = made[0], made[-1]
        if any(map(stringprep.in_table_d2, made)) or not all(map(stringprep.in_table_d1, ends)):
            return None
    return made
