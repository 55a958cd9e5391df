"""Logins: stories as transcripts, the vectors of RFCs, another implementation, and laws."""

import base64
import hashlib
import hmac
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import scramp
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import InvalidInputError
from lakelog.security import (
    ITERATIONS,
    MECHANISMS,
    LoginAnswer,
    LoginCode,
    SaslMachine,
    ScramKeys,
    ScramMechanism,
    Users,
    check_password,
    check_user_name,
    keys_of,
    prove,
    salt_password,
)
from lakelog.security.exchanges import FindKeys, Outcome, Say
from lakelog.security.scram import scram
from lakelog.security.users import saslprep
from tests.transcripts.replay_logins import FOLDER, drive, replay, users_of

USERS = users_of("alice=wonderland", "b,o=b=builder:SCRAM-SHA-256")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_the_story_is_as_it_is_told(path: Path) -> None:
    """``python -m tests.transcripts.replay_logins`` writes what happens; read the diff."""
    assert replay(path.read_text()) == path.read_text()


def login(
    users: Users, mechanism: str, *messages: bytes, nonce: str = "SERVER"
) -> list[LoginAnswer]:
    machine = SaslMachine(MECHANISMS)
    told = [machine.handshake(mechanism, 0)]
    for message in messages:
        steps = machine.authenticate(message, now_ms=0, wall_ms=0, nonce=nonce)
        told.append(drive(users, steps))
    return told


# ---------------------------------------------------------------------------- vectors


def test_the_example_of_rfc_7677() -> None:
    """SCRAM-SHA-256: user, pencil."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    mechanism = ScramMechanism.SHA_256
    keys = keys_of(mechanism, salt_password(mechanism, b"pencil", salt, 4096), salt, 4096)
    first = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    exchange = scram(mechanism, first, nonce)
    assert next(exchange) == FindKeys("user", mechanism)
    assert exchange.send((keys, keys)) == Say(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    with pytest.raises(StopIteration) as end:
        exchange.send(
            b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        )
    verifier = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert end.value.value == Outcome(user="user", last=verifier)


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
@pytest.mark.parametrize("user", ["alice", "b,o=b"])
def test_another_implementation_logs_in(mechanism: ScramMechanism, user: str) -> None:
    users = users_of(f"{user.replace('=', '~')}=secret")
    users = Users({user: next(iter(users.keys.values()))}, b"x")
    client = scramp.ScramClient([str(mechanism)], user, "secret")
    machine = SaslMachine(MECHANISMS)
    machine.handshake(mechanism, 0)
    first = machine.authenticate(
        client.get_client_first().encode(), now_ms=0, wall_ms=0, nonce="SERVERNONCE"
    )
    client.set_server_first(drive(users, first).data.decode())
    final = client.get_client_final().encode()
    last = drive(users, machine.authenticate(final, now_ms=0, wall_ms=0, nonce=""))
    assert last.is_login
    client.set_server_final(last.data.decode())  # It raises if the signature is wrong.


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_we_log_in_at_another_implementation(mechanism: ScramMechanism) -> None:
    kind = scramp.ScramMechanism(str(mechanism))
    salt, stored_key, server_key, iterations = kind.make_auth_info(
        "secret", iteration_count=4096, salt=b"0123456789abcdef"
    )
    server = kind.make_server(lambda _: (salt, stored_key, server_key, iterations))
    steps = prove(mechanism, "alice", "secret", "NONCE")
    server.set_client_first(next(steps).decode())
    server.set_client_final(steps.send(server.get_server_first().encode()).decode())
    with pytest.raises(StopIteration) as end:
        steps.send(server.get_server_final().encode())
    assert end.value.value is True
    salted = salt_password(mechanism, b"secret", salt, iterations)
    ours = keys_of(mechanism, salted, salt, iterations)
    assert (ours.stored_key, ours.server_key) == (stored_key, server_key)


def test_a_client_does_not_believe_a_broker_that_does_not_know_the_password() -> None:
    steps = prove(ScramMechanism.SHA_512, "alice", "wonderland", "NONCE")
    answers = [b"r=NONCEx,s=c2FsdA==,i=4096", b"v=AAAA"]
    next(steps)
    steps.send(answers[0])
    with pytest.raises(StopIteration) as end:
        steps.send(answers[1])
    assert end.value.value is False


# ---------------------------------------------------------------------------- who is there


def shown(users: Users, user: str, mechanism: ScramMechanism) -> tuple[int, int]:
    keys, decoy = users.find(user, mechanism)
    one = keys or decoy
    return len(one.salt), one.iterations


def test_who_is_not_there_looks_like_somebody_who_is() -> None:
    """Where users have different numbers, so have those who are not there, and always the same."""
    mechanism = ScramMechanism.SHA_512
    keys = {
        f"u{at}": {mechanism: ScramKeys(bytes(10 + at % 3), 4096 << (at % 3), b"", b"")}
        for at in range(30)
    }
    users = Users(keys, b"secret")
    there = {shown(users, name, mechanism) for name in keys}
    nobody = [f"nobody{at}" for at in range(300)]
    looks = [shown(users, name, mechanism) for name in nobody]
    assert set(looks) == there
    assert min(looks.count(look) for look in there) > 50
    again = Users(keys, b"secret")
    assert [users.find(name, mechanism) for name in nobody] == [
        again.find(name, mechanism) for name in nobody
    ]
    other = Users(keys, b"another secret")
    assert users.find("nobody", mechanism) != other.find("nobody", mechanism)


def test_without_users_nobody_looks_like_a_new_one() -> None:
    keys, decoy = Users().find("nobody", ScramMechanism.SHA_512)
    assert keys is None
    assert decoy.iterations == ITERATIONS
    assert decoy.fits(ScramMechanism.SHA_512)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_the_same_is_asked_for_whether_a_user_is_there_or_not(mechanism: str) -> None:
    """The same work, in the same order, and the same words at the end."""
    asked, told = [], []
    for name in ("alice", "mallory"):
        machine = SaslMachine(MECHANISMS)
        machine.handshake(mechanism, 0)
        needs: list[str] = []
        first = f"\0{name}\0wrong" if mechanism == "PLAIN" else f"n,,n={name},r=abc"
        messages = [first.encode()]
        if mechanism != "PLAIN":
            proof = base64.b64encode(bytes(64)).decode()
            messages.append(f"c=biws,r=abcSERVER,p={proof}".encode())
        answer = LoginAnswer()
        for message in messages:
            steps = machine.authenticate(message, now_ms=0, wall_ms=0, nonce="SERVER")
            answer = drive(USERS, noting(steps, needs))
        asked.append(needs)
        told.append((answer.code, answer.message, answer.data, answer.session_ms))
    assert asked[0] == asked[1]
    assert told[0] == told[1]


def noting(
    steps: Generator[Any, Any, LoginAnswer], needs: list[str]
) -> Generator[Any, Any, LoginAnswer]:
    answer: Any = None
    while True:
        try:
            need = steps.send(answer)
        except StopIteration as end:
            told: LoginAnswer = end.value
            return told
        needs.append(f"{type(need).__name__} {getattr(need, 'iterations', '')}")
        answer = yield need


# ---------------------------------------------------------------------------- laws


@given(
    mechanism=st.sampled_from(MECHANISMS), messages=st.lists(st.binary(max_size=200), max_size=4)
)
def test_noise_never_logs_in_and_never_breaks_anything(
    mechanism: str, messages: list[bytes]
) -> None:
    for told in login(USERS, mechanism, *messages)[1:]:
        assert not told.is_login


GOOD = b"n,,n=alice,r=abc"


@given(data=st.data())
def test_a_login_that_was_changed_on_its_way_fails(data: st.DataObject) -> None:
    """Any byte of either message: proof, nonce, binding, name."""
    which, mechanism = data.draw(st.integers(0, 1)), ScramMechanism.SHA_512
    machine = SaslMachine(MECHANISMS)
    machine.handshake(mechanism, 0)
    proving = prove(mechanism, "alice", "wonderland", "abc")
    first = next(proving)
    sent = changed(first, data) if which == 0 else first
    told = drive(USERS, machine.authenticate(sent, now_ms=0, wall_ms=0, nonce="SERVER"))
    if told.is_end:
        return
    try:
        final = proving.send(told.data)
    except StopIteration:
        return  # The client does not go on.
    final = changed(final, data) if which == 1 else final
    last = drive(USERS, machine.authenticate(final, now_ms=0, wall_ms=0, nonce=""))
    assert not last.is_login


def changed(message: bytes, data: st.DataObject) -> bytes:
    at = data.draw(st.integers(0, len(message) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda one: one != message[at]))
    return message[:at] + bytes([byte]) + message[at + 1 :]


@given(data=st.data(), size=st.sampled_from([0, 1, 63, 65, 128]))
def test_a_proof_of_another_size_fails(data: st.DataObject, size: int) -> None:
    proof = base64.b64encode(data.draw(st.binary(min_size=size, max_size=size))).decode()
    told = login(USERS, "SCRAM-SHA-512", GOOD, f"c=biws,r=abcSERVER,p={proof}".encode())
    assert told[-1].code is LoginCode.FAILED


def test_a_proof_cannot_be_made_of_what_is_kept() -> None:
    """Whoever reads the keys of a user still cannot log in: the client key is not among them."""
    mechanism = ScramMechanism.SHA_512
    keys, _ = USERS.find("alice", mechanism)
    assert keys is not None
    machine = SaslMachine(MECHANISMS)
    machine.handshake(mechanism, 0)
    told = drive(USERS, machine.authenticate(GOOD, now_ms=0, wall_ms=0, nonce="SERVER"))
    unproved = "c=biws,r=abcSERVER"
    signed = f"n=alice,r=abc,{told.data.decode()},{unproved}".encode()
    signature = hmac.digest(keys.stored_key, signed, "sha512")
    for guess in (keys.stored_key, keys.server_key, hashlib.sha512(keys.stored_key).digest()):
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(guess, signature, strict=True)))
        told_ = login(USERS, mechanism, GOOD, f"{unproved},p={proof.decode()}".encode())
        assert told_[-1].code is LoginCode.FAILED


def test_nothing_secret_is_in_a_repr() -> None:
    keys, decoy = USERS.find("alice", ScramMechanism.SHA_512)
    assert keys is not None
    for text in (repr(keys), repr(USERS), repr(decoy)):
        assert "stored_key" not in text
        assert "wonderland" not in text


# ---------------------------------------------------------------------------- names and passwords


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("\u0007", None),
        ("\u0627\u0031", None),
        ("a\u00a0b", "a b"),
    ],
    ids=ascii,
)
def test_the_examples_of_rfc_4013(text: str, prepared: str | None) -> None:
    assert saslprep(text) == prepared


@given(text=st.text(min_size=1, max_size=20))
def test_what_is_taken_as_a_password_is_prepared_already(text: str) -> None:
    """So those clients that prepare passwords and those that do not send the same."""
    try:
        check_password(text)
    except InvalidInputError:
        assert saslprep(text) != text
    else:
        assert scramp.core.saslprep(text) == text


@pytest.mark.parametrize("name", ["", "a\0b", "a\n", "x" * 256, "I\u00adX"], ids=ascii)
def test_what_no_user_may_be_called(name: str) -> None:
    with pytest.raises(InvalidInputError, match="no name of a user"):
        check_user_name(name)
