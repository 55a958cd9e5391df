"""Putting an object under a name of one's own: asked for again, later each time, and not for ever.

    put_answered   until the store says Created or Exists
    put_named      the same, for a name that only this write can have: either answer is good
    put_advisory   for what readers can do without: it never fails what it belongs to

A put without an answer may be stored, so the same bytes are put again. A store that does not answer
time and again ends in UnavailableError, so that whoever gave the work (Spark, the next pass of
maintenance, a person) can give it again. A refusal (InvalidInputError, TooLargeError) ends at once:
another attempt would be refused, too.

Pauses grow and have jitter. Here it is drawn from what is put and not from a generator: names have
random ids in them, so that processes that failed together do not come back together, and a flow
stays a function of what it is given.
"""

from typing import NamedTuple

from crc32c import crc32c

from lakelog.errors import LakelogError, UnavailableError
from lakelog.store.asking import put_if_absent
from lakelog.store.operations import Body, Created, Exists, Wait, Work
from lakelog.store.retry import RetryPolicy

__all__ = ["SOON", "Put", "Unanswered", "put_advisory", "put_answered", "put_named"]

PUTS = RetryPolicy(attempts_max=10)
"""About 16 seconds of pauses, 33 at most."""

SOON = RetryPolicy(attempts_max=5)
"""A second and a half of pauses at most: for what is late is worth little, or is due again."""

ADVICE = RetryPolicy(attempts_max=3)


class Put(NamedTuple):
    """What the store said in the end."""

    answer: Created | Exists
    is_sure: bool
    """Whether an ``Exists`` is certain to be somebody else's: no earlier answer was lost."""


class Unanswered:
    """Counts the attempts of a write that had no answer, and says how long to wait after each."""

    def __init__(self, seed: bytes, policy: RetryPolicy = PUTS) -> None:
        self._seed, self._policy = crc32c(seed), policy
        self.count = 0

    def wait(self, error: UnavailableError) -> Work[None]:
        """Wait until the next attempt may be made.

        Raises:
            UnavailableError: there were enough.
        """
        attempt = self.count
        self.count += 1
        if self.count == self._policy.attempts_max:
            raise UnavailableError(
                f"{error} ({self.count} attempts; whether one was stored is unknown)"
            ) from error
        draw = crc32c(b"%d" % attempt, self._seed) / (1 << 32)
        yield Wait(round(1000 * self._policy.delay_s(attempt, lambda: draw)))


def put_answered(key: str, body: Body, policy: RetryPolicy = PUTS) -> Work[Put]:
    """Create an object unless there is one; ask until there is an answer.

    Raises:
        UnavailableError: there was none, time and again; it may be stored.
    """
    unanswered = Unanswered(key.encode(), policy)
    while True:
        try:
            answer = yield from put_if_absent(key, body)
            return Put(answer, is_sure=not unanswered.count)
        except UnavailableError as error:
            yield from unanswered.wait(error)


def put_named(key: str, body: Body, policy: RetryPolicy = PUTS) -> Work[None]:
    """Create an object under a name that only this write can have: once, whatever is answered.

    Raises:
        UnavailableError: there was no answer, time and again; it may be stored.
    """
    yield from put_answered(key, body, policy)


def put_advisory(key: str, body: Body) -> Work[bool]:
    """Create an object that readers can do without; whether it is there now, as far as is known."""
    try:
        yield from put_answered(key, body, ADVICE)
    except LakelogError:
        return False
    return True
