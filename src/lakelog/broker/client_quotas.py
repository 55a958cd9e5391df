"""Quotas in force: which a client has, and the frames and connections that are counted by them.

    look      now and then: one read of a cell; what this broker changes itself it knows at once
    frame     a request, counted by the meter of its connection; without any quotas it is not called
    opened    a connection, which waits before its first request if its address has made too many

Quotas are per broker, as in Kafka: a client that talks to three brokers may have three times as
much. A client is known by its principal and by the client id of each request, of which the bytes
are compared; the account that belongs to both is kept with the connection.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from lakelog.broker.meters import MUTE_S_MAX, RUNNING, Account, Meter
from lakelog.broker.metrics.quotas import QuotaCounters
from lakelog.catalog import FoundQuotas, change_quotas, read_quotas
from lakelog.errors import LakelogError
from lakelog.security import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    STORE_REQUEST_RATE,
    Alteration,
    Bucket,
    Buckets,
    Entity,
    Quotas,
    address_name,
    alter_quotas,
)
from lakelog.store import PerformAsync, run_async, working_async

if TYPE_CHECKING:
    from lakelog.broker.connection import Connection
    from lakelog.broker.response_slots import ResponseSlot

__all__ = ["QUOTAS_LOOK_S", "ClientQuotas"]

QUOTAS_LOOK_S = 10.0
"""How long a change that another broker made may take to be seen."""

BURST_S = 1.0
MUTATION_BURST_S = 11.0
"""As in Kafka, whose clients make all topics of an application at once."""

MEASURED_OF = 8
"""Of so many requests to produce of a connection one is measured, and counts for all of them."""

_KEYS = {
    PRODUCER_BYTE_RATE: (1.0, BURST_S),
    CONSUMER_BYTE_RATE: (1.0, BURST_S),
    REQUEST_PERCENTAGE: (0.01, BURST_S),
    CONTROLLER_MUTATION_RATE: (1.0, MUTATION_BURST_S),
    STORE_REQUEST_RATE: (1.0, BURST_S),
}
"""What of a value is the rate of a bucket, and how many seconds of it a full one holds."""

_CLIENT_AT, _CLIENT_TEXT_AT = 8, 10
_NULL = 0xFFFF

Dispatch = Callable[["Connection", memoryview, "ResponseSlot"], None]


class ClientQuotas:
    """The quotas of one broker's clients."""

    def __init__(
        self, perform: PerformAsync, counters: QuotaCounters, time: Callable[[], float]
    ) -> None:
        self._perform = working_async(perform)
        self._counters, self._time = counters, time
        self._found = FoundQuotas(Quotas(), "")
        self._addresses: dict[str | None, float] = {}
        self._buckets = Buckets()
        self._changes = 0
        self.is_set = False
        """Whether there are quotas of users or client ids."""

    # ------------------------------------------------------------------------ the cell

    @property
    def now(self) -> Quotas:
        """The quotas in force."""
        return self._found.quotas

    async def start(self, on_error: Callable[[LakelogError], None]) -> None:
        """Look for the first time. A broker whose quotas cannot be read serves without them."""
        try:
            await self.look()
        except LakelogError as error:
            on_error(error)

    async def look(self) -> None:
        """See whether the quotas have changed. Those that are known stay if they cannot be read.

        Raises:
            LakelogError: they cannot be read.
        """
        before = self._changes
        try:
            found = await run_async(read_quotas(self._found), self._perform)
        except LakelogError:
            self._counters.unread += 1
            raise
        if before == self._changes:  # Else this broker has changed them meanwhile.
            self._take(found)

    async def alter(
        self, alterations: Sequence[Alteration], *, validate_only: bool
    ) -> dict[Entity, str]:
        """Alter quotas, and return what is wrong with each entity's alteration.

        Raises:
            LakelogError: there was no answer, or the cell cannot be read.
        """
        if validate_only:
            return alter_quotas(self.now, alterations)[1]
        quotas, flaws = await run_async(change_quotas(alterations), self._perform)
        self._changes += 1
        self._take(FoundQuotas(quotas, ""))
        return flaws

    def _take(self, found: FoundQuotas) -> None:
        if found.quotas == self.now:
            self._found = found
            return
        self._found = found
        self._addresses = found.quotas.by_address()
        self.is_set = any(kind != "ip" for entity in found.quotas.rows for kind, _ in entity)
        self._buckets.generation += 1

    # ------------------------------------------------------------------------ clients

    def frame(
        self, dispatch: Dispatch, connection: "Connection", frame: memoryview, slot: "ResponseSlot"
    ) -> None:
        """Answer a request, and count what it uses."""
        meter = connection.meter
        if (
            meter is None
            or meter.generation != self._buckets.generation
            or meter.principal is not connection.principal
            or frame[_CLIENT_AT : _CLIENT_AT + len(meter.client)] != meter.client
        ):
            meter = self._find(connection, frame)
        account = meter.account
        if account is None:
            dispatch(connection, frame, slot)
            return
        request, weight = account.request, 1
        if not frame[1] and not frame[0]:  # Produce has the key 0.
            if account.produce is not None:
                size = meter.unpaid + len(frame)
                if size < account.credit:
                    meter.unpaid = size
                else:
                    meter.produced(size)
            if request is not None:
                meter.unmeasured += 1
                if meter.unmeasured < MEASURED_OF:
                    request = None
                else:
                    meter.unmeasured, weight = 0, MEASURED_OF
        RUNNING.meter = meter
        if request is not None:
            meter.began = perf_counter()
        try:
            dispatch(connection, frame, slot)
        finally:
            RUNNING.meter = None
            if request is not None:
                meter.end_step(weight)

    def _find(self, connection: "Connection", frame: memoryview) -> Meter:
        """Return the meter of a connection, with the account of the client that sent a frame."""
        meter = connection.meter = connection.meter or Meter(connection, self._counters)
        size = int.from_bytes(frame[_CLIENT_AT:_CLIENT_TEXT_AT], "big")
        end = _CLIENT_TEXT_AT + (0 if size == _NULL else size)
        client_id = bytes(frame[_CLIENT_TEXT_AT:end]).decode("utf-8", "replace")
        user, now_s = connection.principal.name, self._time()
        buckets: dict[str, Bucket] = {}
        for key, (unit, burst_s) in _KEYS.items():
            found = self.now.of_client(key, user, client_id)
            if found is not None:
                rate = found.rate * unit
                buckets[key] = self._buckets.find(key, found.owner, rate, burst_s, now_s)
        meter.account = Account(buckets) if buckets else None
        meter.client, meter.principal = bytes(frame[_CLIENT_AT:end]), connection.principal
        meter.generation = self._buckets.generation
        return meter

    # ------------------------------------------------------------------------ addresses

    def opened(self, connection: "Connection") -> str:
        """Count a connection of an address, and let it wait; or say why it may not come in."""
        if not self._addresses:
            return ""
        rate = self._addresses.get(address_name(connection.host), self._addresses.get(None))
        if rate is None:
            return ""
        key, now_s = CONNECTION_CREATION_RATE, self._time()
        bucket = self._buckets.find(key, connection.address, rate, BURST_S, now_s)
        if bucket.wait_s(now_s) >= MUTE_S_MAX:
            return f"the address has made too many connections ({key} is {rate:g})"
        if wait_s := bucket.spend(1, now_s):
            meter = connection.meter = connection.meter or Meter(connection, self._counters)
            meter.mute(key, wait_s, now_s)
        return ""
