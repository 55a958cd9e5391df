"""Errors: what they say, what a caller can rely on, and that they survive a trip by pickle."""

import pickle

import pytest

from lakelog import errors
from lakelog.errors import (
    ConflictError,
    CorruptError,
    FencedError,
    InvalidInputError,
    LakelogError,
    NotFoundError,
    TooLargeError,
    UnavailableError,
    UnsupportedError,
)

byte_errors = pytest.mark.parametrize("kind", [CorruptError, UnsupportedError])


@byte_errors
def test_an_error_about_bytes_says_where_and_what(
    kind: type[CorruptError | UnsupportedError],
) -> None:
    error = kind("no such magic", at=16, where="00000000000000000000.log")
    assert str(error) == "00000000000000000000.log at byte 16: no such magic"
    assert (error.what, error.at, error.where) == ("no such magic", 16, "00000000000000000000.log")
    assert str(kind("no such magic", at=0)) == "input at byte 0: no such magic"


@byte_errors
def test_an_error_about_bytes_needs_its_position(
    kind: type[CorruptError | UnsupportedError],
) -> None:
    with pytest.raises(TypeError):
        kind("no such magic")  # type: ignore[call-arg]


@byte_errors
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_about_bytes_survives_pickle(
    kind: type[CorruptError | UnsupportedError], protocol: int
) -> None:
    """Spark pickles what a worker raises."""
    error = kind("CRC-32C is 1", at=1 << 40, where=".kfs")
    found = pickle.loads(pickle.dumps(error, protocol))
    assert type(found) is kind
    assert str(found) == str(error)
    assert (found.what, found.at, found.where) == (error.what, error.at, error.where)


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name.endswith("Error")])
def test_every_error_survives_pickle(name: str) -> None:
    kind: type[LakelogError] = getattr(errors, name)
    about_bytes = {"at": 7} if kind in (CorruptError, UnsupportedError) else {}
    error = kind("say why", **about_bytes)
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is kind
    assert str(found) == str(error)
    assert "say why" in str(found)


@pytest.mark.parametrize(
    ("kind", "retryable"),
    [
        (LakelogError, False),
        (InvalidInputError, False),
        (TooLargeError, False),
        (UnsupportedError, False),
        (CorruptError, False),
        (NotFoundError, False),
        (ConflictError, True),
        (FencedError, False),
        (UnavailableError, True),
    ],
)
def test_whether_to_try_again(kind: type[LakelogError], retryable: bool) -> None:
    assert kind.retryable is retryable


def test_every_error_says_whether_to_try_again() -> None:
    kinds = {getattr(errors, name) for name in errors.__all__}
    assert {kind for kind in kinds if kind.retryable} == {ConflictError, UnavailableError}


def test_a_missing_thing_is_named_in_a_sentence() -> None:
    """A KeyError would show the quotes of its argument."""
    assert str(NotFoundError("there is no topic 'orders'")) == "there is no topic 'orders'"
    assert str(NotFoundError()) == ""


def test_errors_are_also_what_python_programs_expect() -> None:
    assert issubclass(InvalidInputError, ValueError)
    assert issubclass(NotFoundError, KeyError)
    # A lost answer must not be mistaken for a full disk or a closed socket.
    assert not issubclass(UnavailableError, OSError)


def test_being_fenced_is_a_conflict_that_is_not_retried() -> None:
    with pytest.raises(ConflictError) as caught:
        raise FencedError("another owner")
    assert not caught.value.retryable


def test_an_object_that_is_too_large_is_a_wrong_call_that_may_be_split() -> None:
    """Who can split it catches the one, who cannot treats it as any call that is refused."""
    with pytest.raises(InvalidInputError) as caught:
        raise TooLargeError("17 MiB: the store takes 16: split it")
    assert not caught.value.retryable
    assert not issubclass(TooLargeError, UnavailableError)
