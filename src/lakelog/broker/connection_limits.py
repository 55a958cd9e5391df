"""How many may connect: in all, from one address, and in a second.

What is open takes a file of the process, and the store needs files, too: there are never more
connections than leave it some. Connections that are refused are counted, and the log says how many
now and then.
"""

from collections import Counter

from structlog.typing import FilteringBoundLogger

from lakelog.broker.limits import Limits
from lakelog.broker.metrics.counters import Metrics
from lakelog.broker.rates import Rate

__all__ = ["ConnectionLimiter"]

TELL_S = 10.0
"""The log is told of refused connections no more often: a flood of them should not be one there."""


class ConnectionLimiter:
    """Counts connections, and says whether one more is accepted."""

    def __init__(
        self,
        limits: Limits,
        open_files: int,
        metrics: Metrics,
        log: FilteringBoundLogger,
        now_s: float,
    ) -> None:
        self._limits, self._metrics, self._log = limits, metrics, log
        reserved = min(limits.files_reserved, open_files // 2)
        self.most = min(limits.connections, open_files - reserved)
        """Connections in all."""
        quarters = self.most - self.most // 4
        self.most_of_address = min(limits.connections_per_address or quarters, self.most)
        if self.most < limits.connections // 2:
            log.warning(
                "this process may open few files, and so it takes fewer connections",
                open_files=open_files,
                connections=self.most,
                next="raise the hard limit: ulimit -Hn, or LimitNOFILE of systemd",
            )
        self._inside: Counter[str] = Counter()
        self._rate = Rate(limits.connection_rate, now_s)
        self._rates: dict[str, Rate] = {}
        self._refused: Counter[str] = Counter()
        self._last = ""
        self._told_s = now_s - TELL_S

    def enter(self, address: str, now_s: float) -> str:
        """Let one of an address in; else say why not."""
        why = self._refusal(address, now_s)
        if why:
            self._metrics.connections_refused += 1
            self._refused[why] += 1
            self._last = address
            return why
        self._inside[address] += 1
        self._metrics.connections += 1
        self._metrics.connections_opened += 1
        return ""

    def _refusal(self, address: str, now_s: float) -> str:
        if self._metrics.connections >= self.most:
            return f"there are {self.most} connections (max.connections)"
        if self._inside[address] >= self.most_of_address:
            return f"the address has {self.most_of_address} connections (max.connections.per.ip)"
        rate = self._rates.get(address)
        if rate is None:
            rate = self._rates[address] = Rate(self._limits.address_connection_rate, now_s)
        if not rate.allows(now_s):
            return (
                f"the address made {self._limits.address_connection_rate} connections in a second"
            )
        if not self._rate.allows(now_s):
            most = self._limits.connection_rate
            return f"{most} connections were made in a second (max.connection.creation.rate)"
        return ""

    def leave(self, address: str) -> None:
        """Take note that one has gone."""
        self._metrics.connections -= 1
        self._inside[address] -= 1
        if not self._inside[address]:
            del self._inside[address]

    def fail(self, address: str, why: str) -> None:
        """Take note that one has gone before it was a client, and why."""
        self.leave(address)
        self._refused[why] += 1
        self._last = address

    def sweep(self, now_s: float) -> None:
        """Called now and then: log how many were refused, and forget idle addresses."""
        self._rates = {
            address: one for address, one in self._rates.items() if not one.is_new(now_s)
        }
        if self._refused and now_s - self._told_s >= TELL_S:
            for why, count in self._refused.items():
                self._log.warning("connections refused", why=why, count=count, last=self._last)
            self._refused.clear()
            self._told_s = now_s
