"""A connection whose client is somebody: whom its certificate names, or whom it logs in as.

Until a client has logged in it may ask one thing at a time, in few bytes, which come out of a small
budget of their own: those who are nobody take nothing away from those who are somebody.
"""

import asyncio
from dataclasses import replace

from lakelog.broker.budget import Budget, Buffers
from lakelog.broker.connection import Connection
from lakelog.broker.limits import Limits
from lakelog.broker.response_slots import Frames, ResponseSlot
from lakelog.errors import InvalidInputError
from lakelog.security import Principal, PrincipalRules, SaslMachine, subject_name

__all__ = ["BeforeLogin", "SecureConnection"]


class BeforeLogin:
    """What all clients that have not logged in may use together."""

    def __init__(self, limits: Limits) -> None:
        most = min(limits.login_bytes, limits.request_bytes_max)
        self.limits = replace(
            limits,
            request_bytes_max=most,
            control_bytes_max=most,
            connection_bytes=most,
            connection_requests=0,  # The next one is taken when this one is answered.
        )
        self.budget = Budget(limits.login_memory_bytes, limits.address_percent)
        self.buffers = Buffers(limits.login_memory_bytes)


class SecureConnection(Connection):
    """A socket of a client that has shown a certificate, or has to log in, or both."""

    def __init__(
        self,
        frames: Frames,
        listener: str,
        *,
        rules: PrincipalRules | None = None,
        login: SaslMachine | None = None,
        before: BeforeLogin | None = None,
    ) -> None:
        """``rules`` are those of a listener with TLS, ``login`` and ``before`` of one with SASL."""
        super().__init__(frames, listener)
        self.is_admitted = rules is not None
        self._rules, self.login = rules, login
        self._made_s = self._loop.time()
        if before is not None:
            self._limits, self._budget, self._buffers = before.limits, before.budget, before.buffers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, as whom the certificate of the client names, if it has shown one."""
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        if not certificate or self.login is not None or self._rules is None:
            return
        subject = subject_name(certificate["subject"])
        try:
            self.principal = Principal.user(self._rules.name(subject))
        except InvalidInputError as error:
            self._frames.identified(self, subject, str(error))
            self.close(str(error))
        else:
            self._frames.identified(self, str(self.principal), "")

    def log_in(self, principal: Principal, slot: ResponseSlot) -> None:
        """Become somebody, by the request that a slot is of."""
        self.principal = principal
        frames = self._frames
        if self._limits is frames.limits:
            return  # It was somebody already.
        self.shrink(slot, 0)
        held, is_begun = self._held, self._begun_s is not None
        self._hold(0)
        if is_begun:
            self._buffers.end(self, self.address)
        self._budget.forget(self._resume, self.address)
        self._is_waiting = False
        self._limits, self._budget = frames.limits, frames.budget
        self._buffers = frames.buffers
        if is_begun:
            self._buffers.begin(self, self.address)
        self._hold(held)
        self.adjust()

    def watch(self, now_s: float) -> None:
        """End it if its client does not log in."""
        super().watch(now_s)
        login_s = self._limits.login_ms / 1000
        if self.login is not None and self.login.user is None and now_s - self._made_s > login_s:
            self.drop(f"it did not log in within {login_s:.0f} s")
