"""What becomes of one broker's settings when several workers serve instead of it, on one machine.

    node id     the first one's and one more for each; not given, each takes one as any broker does
    listeners   worker i has port + i of each, and clients are told advertised port + i
    limits      what is the machine's is divided; what is of a request or of a shard is not

A worker is a broker and nothing else, and needs an address of its own: clients find the one that
leads a partition by it. Whether the ports suffice is looked at before anything starts.
"""

import ipaddress
import operator
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from lakelog.broker.limits import LIMITS, Limits
from lakelog.broker.maintenance import MaintenanceSettings
from lakelog.broker.settings import BrokerSettings, Listener
from lakelog.errors import InvalidInputError

__all__ = ["divide_maintenance", "divide_settings"]

PORT_MAX = (1 << 16) - 1
KEEPER_BYTES_MIN = 512 << 20
"""What a maintenance process needs, however many there are."""


def divide_settings(
    settings: BrokerSettings, workers: int, http: tuple[str, int] | None = None
) -> tuple[BrokerSettings, ...]:
    """Return the settings of each worker; ``http`` is where health and metrics of all are.

    Raises:
        InvalidInputError: they would listen on each other's ports, or there are too few.
    """
    _check_ports(settings.listeners, workers, http)
    limits = _divide(settings.limits, workers)
    return tuple(
        replace(
            settings,
            node_id=None if settings.node_id is None else settings.node_id + worker,
            listeners=tuple(_listener(one, worker) for one in settings.listeners),
            limits=limits,
        )
        for worker in range(workers)
    )


def divide_maintenance(
    settings: MaintenanceSettings | None, workers: int
) -> MaintenanceSettings | None:
    """Return how each worker has its lanes maintained."""
    if settings is None:
        return None
    part = max(settings.memory_bytes // workers, min(KEEPER_BYTES_MIN, settings.memory_bytes))
    return replace(settings, memory_bytes=part)


def _divide(limits: Limits, workers: int) -> Limits:
    parts = {row.name: getattr(limits, row.name) for row in LIMITS if row.divided}
    # What is 0 follows from another limit; nothing else becomes 0, which would be none at all.
    return replace(
        limits, **{name: whole and max(whole // workers, 1) for name, whole in parts.items()}
    )


def _listener(listener: Listener, worker: int) -> Listener:
    told = listener.advertised_port
    return replace(
        listener,
        port=listener.port + worker,
        advertised_port=told + worker if told else 0,
    )


# ---------------------------------------------------------------------------- ports


class _Ports(NamedTuple):
    """Ports that somebody needs on a host."""

    whose: str
    host: str
    first: int
    last: int

    def __str__(self) -> str:
        one = self.first == self.last
        shown = f"{self.first}" if one else f"{self.first} to {self.last}"
        return f"{self.whose} needs {shown}"


def _check_ports(
    listeners: tuple[Listener, ...], workers: int, http: tuple[str, int] | None
) -> None:
    for listener in listeners:
        if not listener.port:
            raise InvalidInputError(
                f"listener {listener.name} has port 0, and {workers} workers need ports that "
                "follow each other: choose the first of them, --listen 127.0.0.1:9092 for instance"
            )
    bound = list(_bound(listeners, workers))
    if http is not None and http[1]:
        bound.append(_Ports("--http", *http, http[1]))
    _check_apart(bound, workers, _may_be_the_same)
    # Two names are two ways to this machine, most likely: what they are called, clients resolve.
    _check_apart(list(_told(listeners, workers)), workers, operator.eq)


def _bound(listeners: tuple[Listener, ...], workers: int) -> Iterator[_Ports]:
    for one in listeners:
        yield _Ports(f"listener {one.name}", one.host, one.port, one.port + workers - 1)


def _told(listeners: tuple[Listener, ...], workers: int) -> Iterator[_Ports]:
    """Yield what clients are told: who is told a sibling's port talks to the wrong broker."""
    for one in listeners:
        host, port = one.advertised_host or one.host, one.advertised_port or one.port
        yield _Ports(f"what clients of {one.name} are told", host, port, port + workers - 1)


def _check_apart(ranges: list[_Ports], workers: int, are_one: Callable[[str, str], bool]) -> None:
    for one in ranges:
        if one.last > PORT_MAX:
            raise InvalidInputError(
                f"{one}, a port for each of {workers} workers, and the last port is {PORT_MAX}: "
                "choose a lower one"
            )
    for one, other in combinations(ranges, 2):
        apart = one.last < other.first or other.last < one.first
        if not apart and are_one(one.host, other.host):
            raise InvalidInputError(
                f"worker i of {workers} listens on port + i, and ports overlap: {one}, and {other}."
                f" Choose ports that are {workers} apart or more"
            )


def _may_be_the_same(one: str, other: str) -> bool:
    """Say whether two hosts may be one address of this machine: if in doubt, they may."""
    if one == other:
        return True
    first, second = _address(one), _address(other)
    if first is None or second is None:
        return True  # A name, which may mean either.
    return first.is_unspecified or second.is_unspecified


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host or "0.0.0.0")  # noqa: S104 (compared, not bound)
    except ValueError:
        return None
