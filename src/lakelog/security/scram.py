"""SCRAM (RFC 5802, 7677): what is kept of a password, and a login by it, as both sides see it.

    client                                            server
      | -- n,,n=alice,r=C ------------------------------> |  asks for the keys of alice
      | <------------- r=CS,s=salt,i=iterations --------  |
      | -- c=biws,r=CS,p=proof -------------------------> |  the proof fits the stored key?
      | <------------------------------ v=signature ----  |

    salted     = PBKDF2(password, salt, iterations)
    client key = HMAC(salted, "Client Key")       stored key = H(client key)
    server key = HMAC(salted, "Server Key")

Salt, stored key and server key are kept. With them nobody can log in; but whoever reads them can
try passwords, as fast as the iterations let him. An unknown user is asked to prove what nobody can
prove (``users``): it takes as much work, and ends in the same words.

The whole nonce is compared, and the other name that a client may ask to act as must be its own:
CVE-2024-56128 and CVE-2017-12610 are what became of leaving that out.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Generator
from enum import StrEnum
from typing import NamedTuple

from lakelog.security.exchanges import Exchange, FindKeys, Outcome, Say

__all__ = [
    "ITERATIONS",
    "ITERATIONS_MAX",
    "ITERATIONS_MIN",
    "ScramKeys",
    "ScramMechanism",
    "keys_of",
    "prove",
    "salt_password",
    "scram",
]

ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 16_384
"""As in Kafka."""

ITERATIONS = 16_384
"""What new users have. Kafka's own tool takes 4096; a client computes this in ten milliseconds."""

SALT_BYTES_MAX = 1 << 10
NONCE_CHARS_MAX = 1 << 10
_FIRST = re.compile(r"([^,]*),(a=[^,]*)?,(n=([^,]*),r=([^,]+)(?:,.*)?)")
_FINAL = re.compile(r"(c=([^,]*),r=([^,]*)(?:,[^,]+)*?),p=([^,]*)")
_PRINTABLE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_NAME = re.compile(r"(?:[^=]|=2C|=3D)*")


class ScramMechanism(StrEnum):
    """Which hash; the numbers are Kafka's."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def digest(self) -> str:
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def size(self) -> int:
        return 32 if self is ScramMechanism.SHA_256 else 64

    @property
    def number(self) -> int:
        return 1 if self is ScramMechanism.SHA_256 else 2

    @classmethod
    def of(cls, number: int) -> "ScramMechanism | None":
        """Return the one of Kafka's number; None: there is none."""
        return next((one for one in cls if one.number == number), None)


class ScramKeys(NamedTuple):
    """What is kept of a password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ScramKeys(iterations={self.iterations})"

    def fits(self, mechanism: ScramMechanism) -> bool:
        """Say whether it can be what is kept for a mechanism."""
        return (
            1 <= len(self.salt) <= SALT_BYTES_MAX
            and ITERATIONS_MIN <= self.iterations <= ITERATIONS_MAX
            and len(self.stored_key) == len(self.server_key) == mechanism.size
        )


def salt_password(
    mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int
) -> bytes:
    """Return a salted password. It takes milliseconds: use a thread."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password, salt, iterations)


def keys_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramKeys:
    """Return what is kept of a salted password."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    stored_key = hashlib.new(mechanism.digest, client_key).digest()
    server_key = hmac.digest(salted, b"Server Key", mechanism.digest)
    return ScramKeys(salt, iterations, stored_key, server_key)


# ---------------------------------------------------------------------------- the server's side


def scram(mechanism: ScramMechanism, first: bytes, nonce: str) -> Exchange:
    """Return a login that begins with a client's message. ``nonce`` was never used before."""
    text = _text(first)
    found = _FIRST.fullmatch(text)
    if found is None:
        return Outcome(why="the first message is not SCRAM's")
    flag, authzid, bare, name, theirs = found.groups()
    user = _user(name)
    if flag not in ("n", "y"):
        return Outcome(user=user, why="channel binding is not offered")
    if not user or len(theirs) > NONCE_CHARS_MAX or not _PRINTABLE.fullmatch(theirs):
        return Outcome(user=user, why="the first message has no name, or no nonce")
    if authzid is not None and _user(authzid[2:]) not in ("", user):
        return Outcome(user=user, why="one user cannot act as another")
    if ",tokenauth=true" in bare:
        return Outcome(user=user, why="there are no delegation tokens")
    keys: ScramKeys | None
    keys, decoy = yield FindKeys(user, mechanism)
    shown = keys or decoy
    whole = theirs + nonce
    salt = base64.b64encode(shown.salt).decode()
    question = f"r={whole},s={salt},i={shown.iterations}"
    final = _text((yield Say(question.encode())))
    found = _FINAL.fullmatch(final)
    if found is None:
        return Outcome(user=user, why="the last message is not SCRAM's")
    unproved, binding, told, proof = found.groups()
    header = f"{flag},{authzid or ''},".encode()
    is_bound = hmac.compare_digest(_bytes(binding), header)
    is_whole = hmac.compare_digest(told.encode(), whole.encode())
    signed = f"{bare},{question},{unproved}".encode()
    signature = hmac.digest(shown.stored_key, signed, mechanism.digest)
    given = _bytes(proof)
    client_key = bytes(a ^ b for a, b in zip(given, signature, strict=False))
    stored_key = hashlib.new(mechanism.digest, client_key).digest()
    is_proved = hmac.compare_digest(stored_key, shown.stored_key)
    if keys is None:
        return Outcome(user=user, why="there is no such user, or not with this mechanism")
    if not (is_bound and is_whole):
        return Outcome(user=user, why="the last message does not go with the first one")
    if len(given) != mechanism.size or not is_proved:
        return Outcome(user=user, why="the password is wrong")
    verifier = hmac.digest(keys.server_key, signed, mechanism.digest)
    return Outcome(user=user, last=b"v=" + base64.b64encode(verifier))


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""


def _bytes(text: str) -> bytes:
    """Return what was written in base 64, if it was in the one way that there is; else nothing."""
    try:
        made = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
    return made if base64.b64encode(made) == text.encode() else b""


def _user(name: str) -> str:
    """Return a name as it is meant; nothing: it cannot be read."""
    if not _NAME.fullmatch(name):
        return ""
    return name.replace("=2C", ",").replace("=3D", "=")


# ---------------------------------------------------------------------------- the client's side


def prove(
    mechanism: ScramMechanism, user: str, password: str, nonce: str
) -> Generator[bytes, bytes, bool]:
    """Log in: yield what is to be sent, be sent what came back; False: they do not know us, or
    are not whom they say.
    """
    name = user.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={name},r={nonce}"
    question = _text((yield f"n,,{bare}".encode()))
    found = re.fullmatch(r"r=([^,]+),s=([^,]+),i=(\d{1,9})(?:,.*)?", question)
    if found is None or not found[1].startswith(nonce) or found[1] == nonce:
        return False
    salt, iterations = _bytes(found[2]), int(found[3])
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        return False
    salted = salt_password(mechanism, password.encode(), salt, iterations)
    keys = keys_of(mechanism, salted, salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    unproved = f"c=biws,r={found[1]}"
    signed = f"{bare},{question},{unproved}".encode()
    signature = hmac.digest(keys.stored_key, signed, mechanism.digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    last = yield f"{unproved},p={base64.b64encode(proof).decode()}".encode()
    expected = hmac.digest(keys.server_key, signed, mechanism.digest)
    return hmac.compare_digest(last, b"v=" + base64.b64encode(expected))
