"""What each listener asks of those who come, and how other brokers are called on it."""

import asyncio
from collections.abc import Sequence

from structlog.typing import FilteringBoundLogger

from lakelog.broker.connection import Connection
from lakelog.broker.dialing import Dial, dialer
from lakelog.broker.response_slots import Frames
from lakelog.broker.secure_connection import SecureConnection
from lakelog.broker.settings import Listener
from lakelog.broker.tls import ListenerTls
from lakelog.security import PrincipalRules

__all__ = ["CERTIFICATES_S", "ListenerSecurity"]

CERTIFICATES_S = 10.0
"""How often files of certificates are looked at."""


class ListenerSecurity:
    """The listeners of one broker."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
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

    def connect(self, frames: Frames, listener: str) -> Connection:
        """Return a connection on a listener, which has just been made."""
        rules = self._rules.get(listener)
        if rules is None:
            return Connection(frames, listener)
        return SecureConnection(frames, listener, rules)

    def dialer(self, listener: str) -> Dial:
        """Return what calls other brokers."""
        return dialer(self.secured.get(listener or self._first))

    async def look(self, log: FilteringBoundLogger) -> None:
        """Take certificates that have changed."""
        for tls in self.secured.values():
            await asyncio.to_thread(tls.look, log)
