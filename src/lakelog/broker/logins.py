"""Logins: what a client that has not proved who it is may do, and how it proves it.

    frame --> 17, 36: the machine of its connection --> answer --> somebody, or the end
              18: answered, as always
              anything else: the end, until it has logged in, and after its session has ended

The machine (``security.sasl``) decides; here keys are found in memory, passwords and tokens are
checked in threads, a few at a time and one of each address, and a failure is answered late.
"""

import asyncio
import base64
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

from kio.schema.errors import ErrorCode
from structlog.typing import FilteringBoundLogger

from lakelog.broker.fair_scheduler import FairScheduler
from lakelog.broker.limits import Limits
from lakelog.broker.metrics.counters import Metrics
from lakelog.broker.rates import Rate
from lakelog.broker.response_slots import ResponseSlot
from lakelog.broker.secure_connection import SecureConnection
from lakelog.broker.security.audit_trail import AuditTrail
from lakelog.broker.supervision import Supervisor
from lakelog.broker.user_directory import UserDirectory
from lakelog.errors import InvalidInputError, LakelogError
from lakelog.ports import Clock, Ids
from lakelog.security import (
    CheckToken,
    FindKeys,
    Hash,
    LoginAnswer,
    LoginCode,
    Need,
    Principal,
    SaslMachine,
    Token,
    salt_password,
)
from lakelog.wire import (
    ApiKey,
    RequestHeader,
    decode_request,
    decode_request_header,
    encode_response,
    response_start,
)

__all__ = ["Logins", "TokenCheck"]

TOLD_PER_S = 5
"""Failures that the log tells one by one; the rest is counted."""

_SHOWN_CHARS = 64
R = TypeVar("R")

TokenCheck = Callable[[str], Token | str]
"""Returns what a token says, or what is wrong with it."""


class Logins:
    """The logins of all connections of a broker."""

    def __init__(
        self,
        users: UserDirectory,
        checks: Mapping[str, TokenCheck],
        *,
        limits: Limits,
        clock: Clock,
        ids: Ids,
        metrics: Metrics,
        audit: AuditTrail,
        tasks: Supervisor,
        log: FilteringBoundLogger,
    ) -> None:
        self._users, self._checks = users, checks
        self._limits, self._clock, self._ids = limits, clock, ids
        self._metrics, self._audit, self._tasks, self._log = metrics, audit, tasks, log
        self._lines = FairScheduler()
        self._threads = asyncio.Semaphore(limits.login_threads)
        self._telling = Rate(TOLD_PER_S, asyncio.get_running_loop().time())
        self._untold = 0

    def takes(self, connection: SecureConnection, frame: memoryview, slot: ResponseSlot) -> bool:
        """Answer a request that belongs to a login; False: it may be answered as any other.

        Raises:
            LakelogError: it is neither.
        """
        assert connection.login is not None
        key = int.from_bytes(frame[:2], "big")
        if key == ApiKey.SASL_HANDSHAKE:
            self._handshake(connection, connection.login, frame, slot)
            return True
        if key == ApiKey.SASL_AUTHENTICATE:
            header = decode_request_header(frame)
            request = decode_request(key, header.version, frame[header.body_at :])
            work = self._authenticate(connection, connection.login, header, request, slot)
            slot.work = self._tasks.once(header.api.name, work)
            return True
        if key == ApiKey.API_VERSIONS or connection.login.is_open(self._clock.boot_ms()):
            return False
        if connection.login.user is not None:
            self._metrics.security.sessions_expired += 1
            raise InvalidInputError("its session has ended, and it did not log in again")
        raise InvalidInputError(f"API {key} was asked for before a login: use SASL")

    def _handshake(
        self,
        connection: SecureConnection,
        login: SaslMachine,
        frame: memoryview,
        slot: ResponseSlot,
    ) -> None:
        header = decode_request_header(frame)
        request = decode_request(header.api.key, header.version, frame[header.body_at :])
        told = login.handshake(str(request.mechanism), self._clock.boot_ms())
        fields = {"error_code": ErrorCode[told.code], "mechanisms": list(login.mechanisms)}
        if told.is_end:
            self._failed(connection, login, told, header.client_id)
        self._answer(header, fields, told, slot)

    async def _authenticate(
        self,
        connection: SecureConnection,
        login: SaslMachine,
        header: RequestHeader,
        request: Any,
        slot: ResponseSlot,
    ) -> None:
        nonce = base64.urlsafe_b64encode(self._ids() + self._ids()).decode().rstrip("=")
        was, counts = login.user, self._metrics.security
        steps = login.authenticate(
            bytes(request.auth_bytes),
            now_ms=self._clock.boot_ms(),
            wall_ms=self._clock.now_ms(),
            nonce=nonce,
        )
        try:
            told = await self._driven(connection, steps)
        except LakelogError as error:
            slot.fail(f"a login failed: {error}")
            return
        except Exception as error:  # noqa: BLE001 (it ends this connection, and no other)
            self._log.error("a bug", api=header.api.name, error=repr(error), exc_info=error)
            slot.fail("a login ended in an unexpected error, which is a bug: see the log")
            return
        # A token is refused in two answers, and not every client waits for the second.
        if told.why and not connection.is_told:
            self._failed(connection, login, told, header.client_id)
            await asyncio.sleep(self._limits.failed_login_delay_ms / 1000)
        elif told.is_login:
            counts.logins[login.mechanism] += 1
            counts.logins_again[login.mechanism] += was is not None
            connection.log_in(Principal.user(told.user), slot)
            self._note(connection, login, told, header.client_id)
        fields = {
            "error_code": ErrorCode[told.code],
            "error_message": told.message,
            "auth_bytes": told.data,
            "session_lifetime": told.session_ms,
        }
        self._answer(header, fields, told, slot)

    def _answer(
        self,
        header: RequestHeader,
        fields: dict[str, Any],
        told: LoginAnswer,
        slot: ResponseSlot,
    ) -> None:
        error = "" if not told.is_end else told.code.upper()
        self._metrics.api(header.api.name).count(0.0, error)
        if told.is_end:
            slot.why = f"a login failed: {told.why}"
        start = response_start(header.api, header.version, header.correlation_id)
        slot.answer([start, encode_response(header.api.key, header.version, fields)])

    def _note(
        self, connection: SecureConnection, login: SaslMachine, told: LoginAnswer, client_id: str
    ) -> None:
        name = str(Principal.user(told.user)) if told.user else ""
        how = ": ".join(filter(None, (login.mechanism, told.why)))
        # The first of two answers that refuse a token says nothing of it in its code.
        is_failed = told.why and not told.is_end
        code = LoginCode.FAILED if is_failed else told.code
        self._audit.logged(connection, client_id, name, code.upper(), how)

    def _failed(
        self, connection: SecureConnection, login: SaslMachine, told: LoginAnswer, client_id: str
    ) -> None:
        connection.is_told = True
        self._note(connection, login, told, client_id)
        self._metrics.security.logins_failed[login.mechanism or "none"] += 1
        if not self._telling.allows(asyncio.get_running_loop().time()):
            self._untold += 1
            return
        self._log.warning(
            "a login failed",
            listener=connection.listener,
            host=connection.host,
            mechanism=login.mechanism,
            user=ascii(told.user[:_SHOWN_CHARS])[1:-1],
            why=told.why,
            untold=self._untold,
        )
        self._untold = 0

    # ------------------------------------------------------------------------ what logins need

    async def _driven(
        self, connection: SecureConnection, steps: Generator[Need, Any, LoginAnswer]
    ) -> LoginAnswer:
        """Give a login what it asks for, until it has an answer."""
        answer: Any = None
        while True:
            try:
                need = steps.send(answer)
            except StopIteration as end:
                told: LoginAnswer = end.value
                return told
            match need:
                case FindKeys(user, mechanism):
                    users = self._users.current
                    answer = users.best(user) if mechanism is None else users.find(user, mechanism)
                case Hash():
                    answer = await self._slowly(connection.address, salt_password, *need)
                case CheckToken(text):
                    check = self._checks[connection.listener]
                    answer = await self._slowly(connection.address, check, text)

    async def _slowly(self, address: str, function: Callable[..., R], *args: Any) -> R:
        """Do what takes long in a thread: few at a time, and one of each address."""
        async with self._lines.turn(address), self._threads:
            return await asyncio.to_thread(function, *args)
