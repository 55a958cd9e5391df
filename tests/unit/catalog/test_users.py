"""Users are one cell: keys, and no passwords; changed all at once, also when answers get lost."""

import json

import pytest

from lakelog.catalog import UserChange, change_users, read_users
from lakelog.catalog.users import decode_users, encode_users
from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.names import USERS_KEY
from lakelog.security import USERS_MAX, ScramKeys, ScramMechanism, Users
from lakelog.store import PutIfAbsent, PutIfMatch
from tests.unit.log.site import Site, lose_answer

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
SECRET = bytes(32)
KEYS = ScramKeys(b"salt", 8192, bytes(64), bytes(64))
KEYS_256 = ScramKeys(b"salt", 4096, bytes(32), bytes(32))
A, B = bytes(15) + b"1", bytes(15) + b"2"


@pytest.fixture
def site() -> Site:
    return Site()


def put(name: str, keys: ScramKeys | None = KEYS, kind: ScramMechanism = SHA_512) -> UserChange:
    return UserChange(name, kind, keys)


def change(site: Site, *changes: UserChange, write: bytes = A, secret: bytes = SECRET) -> Users:
    found: Users = site.run(change_users(changes, write=write, secret=secret))
    return found


def test_without_a_cell_there_are_no_users(site: Site) -> None:
    assert site.run(read_users()).keys == {}


def test_users_come_change_and_go(site: Site) -> None:
    change(site, put("alice"), put("alice", KEYS_256, SHA_256), put("bob"))
    assert site.run(read_users()).keys == {
        "alice": {SHA_512: KEYS, SHA_256: KEYS_256},
        "bob": {SHA_512: KEYS},
    }
    other = KEYS._replace(iterations=16_384)
    found = change(site, put("bob", None), put("alice", other), write=B)
    assert found.keys == {"alice": {SHA_512: other, SHA_256: KEYS_256}}
    assert site.run(read_users()).keys == found.keys


def test_the_secret_that_decoys_are_made_of_stays(site: Site) -> None:
    before = change(site, put("alice")).find("nobody", SHA_512)
    after = change(site, put("bob"), write=B, secret=b"x" * 32).find("nobody", SHA_512)
    assert before == after


@pytest.mark.parametrize("kind", [PutIfAbsent, PutIfMatch])
def test_a_lost_answer_does_no_harm(site: Site, kind: type) -> None:
    if kind is PutIfMatch:
        change(site, put("bob"))
    changes = (put("alice"),)
    site.run(change_users(changes, write=B, secret=SECRET), lose_answer(site, kind, USERS_KEY))
    assert "alice" in site.run(read_users()).keys


@pytest.mark.parametrize(
    "changed",
    [
        put("a\nb"),
        put("alice", KEYS._replace(iterations=4_095)),
        put("alice", KEYS._replace(iterations=16_385)),
        put("alice", KEYS._replace(salt=b"")),
        put("alice", KEYS._replace(salt=bytes(1_025))),
        put("alice", KEYS_256),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(site: Site, changed: UserChange) -> None:
    with pytest.raises(InvalidInputError):
        change(site, put("bob"), changed)
    assert site.run(read_users()).keys == {}


def test_there_are_not_more_users_than_a_cell_holds(site: Site) -> None:
    changes = tuple(put(f"user{at}") for at in range(USERS_MAX))
    change(site, *changes)
    with pytest.raises(InvalidInputError, match="at most"):
        change(site, put("one more"), write=B)
    assert len(site.run(read_users()).keys) == USERS_MAX


GOOD = json.loads(encode_users(Users({"alice": {SHA_512: KEYS}}, SECRET), ("w",)))
ROW = GOOD["users"]["alice"]["SCRAM-SHA-512"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {**GOOD, "secret": ""},
        {**GOOD, "secret": "?"},
        {**GOOD, "users": []},
        {**GOOD, "users": {"": GOOD["users"]["alice"]}},
        {**GOOD, "users": {"alice": {"SCRAM-SHA-1": ROW}}},
        {**GOOD, "users": {"alice": {"SCRAM-SHA-512": ROW[:3]}}},
        {**GOOD, "users": {"alice": {"SCRAM-SHA-256": ROW}}},
        {**GOOD, "users": {"alice": {"SCRAM-SHA-512": [ROW[0], 1, *ROW[2:]]}}},
        {**GOOD, "users": {"alice": {"SCRAM-SHA-512": [ROW[0], True, *ROW[2:]]}}},
    ],
)
def test_what_is_no_cell_of_users_is_not_taken_for_one(fields: object) -> None:
    with pytest.raises(CorruptError):
        decode_users(json.dumps(fields).encode())


@pytest.mark.parametrize("fields", [{**GOOD, "format": 2}, {**GOOD, "more": 1}])
def test_what_a_later_version_made_is_refused(fields: object) -> None:
    with pytest.raises(UnsupportedError):
        decode_users(json.dumps(fields).encode())
