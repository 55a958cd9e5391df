"""Where a run takes place: three brokers, each on a host of its own, with its own clock.

    clients, this machine     10.77.N.1
    the store                 10.77.N.2: a proxy for each broker, all before one SeaweedFS
    brokers                   10.77.N.11, .12, .13

So whatever befalls a broker's network, store or clock befalls that one alone.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.parts.clocks import SteppedClock
from tests.parts.cluster import Cluster, Site, running_cluster
from tests.parts.flaky_proxy import FlakyProxy, running_flaky_proxy
from tests.parts.hosts import Hosts, running_hosts
from tests.parts.seaweedfs import SeaweedFS

__all__ = ["BROKERS", "Stage", "staged"]

BROKERS = 3


@dataclass(frozen=True)
class Stage:
    """All that faults can be done to."""

    cluster: Cluster
    hosts: Hosts
    proxies: Mapping[int, FlakyProxy]
    """The store, as each broker sees it."""
    clocks: Mapping[int, SteppedClock]

    def heal(self) -> None:
        """Let every broker have its network, its store and its clock."""
        self.hosts.heal()
        for proxy in self.proxies.values():
            proxy.heal()
            proxy.delay(0)
        for clock in self.clocks.values():
            clock.step(0)


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
) -> Iterator[Stage]:
    """Brokers that serve, each on a host; all of it is gone afterwards."""
    nodes = range(1, BROKERS + 1)
    with contextlib.ExitStack() as stack:
        hosts = stack.enter_context(running_hosts(BROKERS))
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
            )
            for node in nodes
        }
        cluster = stack.enter_context(
            running_cluster(
                url,
                seaweedfs.options,
                brokers=BROKERS,
                heartbeat_ms=heartbeat_ms,
                arguments=arguments,
                module=module,
                home=home,
                sites=sites,
            )
        )
        yield Stage(cluster, hosts, proxies, clocks)
