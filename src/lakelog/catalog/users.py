"""Users: one cell in the bucket, which has what SCRAM keeps of passwords, and no password.

    {"format": 1, "secret": "…", "writers": ["…"],
     "users": {"alice": {"SCRAM-SHA-512": [salt, iterations, stored key, server key]}}}

Bytes are in base 64. ``secret`` is what decoys are made of: it is drawn when the cell is made and
stays, so that who is not there looks the same to all brokers, always. Whoever may read the bucket
can try passwords against these keys, as fast as their iterations let him.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from lakelog.errors import CorruptError, InvalidInputError
from lakelog.formats import Bytes, decode_fields, decoding, number
from lakelog.names import USERS_KEY
from lakelog.security import USERS_MAX, ScramKeys, ScramMechanism, Users, check_user_name
from lakelog.store import Work, change_cell, read_cell

__all__ = ["UserChange", "change_users", "decode_users", "encode_users", "read_users"]

FORMAT = 1
SECRET_BYTES = 32
WRITERS_MAX = 8
_FIELDS = frozenset({"format", "secret", "writers", "users"})


class UserChange(NamedTuple):
    """What becomes of one user for one mechanism."""

    user: str
    mechanism: ScramMechanism
    keys: ScramKeys | None
    """None: none any more."""


def read_users() -> Work[Users]:
    """Return all users.

    Raises:
        CorruptError: the cell cannot be read.
        UnsupportedError: a later version made it.
    """
    cell = yield from read_cell(USERS_KEY)
    return Users() if cell is None else decode_users(cell.body)[0]


def change_users(changes: tuple[UserChange, ...], *, write: bytes, secret: bytes) -> Work[Users]:
    """Change users, all at once, and return how they are then.

    ``write`` names this change, and ``secret`` is kept if there is none yet.

    Raises:
        InvalidInputError: a name, or keys, cannot be; or there would be too many.
    """
    for change in changes:
        if change.keys is not None:
            check_user_name(change.user)
            if not change.keys.fits(change.mechanism):
                raise InvalidInputError(
                    f"keys of {change.user!r} are not those of {change.mechanism}, or have too few"
                    " iterations, or too many: use 4096 to 16384"
                )
    mine = write.hex()

    def altered(body: bytes | None) -> bytes:
        old, writers = (Users(), ()) if body is None else decode_users(body)
        keys = _changed(old.keys, changes)
        if len(keys) > USERS_MAX:
            raise InvalidInputError(f"there would be {len(keys)} users: use {USERS_MAX} at most")
        return encode_users(Users(keys, old.secret or secret), (*writers, mine))

    body = yield from change_cell(USERS_KEY, altered, lambda body: mine in decode_users(body)[1])
    assert body is not None
    return decode_users(body)[0]


def _changed(
    old: Mapping[str, Mapping[ScramMechanism, ScramKeys]], changes: tuple[UserChange, ...]
) -> dict[str, dict[ScramMechanism, ScramKeys]]:
    keys = {user: dict(own) for user, own in old.items()}
    for user, mechanism, new in changes:
        own = keys.setdefault(user, {})
        if new is None:
            own.pop(mechanism, None)
        else:
            own[mechanism] = new
        if not own:
            del keys[user]
    return keys


def encode_users(users: Users, writers: tuple[str, ...]) -> bytes:
    """Return the cell of users."""
    fields = {
        "format": FORMAT,
        "secret": _text(users.secret),
        "writers": writers[-WRITERS_MAX:],
        "users": {
            user: {
                str(mechanism): [
                    _text(one.salt), one.iterations, _text(one.stored_key), _text(one.server_key),
                ]
                for mechanism, one in sorted(own.items())
            }
            for user, own in sorted(users.keys.items())
        },
    }  # fmt: skip
    return json.dumps(fields).encode()


def decode_users(data: Bytes) -> tuple[Users, tuple[str, ...]]:
    """Return the users in a cell, and who wrote it last.

    Raises:
        CorruptError: it is none of users.
        UnsupportedError: a later version made it.
    """
    with decoding("users", USERS_KEY):
        fields = decode_fields(data, format_=FORMAT, where=USERS_KEY, known=_FIELDS)
        keys = {
            check_user_name(str(user)): {
                ScramMechanism(kind): _keys(row) for kind, row in own.items()
            }
            for user, own in fields["users"].items()
        }
        users = Users(keys, _bytes(fields["secret"]))
        writers = tuple(map(str, fields["writers"]))
    for user, own in keys.items():
        if not all(one.fits(kind) for kind, one in own.items()):
            raise CorruptError(f"keys of {user!r} cannot be", at=0, where=USERS_KEY)
    if len(users.secret) != SECRET_BYTES:
        raise CorruptError("it has no secret", at=0, where=USERS_KEY)
    return users, writers


def _keys(row: list[Any]) -> ScramKeys:
    salt, iterations, stored_key, server_key = row
    return ScramKeys(_bytes(salt), number(iterations), _bytes(stored_key), _bytes(server_key))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
