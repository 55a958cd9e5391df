"""SASL: PLAIN and SCRAM, without a socket.

A mechanism is a generator: it yields what is to be sent and is sent what came back.
"""

import base64
import hashlib
import hmac
from collections.abc import Generator

from lakelog_kafka_tools.thrown import Thrown, kafka_error

__all__ = ["exchange", "salted"]

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS_MAX = 10_000_000
"""A broker says how often a password is hashed; more often than this would only cost time."""


def exchange(
    mechanism: str, username: str, password: str, nonce: bytes
) -> Generator[bytes, bytes, None]:
    """Return the exchange of a mechanism. ``nonce`` are bytes that were never used before.

    Raises:
        Thrown: the broker does not prove that it knows the password.
    """
    if mechanism == "PLAIN":
        yield f"\0{username}\0{password}".encode()
        return
    digest = _HASHES[mechanism]
    mine = base64.b64encode(nonce).decode()
    name = username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={mine}"
    answer = (yield f"n,,{first}".encode()).decode()
    parts = dict(part.partition("=")[::2] for part in answer.split(","))
    if not parts.get("r", "").startswith(mine) or not parts.get("i", "").isdecimal():
        raise _failed(parts.get("e", "not an answer of SCRAM"))
    iterations = int(parts["i"])
    if iterations > ITERATIONS_MAX:
        raise _failed(f"{iterations} iterations are too many")
    key = salted(mechanism, password.encode(), base64.b64decode(parts["s"]), iterations)
    client_key = hmac.digest(key, b"Client Key", digest)
    bare = f"c=biws,r={parts['r']}"
    signed = f"{first},{answer},{bare}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    last = (yield f"{bare},p={base64.b64encode(proof).decode()}".encode()).decode()
    server = hmac.digest(hmac.digest(key, b"Server Key", digest), signed, digest)
    if last != f"v={base64.b64encode(server).decode()}":
        raise _failed("the broker does not know the password")


def salted(mechanism: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Return what is kept of a password."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password, salt, iterations)


def _failed(why: str) -> Thrown:
    return kafka_error("SaslAuthentication", f"Authentication failed: {why}")
