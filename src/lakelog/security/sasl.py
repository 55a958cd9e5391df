"""The logins of one connection, as a machine: which messages may come when, and what they are told.

             handshake                authenticate, once or twice
    NEW ------------------> CHOSEN ---------------------------------> OPEN
                              ^                                       |  until the session ends
                              '---------------------------------------'
                                 handshake: it logs in again (KIP-368), as the same user

    unknown mechanism     UNSUPPORTED_SASL_MECHANISM, and the end
    out of order          ILLEGAL_SASL_STATE, and the end
    any failure           SASL_AUTHENTICATION_FAILED, the same words for all, and the end

Before a login nothing else is answered, and after a session has ended nothing but the next login.
The machine asks for what it needs by yielding it (``exchanges``).
"""

from collections.abc import Generator, Sequence
from enum import Enum, StrEnum
from typing import Any, NamedTuple

from lakelog.security.exchanges import Exchange, Need, Outcome, Say
from lakelog.security.oauthbearer import oauthbearer
from lakelog.security.plain import plain
from lakelog.security.scram import ScramMechanism, scram

__all__ = ["MECHANISMS", "LoginAnswer", "LoginCode", "SaslMachine"]

MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER", "PLAIN")
AGAIN_MS = 1_000
"""From one time that a connection logs in again to the next, as in Kafka: a login is work."""


class LoginCode(StrEnum):
    """By Kafka's names."""

    NONE = "none"
    UNSUPPORTED_MECHANISM = "unsupported_sasl_mechanism"
    ILLEGAL_STATE = "illegal_sasl_state"
    FAILED = "sasl_authentication_failed"


class LoginAnswer(NamedTuple):
    """What a client is told."""

    code: LoginCode = LoginCode.NONE
    message: str | None = None
    data: bytes = b""
    session_ms: int = 0
    """After which it has to log in again; 0: never."""
    why: str = ""
    """What was wrong, for the operator."""
    user: str = ""
    """Who has logged in, or said that he was."""
    is_login: bool = False
    """Whether somebody has logged in by it."""

    @property
    def is_end(self) -> bool:
        """Whether the connection ends with it."""
        return self.code is not LoginCode.NONE


class _State(Enum):
    NEW = "new"
    CHOSEN = "chosen"
    BUSY = "busy"
    OPEN = "open"
    ENDED = "ended"


class SaslMachine:
    """The logins of one connection."""

    def __init__(self, mechanisms: Sequence[str], session_ms_max: int = 0) -> None:
        self.mechanisms = tuple(mechanisms)
        """That are offered."""
        self._session_ms_max = session_ms_max
        self._state = _State.NEW
        self._exchange: Exchange | None = None
        self.mechanism = ""
        """That was chosen."""
        self.user: str | None = None
        """Who has logged in; None: nobody."""
        self._last = ""
        """The mechanism of the last login."""
        self._again_ms: int | None = None
        """When it last began to log in again."""
        self.expires_ms: int | None = None
        """When the session ends; None: never."""

    def is_open(self, now_ms: int) -> bool:
        """Say whether requests are answered."""
        if self.user is None or self._state is _State.ENDED:
            return False
        return self.expires_ms is None or now_ms < self.expires_ms

    def handshake(self, mechanism: str, now_ms: int) -> LoginAnswer:
        """A client chooses a mechanism."""
        if self._state not in (_State.NEW, _State.OPEN):
            return self._illegal("a mechanism was chosen while a login went on")
        if mechanism not in self.mechanisms:
            self._state = _State.ENDED
            return LoginAnswer(LoginCode.UNSUPPORTED_MECHANISM, why="the mechanism is not offered")
        if self.user is not None:
            if self._again_ms is not None and now_ms - self._again_ms < AGAIN_MS:
                return self._failed(Outcome(self.user, "it logs in again and again"))
            if mechanism != self._last:
                return self._failed(Outcome(self.user, "another mechanism was chosen"))
            self._again_ms = now_ms
        self._state, self.mechanism = _State.CHOSEN, mechanism
        return LoginAnswer()

    def authenticate(
        self, data: bytes, *, now_ms: int, wall_ms: int, nonce: str
    ) -> Generator[Need, Any, LoginAnswer]:
        """A client says something of its mechanism.

        ``nonce`` was never used before; ``wall_ms`` is the time by which tokens expire.
        """
        if self._state is not _State.CHOSEN:
            return self._illegal("no mechanism was chosen")
        self._state = _State.BUSY  # Another message may come while this one is looked at.
        if self._exchange is None:
            self._exchange = _begin(self.mechanism, data, nonce)
            sent: Any = None
        else:
            sent = data
        try:
            need = self._exchange.send(sent)
            while not isinstance(need, Say):
                need = self._exchange.send((yield need))
        except StopIteration as end:
            self._exchange = None
            return self._ended(end.value, now_ms, wall_ms)
        if self._state is not _State.BUSY:
            return self._illegal("two messages came at once")
        self._state = _State.CHOSEN
        return LoginAnswer(data=need.data, why=need.why)

    def _ended(self, outcome: Outcome, now_ms: int, wall_ms: int) -> LoginAnswer:
        if outcome.why:
            return self._failed(outcome)
        if self._state is not _State.BUSY:
            return self._illegal("two messages came at once")
        if self.user not in (None, outcome.user):
            return self._failed(Outcome(outcome.user, f"it was {self.user}, and is another one"))
        limits = [self._session_ms_max] if self._session_ms_max else []
        if outcome.expires_ms is not None:
            limits.append(outcome.expires_ms - wall_ms)
        session_ms = min(limits, default=0)
        if limits and session_ms <= 0:
            return self._failed(Outcome(outcome.user, "its token has expired"))
        self._state, self.user = _State.OPEN, outcome.user
        self._last = self.mechanism
        self.expires_ms = now_ms + session_ms if limits else None
        return LoginAnswer(
            data=outcome.last, session_ms=session_ms, user=outcome.user, is_login=True
        )

    def _failed(self, outcome: Outcome) -> LoginAnswer:
        self._state = _State.ENDED
        message = (
            "Authentication failed during authentication due to invalid credentials with SASL"
            f" mechanism {self.mechanism}"
        )
        return LoginAnswer(LoginCode.FAILED, message, why=outcome.why, user=outcome.user)

    def _illegal(self, why: str) -> LoginAnswer:
        self._state = _State.ENDED
        message = "SaslHandshake chooses a mechanism first, and SaslAuthenticate follows"
        return LoginAnswer(LoginCode.ILLEGAL_STATE, message, why=why)


def _begin(mechanism: str, data: bytes, nonce: str) -> Exchange:
    if mechanism == "PLAIN":
        return plain(data)
    if mechanism == "OAUTHBEARER":
        return oauthbearer(data)
    return scram(ScramMechanism(mechanism), data, nonce)
