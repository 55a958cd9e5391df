"""Logins: the messages of every mechanism, the cell of users, and certificates.

The first byte of a login chooses a mechanism, and ``ff`` separates messages. Nobody is there, so
that whatever gets in is a bug.
"""

from typing import Any

from lakelog.catalog.users import decode_users, encode_users
from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.security import (
    MECHANISMS,
    CheckToken,
    FindKeys,
    Hash,
    SaslMachine,
    Users,
    expiry_ms,
)
from tests.fuzz.targets import Target

__all__ = ["TARGETS"]

NOBODY = Users({}, bytes(32))
BETWEEN = b"\xff"
DAY_MS = 86_400_000


def _needed(need: object) -> Any:
    match need:
        case FindKeys(user, mechanism):
            return NOBODY.best(user) if mechanism is None else NOBODY.find(user, mechanism)
        case Hash(mechanism):
            return bytes(mechanism.size)
        case CheckToken():
            return "nobody has signed it"
    raise AssertionError(need)


def _login(data: bytes) -> bool:
    """Return whether the first message was one of its mechanism."""
    mechanism = MECHANISMS[(data[0] if data else 0) % len(MECHANISMS)]
    machine = SaslMachine(MECHANISMS)
    machine.handshake(mechanism, 0)
    asked = 0
    for message in data[1:].split(BETWEEN)[:4]:
        steps = machine.authenticate(message, now_ms=0, wall_ms=0, nonce="SERVER")
        answer: Any = None
        while True:
            try:
                answer = _needed(steps.send(answer))
                asked += 1
            except StopIteration:
                break
    assert machine.user is None
    assert not machine.is_open(0)
    return asked > 0


def _users(data: bytes) -> bool:
    try:
        users, writers = decode_users(data)
    except (CorruptError, UnsupportedError):
        return False
    again, _ = decode_users(encode_users(users, writers))
    assert again.keys == users.keys
    return True


def _certificate(data: bytes) -> bool:
    try:
        assert abs(expiry_ms(data)) < 10_000 * 366 * DAY_MS
    except InvalidInputError:
        return False
    return True


TARGETS: dict[str, Target] = {
    "login": _login,
    "users-cell": _users,
    "certificate": _certificate,
}
