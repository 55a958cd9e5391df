"""Where a run takes place: three brokers, each on a host of its own, with its own clock.

    clients, this machine     10.77.N.1
    the store                 10.77.N.2: a proxy for each broker, all before one SeaweedFS
    brokers                   10.77.N.11, .12, .13
    servers of etcd           10.77.N.14, .15, .16, if members and groups are in etcd

So whatever befalls a broker's network, store or clock befalls that one alone.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakelog.store import METADATA
from tests.parts.clocks import SteppedClock
from tests.parts.cluster import Cluster, Site, running_cluster
from tests.parts.etcd import Etcd, Place, killable, running_etcd
from tests.parts.flaky_proxy import FlakyProxy, running_flaky_proxy
from tests.parts.hosts import Hosts, running_hosts
from tests.parts.seaweedfs import SeaweedFS
from tests.parts.walls import Walls

__all__ = ["BROKERS", "ETCD_SERVERS", "Stage", "staged"]

BROKERS = ETCD_SERVERS = 3


@dataclass(frozen=True)
class Stage:
    """All that faults can be done to."""

    cluster: Cluster
    hosts: Hosts
    proxies: Mapping[int, FlakyProxy]
    """The store, as each broker sees it."""
    clocks: Mapping[int, SteppedClock]
    etcd: Etcd | None = None
    """Where members and groups are; None: in the bucket."""

    def heal(self) -> None:
        """Let every broker have its network, its store, its clock and its etcd."""
        self.hosts.heal()
        for server in range(ETCD_SERVERS if self.etcd else 0):
            self.revive(server)
        for proxy in self.proxies.values():
            proxy.heal()
            proxy.delay(0)
        for clock in self.clocks.values():
            clock.step(0)

    def host_of(self, server: int) -> int:
        """Return the host of a server of etcd."""
        return BROKERS + 1 + server

    def revive(self, server: int) -> None:
        """Let a server of etcd run, whatever has befallen it, and be heard."""
        assert self.etcd is not None
        self.hosts.mend(self.host_of(server))
        if self.etcd.servers[server].is_running:
            self.etcd.servers[server].resume()
        else:
            self.etcd.launch(server)


@contextlib.contextmanager
def staged(
    seaweedfs: SeaweedFS,
    url: str,
    home: Path,
    *,
    seed: int,
    heartbeat_ms: int | None,
    arguments: Sequence[str] = ("--no-keep",),
    module: str = "lakelog",
    env: Mapping[str, str] | None = None,
    with_etcd: bool = False,
    walls: Walls | None = None,
    before: Callable[[Mapping[str, str]], None] = lambda _: None,
) -> Iterator[Stage]:
    """Brokers that serve, each on a host; all of it is gone afterwards.

    ``before`` they start, something is done with the options of the store.
    """
    nodes = range(1, BROKERS + 1)
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(running_hosts(BROKERS + ETCD_SERVERS * with_etcd))
        options, etcd = dict(seaweedfs.options), None
        if with_etcd:
            etcd = stack.enter_context(_etcd(hosts, home))
            options[METADATA] = etcd.url("chaos")
        before(options)
        proxies = {
            node: stack.enter_context(
                running_flaky_proxy(seaweedfs.endpoint, seed * 10 + node, hosts.store)
            )
            for node in nodes
        }
        clocks = {node: SteppedClock(home / f"clock-{node}") for node in nodes}
        sites = {
            node: Site(
                hosts.address(node),
                hosts.within(node),
                {**clocks[node].env(), **(env or {})},
                {"endpoint": proxies[node].endpoint},
                walls,
            )
            for node in nodes
        }
        cluster = stack.enter_context(
            running_cluster(
                url,
                options,
                brokers=BROKERS,
                heartbeat_ms=heartbeat_ms,
                arguments=arguments,
                module=module,
                home=home,
                sites=sites,
            )
        )
        yield Stage(cluster, hosts, proxies, clocks, etcd)


def _etcd(hosts: Hosts, home: Path) -> contextlib.AbstractContextManager[Etcd]:
    numbers = range(BROKERS + 1, BROKERS + ETCD_SERVERS + 1)
    places = [Place(hosts.address(number), hosts.within(number)) for number in numbers]
    folder = home / "etcd"
    folder.mkdir()
    return running_etcd(ETCD_SERVERS, places=places, binary=killable(), home=folder)
