"""SCRAM is that of RFC 7677, by the example in it."""

import base64

import pytest

from lakelog_kafka_tools.sasl import exchange
from lakelog_kafka_tools.thrown import Thrown

_NONCE = base64.b64decode("rOprNGfwEbeRWgbNEkqO")
_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def test_plain_is_one_message() -> None:
    assert list(exchange("PLAIN", "ann", "secret", b"")) == [b"\0ann\0secret"]


def test_scram_as_the_rfc_has_it() -> None:
    steps = exchange("SCRAM-SHA-256", "user", "pencil", _NONCE)

    assert next(steps) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert steps.send(_FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    with pytest.raises(StopIteration):
        steps.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_a_broker_that_does_not_know_the_password_is_not_believed() -> None:
    steps = exchange("SCRAM-SHA-256", "user", "pencil", _NONCE)
    next(steps)
    steps.send(_FIRST)

    with pytest.raises(Thrown, match="does not know the password"):
        steps.send(b"v=AAAA")


@pytest.mark.parametrize(
    "answer", [b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", b"e=other-error", _FIRST + b"0000000"]
)
def test_an_answer_that_asks_for_too_much_is_refused(answer: bytes) -> None:
    steps = exchange("SCRAM-SHA-256", "user", "pencil", _NONCE)
    next(steps)

    with pytest.raises(Thrown):
        steps.send(answer)
