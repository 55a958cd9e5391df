"""Hosts on one machine: network namespaces at a bridge, between which the network can be cut.

    with running_hosts(3) as hosts:
        hosts.address(1)                where host 1 is found, by all the others and by this machine
        [*hosts.within(1), *argv]       a command that runs there
        hosts.cut(1, STORE)             host 1 and the store do not hear each other
        hosts.cut(1, 2, Way.IN)         host 1 does not hear host 2, which hears it
        hosts.heal()                    all is well again

The machine itself has two addresses at the bridge: what it connects from, which is where clients
are, and ``store``, for whoever listens there. So a host can lose the one and keep the other.

It takes root, Debian's iproute2 and iptables. There are no delays: the kernels of some machines
have no netem, and a proxy delays as well.

Whatever is made has the id of this process in its name. What a process has left that is no more is
swept away by the next one; a namespace without its processes is gone with its bridge.
"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path

from tests.parts.process import FailedPartError, MissingPartError

__all__ = ["CLIENTS", "STORE", "Hosts", "Way", "running_hosts"]

CLIENTS, STORE = "clients", "store"
_PREFIX = "llx"
_NAMESPACES = Path("/run/netns")
_SUBNETS = 200
_OWNED = re.compile(rf"{_PREFIX}(\d+)x[0-9a-f]+?(?=[h-]|$)")
"""What all names of one process begin with, and its id."""
_TOOLS = ("ip", "iptables", "nsenter")


class Way(Enum):
    """Which way nothing goes any more, as the host sees it that is cut off."""

    BOTH = "both"
    IN = "in"
    OUT = "out"


class Hosts:
    """Hosts 1 to N, all of which reach each other."""

    def __init__(self, count: int) -> None:
        self._lock, subnet = _own_subnet()
        self._net = f"10.77.{subnet}"
        self._stem = f"{_PREFIX}{os.getpid()}x{subnet:x}"
        self.numbers = range(1, count + 1)
        self.store = f"{self._net}.2"
        """The address for what all hosts need, and this machine has."""

    def address(self, host: int) -> str:
        """Return where a host is found."""
        return f"{self._net}.{10 + host}"

    def within(self, host: int) -> list[str]:
        """Return what to put before a command line, so that it runs on a host."""
        return ["nsenter", f"--net={_NAMESPACES / self._name(host)}", "--"]

    def cut(self, host: int, peer: str | int, way: Way = Way.BOTH) -> None:
        """Let nothing come or go between a host and the store, the clients or another host."""
        address = self._address_of(peer)
        rules = {Way.IN: ("INPUT", "-s"), Way.OUT: ("OUTPUT", "-d")}
        for one, (chain, side) in rules.items():
            if way in (Way.BOTH, one):
                self._filter(host, "-A", chain, side, address, "-j", "DROP")

    def mend(self, host: int) -> None:
        """Undo what was cut at a host; what was cut at another one stays so."""
        self._filter(host, "-F")

    def heal(self) -> None:
        """Let all of them reach each other."""
        for host in self.numbers:
            self.mend(host)

    def _address_of(self, peer: str | int) -> str:
        if isinstance(peer, int):
            return self.address(peer)
        return {CLIENTS: f"{self._net}.1", STORE: self.store}[peer]

    def _filter(self, host: int, *arguments: str) -> None:
        _run([*self.within(host), "iptables", "-w", *arguments])

    def _name(self, host: int) -> str:
        return f"{self._stem}-{host}"

    # ------------------------------------------------------------------------ coming and going

    def make(self) -> None:
        """Make the bridge, and all hosts."""
        bridge = self._stem
        _ip("link", "add", bridge, "type", "bridge", "forward_delay", "0")
        for address in (f"{self._net}.1", self.store):
            _ip("addr", "add", f"{address}/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for host in self.numbers:
            name, end = self._name(host), f"{self._stem}h{host}"
            _ip("netns", "add", name)
            _ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", end, "master", bridge, "up")
            _ip("-n", name, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                _ip("-n", name, "link", "set", device, "up")

    def unmake(self) -> None:
        """Take all of it away."""
        _remove([self._stem])
        self._lock.close()


def _own_subnet() -> tuple[socket.socket, int]:
    """Return a number that no other process has while the socket is open, or this one lives."""
    for subnet in range(_SUBNETS):
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0lakelog-hosts-{subnet}")
        except OSError:
            lock.close()
        else:
            return lock, subnet
    raise FailedPartError(f"{_SUBNETS} processes have networks of hosts: end some of them")


def _sweep() -> None:
    """Remove what is left of processes that are no more."""
    places = (_NAMESPACES, Path("/sys/class/net"))
    names = [path.name for place in places for path in place.glob(f"{_PREFIX}*")]
    owners = {found[0]: found[1] for name in names if (found := _OWNED.match(name))}
    _remove([stem for stem, owner in owners.items() if not Path("/proc", owner).exists()])


def _remove(stems: Sequence[str]) -> None:
    for stem in stems:
        for path in _NAMESPACES.glob(f"{stem}-*"):
            _ip("netns", "del", path.name)
        # A namespace lives on while a process is in it, and its end of a cable with it.
        for path in Path("/sys/class/net").glob(f"{stem}*"):
            with contextlib.suppress(FailedPartError):  # The kernel may have been faster.
                _ip("link", "del", path.name)


def _ip(*arguments: str) -> str:
    return _run(["ip", *arguments])


def _run(argv: Sequence[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise FailedPartError(f"`{' '.join(argv)}` failed: {done.stderr.strip()}")
    return done.stdout


@contextlib.contextmanager
def running_hosts(count: int) -> Iterator[Hosts]:
    """So many hosts, gone afterwards, with whatever still runs on them cut off from all."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        raise MissingPartError(
            f"{', '.join(missing)} is missing: apt-get install iproute2 iptables util-linux"
        )
    if os.geteuid() != 0:
        raise MissingPartError("hosts are network namespaces, which take root: run this as root")
    _sweep()
    hosts = Hosts(count)
    try:
        hosts.make()
        yield hosts
    finally:
        hosts.unmake()
