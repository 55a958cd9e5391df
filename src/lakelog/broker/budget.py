"""Budgets of bytes, for the whole process: the memory that clients make a broker use.

    Budget    bytes that are taken and given back: of requests, or of answers
    Buffers   bytes that have come of requests that are not whole

Each byte is counted for the address of the client as well. Of a budget an address gets a share and
no more, so that the others find room whatever it does. Of the buffers it may have all, as long as
nobody else needs them: then the oldest request of the address that has most must go.

Nothing waits here. A connection that takes more than there is stops reading from its socket, and is
called when there is room again. So memory is bounded by the budgets and one request for each
connection, whatever the store does.
"""

from collections import deque
from collections.abc import Callable
from ipaddress import AddressValueError, IPv6Address
from typing import Protocol

__all__ = ["Begun", "Budget", "Buffers", "address_of"]

Resume = Callable[[], None]


def address_of(host: str) -> str:
    """Return the address that a client counts for: in IPv6 the network, of which one client has all
    2^64 addresses.
    """
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host.partition("%")[0])
    except AddressValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return address.packed[:8].hex()


class Budget:
    """So many bytes, taken and given back."""

    __slots__ = ("_taken", "_waiting", "share", "total", "used")

    def __init__(self, total: int, address_percent: int = 100) -> None:
        self.total = total
        self.share = total * address_percent // 100
        """The most that one address may take."""
        self.used = 0
        self._taken: dict[str, int] = {}
        """By address."""
        self._waiting: dict[str, deque[Resume]] = {}
        """By address; addresses take turns."""

    @property
    def waiting(self) -> int:
        """How many wait for room."""
        return sum(map(len, self._waiting.values()))

    def is_spent(self, address: str) -> bool:
        """Say whether an address should take nothing more now."""
        return self.used >= self.total or self._taken.get(address, 0) >= self.share

    def room(self, address: str) -> int:
        """Return how much an address may take now."""
        return max(min(self.total - self.used, self.share - self._taken.get(address, 0)), 0)

    def take(self, size: int, address: str) -> None:
        self.used += size
        self._taken[address] = self._taken.get(address, 0) + size

    def give(self, size: int, address: str) -> None:
        """Give back, and call connections that wait, as far as there is room."""
        self.used -= size
        left = self._taken.get(address, 0) - size
        if left:
            self._taken[address] = left
        else:
            self._taken.pop(address, None)
        if self._waiting:
            self._wake()

    def change(self, size: int, address: str) -> None:
        """Take more, or give back what is less than 0."""
        if size > 0:
            self.take(size, address)
        elif size < 0:
            self.give(-size, address)

    def _wake(self) -> None:
        while self.used < self.total:
            address = next((one for one in self._waiting if not self.is_spent(one)), None)
            if address is None:
                return
            line = self._waiting.pop(address)
            resume = line.popleft()
            if line:
                self._waiting[address] = line  # Behind the others: it was its turn.
            resume()

    def wait(self, resume: Resume, address: str) -> None:
        """Ask to be called once, when there is room."""
        self._waiting.setdefault(address, deque()).append(resume)

    def forget(self, resume: Resume, address: str) -> None:
        """Wait no longer."""
        line = self._waiting.get(address)
        if line is not None and resume in line:
            line.remove(resume)
            if not line:
                del self._waiting[address]


class Begun(Protocol):
    """A connection whose request has begun to come, and is not whole."""

    @property
    def is_stopped(self) -> bool:
        """Whether it is not read now: then it is not to blame for being slow."""
        ...

    def drop(self, why: str) -> None:
        """Forget what has come of it, at once, and end the connection."""
        ...


class Buffers:
    """What has come of requests that are not whole, up to so many bytes."""

    __slots__ = ("_begun", "_held", "total", "used")

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self._held: dict[str, int] = {}
        """Bytes, by address."""
        self._begun: dict[str, dict[Begun, None]] = {}
        """Connections that have begun a request, by address, in that order."""

    def begin(self, one: Begun, address: str) -> None:
        """Take note that a request begins; an earlier one of the same connection has ended."""
        line = self._begun.setdefault(address, {})
        line.pop(one, None)
        line[one] = None

    def end(self, one: Begun, address: str) -> None:
        """Take note that it is whole, or that the connection has ended."""
        line = self._begun.get(address)
        if line is not None:
            line.pop(one, None)
            if not line:
                del self._begun[address]

    def count(self, change: int, address: str) -> None:
        """Count bytes that have come, or that are no longer here."""
        self.used += change
        held = self._held.get(address, 0) + change
        if held:
            self._held[address] = held
        else:
            self._held.pop(address, None)

    def fit(self) -> None:
        """If there is too much, drop connections of the address that has most, the oldest first."""
        while self.used > self.total and self._begun:
            greediest = max(self._begun, key=lambda address: self._held.get(address, 0))
            line = self._begun[greediest]
            oldest = next((one for one in line if not one.is_stopped), next(iter(line)))
            oldest.drop(
                f"unfinished requests take more than {self.total} bytes, and this one is the oldest"
                " of the address that has most: send smaller requests, or send them faster"
            )
