"""PLAIN (RFC 4616): a name and a password, on listeners that have TLS.

    message => [authzid] NUL name NUL password

The password is salted as SCRAM does it and compared with what is kept for SCRAM, so that there is
one list of users. That of an unknown user is salted, too, and compared with what nothing fits.
"""

import hmac

from lakelog.security.exchanges import Exchange, FindKeys, Hash, Outcome
from lakelog.security.scram import ScramKeys, keys_of

__all__ = ["plain"]

PASSWORD_BYTES_MAX = 1 << 12


def plain(message: bytes) -> Exchange:
    """Return a login by name and password."""
    try:
        authzid, name, password = message.decode().split("\0")
    except ValueError:
        return Outcome(why="the message is not PLAIN's")
    if not name or not password or len(password.encode()) > PASSWORD_BYTES_MAX:
        return Outcome(user=name, why="the message has no name, or no password that could be one")
    if authzid not in ("", name):
        return Outcome(user=name, why="one user cannot act as another")
    keys: ScramKeys | None
    mechanism, keys, decoy = yield FindKeys(name)
    shown = keys or decoy
    salted = yield Hash(mechanism, password.encode(), shown.salt, shown.iterations)
    made = keys_of(mechanism, salted, shown.salt, shown.iterations)
    is_right = hmac.compare_digest(made.stored_key, shown.stored_key)
    if keys is None:
        return Outcome(user=name, why="there is no such user")
    return Outcome(user=name) if is_right else Outcome(user=name, why="the password is wrong")
