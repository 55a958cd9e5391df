"""What befalls whom, by kinds: each begins by itself, and ends.

    broker    kill, kill all, freeze, leave     signals: ``tests.cluster.faults``
    network   cut-store, cut-brokers, cut-clients        nothing goes either way
              one-way-store, -brokers, -clients          nothing goes one way, by chance which
              isolate                                    no network at all
    clock     clock-near                        so much off that a broker goes on: up to 4 minutes
              clock-far                         so much that it has to stop appending: 10 to 20
              clock-strobe                      to and fro between seconds and minutes
    store     store-500                         500s, before or after the store took it
              store-lost                        taken, and the connection reset instead of an answer
              store-503                         a storm of them: three of four requests
              store-slow                        every request takes up to two seconds longer
              store-silent                      no answer at all
    etcd      etcd-kill, etcd-pause, etcd-cut   one of its three servers is killed, paused, or
                                                heard by nobody
              etcd-lost                         two of them at once: there is no majority
              cut-etcd                          a broker hears none of them

A set is what one run has: kinds of one sort, or all of them mixed. Those of etcd befall only runs
whose members and groups are there.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random  # noqa: TID251 (seeded)

from tests.chaos.stage import BROKERS, ETCD_SERVERS, Stage
from tests.cluster.faults import Fault
from tests.cluster.history import Diary
from tests.parts.clocks import CACHE_S, SteppedClock
from tests.parts.etcd import Etcd
from tests.parts.flaky_proxy import Trouble
from tests.parts.hosts import CLIENTS, STORE, Way

__all__ = ["BESIDE", "ETCD", "KINDS", "LEAST_S", "SETS", "faults_of", "kinds_of"]

BROKER = ("kill", "kill all", "freeze", "leave")
CUTS = ("cut-store", "cut-brokers", "cut-clients", "isolate")
ONE_WAY = ("one-way-store", "one-way-brokers", "one-way-clients")
CLOCK = ("clock-near", "clock-far", "clock-strobe")
STORE_KINDS = ("store-500", "store-lost", "store-503", "store-slow", "store-silent")
ETCD = ("etcd-kill", "etcd-pause", "etcd-cut", "etcd-lost", "cut-etcd")

KINDS = (*BROKER, *CUTS, *ONE_WAY, *CLOCK, *STORE_KINDS)
"""Every kind that befalls a cluster, wherever its members are."""

SETS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "kill": ("kill", "kill all"),
    "freeze": ("freeze",),
    "leave": ("leave", "kill"),
    "cuts": CUTS,
    "one-way": ONE_WAY,
    "clock": CLOCK,
    "store": STORE_KINDS,
    "etcd": ETCD,
    "mixed": (*KINDS, *ETCD),
}

_NEAR_S = (1.0, -1.0, 30.0, -30.0, 240.0, -240.0)
_FAR_S = (600.0, -600.0, 1200.0, -1200.0)
_STROBE_S = 0.7

LEAST_S: Mapping[str, float] = {
    **dict.fromkeys((*CUTS, *ONE_WAY), 0.1),
    **dict.fromkeys(CLOCK, CACHE_S + 1.5),
    "clock-strobe": 6.0,
    **dict.fromkeys(STORE_KINDS, 0.5),
    **dict.fromkeys(ETCD, 1.5),  # Longer than servers wait before they elect another leader.
    "freeze-writer": 0.5,
    "kill-keeper": 0.5,
    "kill-pipeline": 25.0,  # As long as Spark takes to start, on two busy cores.
    "freeze-pipeline": 4.0,
    "last-release": 10.0,
}
"""So long each kind lasts at least that is not a signal to a broker, or it would show nothing."""
BESIDE = frozenset({"freeze-writer", "kill-keeper", "kill-pipeline", "freeze-pipeline"})
"""Kinds that befall somebody beside the brokers."""


def kinds_of(faults: str, members: str) -> tuple[str, ...]:
    """Return the kinds of a set, as far as they can befall a cluster."""
    return tuple(kind for kind in SETS[faults] if members == "etcd" or kind not in ETCD)


def faults_of(stage: Stage) -> dict[str, Fault]:
    """Return the faults that are not signals, by kind."""
    hosts, proxies, clocks = stage.hosts, stage.proxies, stage.clocks
    servers = [one for one in hosts.numbers if one > BROKERS]

    def others(node: int) -> list[str | int]:
        return [one for one in hosts.numbers if one <= BROKERS and one != node]

    def cut(peers: Callable[[int], list[str | int]], *, both: bool) -> Fault:
        def begin(node: int, chance: Random) -> None:
            way = Way.BOTH if both else chance.choice((Way.IN, Way.OUT))
            for peer in peers(node):
                hosts.cut(node, peer, way)

        return Fault(begin, hosts.mend)

    def step(seconds: tuple[float, ...]) -> Fault:
        def begin(node: int, chance: Random) -> None:
            clocks[node].step(chance.choice(seconds))

        return Fault(begin, lambda node: clocks[node].step(0))

    def fail(share: float, *ways: Trouble) -> Fault:
        return Fault(
            lambda node, _: proxies[node].fail(share, ways), lambda node: proxies[node].heal()
        )

    peers: dict[str, Callable[[int], list[str | int]]] = {
        "store": lambda _: [STORE],
        "brokers": others,
        "clients": lambda _: [CLIENTS],
    }
    found = {f"cut-{name}": cut(some, both=True) for name, some in peers.items()}
    found |= {f"one-way-{name}": cut(some, both=False) for name, some in peers.items()}
    found["isolate"] = cut(lambda node: [STORE, CLIENTS, *others(node), *servers], both=True)
    found["clock-near"], found["clock-far"] = step(_NEAR_S), step(_FAR_S)
    found["clock-strobe"] = _strobe(clocks)
    found["store-500"] = fail(0.3, Trouble.REFUSED_500, Trouble.DONE_500)
    found["store-lost"] = fail(0.3, Trouble.DONE_DROPPED, Trouble.DROPPED)
    found["store-503"] = fail(0.75, Trouble.REFUSED_503)
    found["store-slow"] = Fault(
        lambda node, chance: proxies[node].delay(chance.uniform(0.2, 2.0)),
        lambda node: proxies[node].delay(0),
    )
    found["store-silent"] = Fault(
        lambda node, _: proxies[node].freeze(), lambda node: proxies[node].heal()
    )
    if stage.etcd is not None:
        found |= _of_etcd(stage, stage.etcd)
        found["cut-etcd"] = cut(lambda _: list(servers), both=True)
    return {kind: replace(one, least_s=LEAST_S[kind]) for kind, one in found.items()}


def _strobe(clocks: Mapping[int, SteppedClock]) -> Fault:
    """Return what lets a clock go to and fro for as long as it lasts."""
    steps = Random("strobe")
    due: dict[int, float] = {}

    def go_on(node: int) -> None:
        if Diary.now() >= due.get(node, 0.0):
            clocks[node].step(steps.choice((0.0, *_NEAR_S)))
            due[node] = Diary.now() + _STROBE_S

    return Fault(lambda node, _: go_on(node), lambda node: clocks[node].step(0), meanwhile=go_on)


def _of_etcd(stage: Stage, etcd: Etcd) -> dict[str, Fault]:
    """Return what befalls servers of etcd: the one that has the number of a broker."""

    def kill(at: int) -> None:
        etcd.servers[at].kill()

    def pause(at: int) -> None:
        if etcd.servers[at].is_running:
            etcd.servers[at].pause()

    def cut(at: int) -> None:
        host = stage.host_of(at)
        peers: list[str | int] = [CLIENTS, *stage.hosts.numbers]
        for peer in peers:
            if peer != host:
                stage.hosts.cut(host, peer)

    def one(do: Callable[[int], None]) -> Fault:
        return Fault(
            lambda node, _: do(node - 1), lambda node: stage.revive(node - 1), is_shared=True
        )

    def two(node: int, chance: Random) -> None:
        for at in (node - 1, node % ETCD_SERVERS):
            chance.choice((kill, pause, cut))(at)

    def revive_two(node: int) -> None:
        for at in (node - 1, node % ETCD_SERVERS):
            stage.revive(at)

    found = {"etcd-kill": one(kill), "etcd-pause": one(pause), "etcd-cut": one(cut)}
    return found | {"etcd-lost": Fault(two, revive_two, is_shared=True)}
