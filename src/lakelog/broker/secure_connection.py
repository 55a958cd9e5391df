"""A connection whose client is somebody: over TLS, whom its certificate names."""

import asyncio

from lakelog.broker.connection import Connection
from lakelog.broker.response_slots import Frames
from lakelog.errors import InvalidInputError
from lakelog.security import Principal, PrincipalRules, subject_name

__all__ = ["SecureConnection"]


class SecureConnection(Connection):
    """A socket of a client that came through a TLS handshake."""

    def __init__(self, frames: Frames, listener: str, rules: PrincipalRules) -> None:
        super().__init__(frames, listener)
        self.is_admitted = True
        self._rules = rules

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, as whom the certificate of the client names, if it has shown one."""
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        if not certificate:
            return
        try:
            name = self._rules.name(subject_name(certificate["subject"]))
        except InvalidInputError as error:
            self.close(str(error))
        else:
            self.principal = Principal.user(name)
