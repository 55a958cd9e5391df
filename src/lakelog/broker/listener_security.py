"""What each listener asks of those who come, and how other brokers are called on it."""

import asyncio
from collections.abc import Sequence

from structlog.typing import FilteringBoundLogger

from lakelog.broker.connection import Connection
from lakelog.broker.dialing import Dial, dialer
from lakelog.broker.limits import Limits
from lakelog.broker.logins import TokenCheck
from lakelog.broker.response_slots import Frames
from lakelog.broker.secure_connection import BeforeLogin, SecureConnection
from lakelog.broker.settings import Listener
from lakelog.broker.tls import ListenerTls
from lakelog.ports import Clock
from lakelog.security import PrincipalRules, SaslMachine, Users

__all__ = ["CERTIFICATES_S", "ListenerSecurity"]

CERTIFICATES_S = 10.0
"""How often files of certificates are looked at."""


class ListenerSecurity:
    """The listeners of one broker."""

    def __init__(self, listeners: Sequence[Listener], limits: Limits) -> None:
        """Load what they need.

        Raises:
            InvalidInputError: a certificate cannot be used.
        """
        self.secured = {
            one.name: ListenerTls(one.name, one.tls) for one in listeners if one.tls is not None
        }
        self._first = listeners[0].name
        self._rules = {
            name: PrincipalRules(tls.settings.rules) for name, tls in self.secured.items()
        }

        self._logins = {one.name: one.logins for one in listeners if one.logins is not None}
        self._before = BeforeLogin(limits)

    @property
    def has_logins(self) -> bool:
        """Whether clients of some listener log in."""
        return bool(self._logins)

    def tell(self, users: Users, log: FilteringBoundLogger) -> None:
        """Say what an operator has most likely forgotten."""
        if not users.keys and any(one.oauth is None for one in self._logins.values()):
            log.warning("nobody can log in", next="lakelog user add NAME --storage URL")

    def connect(self, frames: Frames, listener: str) -> Connection:
        """Return a connection on a listener, which has just been made."""
        rules, logins = self._rules.get(listener), self._logins.get(listener)
        if logins is not None:
            machine = SaslMachine(logins.mechanisms, logins.session_ms_max)
            return SecureConnection(
                frames, listener, rules=rules, login=machine, before=self._before
            )
        if rules is not None:
            return SecureConnection(frames, listener, rules=rules)
        return Connection(frames, listener)

    def token_checks(self, clock: Clock) -> dict[str, TokenCheck]:
        """Return what checks the tokens of each listener that takes some."""
        taking = {
            name: logins.oauth for name, logins in self._logins.items() if logins.oauth is not None
        }
        if not taking:
            return {}
        from lakelog.broker.tokens import TokenChecker  # It needs a library that others do not.

        return {name: TokenChecker(oauth, clock).check for name, oauth in taking.items()}

    def dialer(self, listener: str) -> Dial:
        """Return what calls other brokers."""
        name = listener or self._first
        logins = self._logins.get(name)
        return dialer(self.secured.get(name), None if logins is None else logins.peer)

    async def look(self, log: FilteringBoundLogger) -> None:
        """Take certificates that have changed."""
        for tls in self.secured.values():
            await asyncio.to_thread(tls.look, log)
