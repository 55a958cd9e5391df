"""Who did what: counted for all, and written down one by one if there is an audit log.

Call.may ------------------> denied  --+
logins, certificates ------> logged    +--> counters, and --audit-log
the answer to a change ----> changed --+
"""

from typing import TYPE_CHECKING, Any

from lakelog.broker.metrics.security import SecurityCounters
from lakelog.broker.security.audit_log import CHANGED, DENIAL, DENIED, LOGIN, AuditLog, Event
from lakelog.broker.security.changes import changes_of
from lakelog.security import Operation, ResourceType

if TYPE_CHECKING:
    from lakelog.broker.connection import Connection
    from lakelog.broker.services import Call

__all__ = ["AuditTrail"]


class AuditTrail:
    """Takes note of it, for one broker."""

    def __init__(self, counts: SecurityCounters, log: AuditLog | None = None) -> None:
        self._counts, self._log = counts, log

    def denied(
        self, call: "Call", operation: Operation, resource_type: ResourceType, name: str
    ) -> None:
        """Take note that somebody may not do what it asked for."""
        self._counts.denials[operation.name, resource_type.name] += 1
        if self._log is not None:
            what = (operation.name, f"{resource_type.name}:{name}", DENIAL)
            self._log.note(Event(DENIED, *_who(call), *what))

    def logged(
        self, connection: "Connection", client_id: str, principal: str, result: str, how: str
    ) -> None:
        """Take note that somebody logged in, or failed to."""
        if self._log is not None:
            who = (principal, connection.host, client_id, connection.listener)
            self._log.note(Event(LOGIN, *who, "", "", "", result, how))

    def changed(self, call: "Call", key: int, request: Any, answer: Any) -> None:
        """Take note of what a request has changed, or was to change; denials have been told."""
        if self._log is not None:
            for one in changes_of(key, request, answer):
                self._log.note(Event(CHANGED, *_who(call), *one))

    def created(self, call: "Call", topic: str) -> None:
        """Take note of a topic that was made since it was named."""
        if self._log is not None:
            self._log.note(
                Event(CHANGED, *_who(call), Operation.CREATE.name, f"TOPIC:{topic}", "NONE")
            )

    async def flush(self) -> None:
        """Write down what is not."""
        if self._log is not None:
            await self._log.flush()

    async def run(self) -> None:
        """Write it down as it comes, for ever."""
        if self._log is not None:
            await self._log.run()


def _who(call: "Call") -> tuple[str, str, str, str, str]:
    return str(call.principal), call.client_host, call.client_id, call.listener, call.api
