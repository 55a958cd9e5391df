"""Workers of one machine: what is divided among them, and where they listen."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.broker import (
    BrokerSettings,
    Limits,
    Listener,
    MaintenanceSettings,
    divide_maintenance,
    divide_settings,
)
from lakelog.broker.limits import LIMITS
from lakelog.errors import InvalidInputError

DIVIDED = [row.name for row in LIMITS if row.divided]
workers = st.integers(2, 64)


def told(one: Listener) -> tuple[str, int]:
    return one.advertised_host or one.host, one.advertised_port or one.port


# ---------------------------------------------------------------------------- limits


@given(count=workers, data=st.data())
def test_all_workers_together_have_what_the_machine_has_and_waste_little_of_it(
    count: int, data: st.DataObject
) -> None:
    sizes = {name: data.draw(st.integers(count, 1 << 40), name) for name in DIVIDED}
    parts = divide_settings(BrokerSettings(limits=Limits(**sizes)), count)
    for name, whole in sizes.items():
        together = sum(getattr(one.limits, name) for one in parts)
        assert whole - count < together <= whole
        assert all(getattr(one.limits, name) >= 1 for one in parts)


@given(count=workers)
def test_what_is_not_of_the_machine_each_worker_has_whole(count: int) -> None:
    for one in divide_settings(BrokerSettings(), count):
        for row in LIMITS:
            if not row.divided:
                assert getattr(one.limits, row.name) == row.default


def test_memory_connections_and_rates_are_of_the_machine() -> None:
    assert {"memory_bytes", "answer_bytes", "cache_bytes", "connections"} <= set(DIVIDED)
    assert not {"request_bytes_max", "shard_new_bytes", "topics", "files_reserved"} & set(DIVIDED)


def test_what_follows_from_another_limit_still_does() -> None:
    (one, _) = divide_settings(BrokerSettings(), 2)
    assert one.limits.connections_per_address == 0


def test_a_worker_has_one_at_least_of_what_is_too_little_to_divide() -> None:
    parts = divide_settings(BrokerSettings(limits=Limits(connections=3)), 4)
    assert [one.limits.connections for one in parts] == [1, 1, 1, 1]


@given(count=workers, size=st.integers(512 << 20, 1 << 40))
def test_a_maintenance_process_has_its_part_and_what_it_needs(count: int, size: int) -> None:
    one = divide_maintenance(MaintenanceSettings(memory_bytes=size), count)
    assert one is not None
    assert one.memory_bytes == max(size // count, 512 << 20)
    assert divide_maintenance(None, count) is None


# ---------------------------------------------------------------------------- ids and ports


@given(count=workers, first=st.integers(0, 1000))
def test_ids_follow_each_other_if_the_first_is_given(count: int, first: int) -> None:
    given_ = divide_settings(BrokerSettings(node_id=first), count)
    assert [one.node_id for one in given_] == list(range(first, first + count))
    assert {one.node_id for one in divide_settings(BrokerSettings(), count)} == {None}


HOSTS = st.sampled_from(["127.0.0.1", "10.0.0.1", "0.0.0.0", "localhost", "::1"])
listeners = st.builds(
    Listener,
    name=st.sampled_from(["A", "B", "C"]),
    host=HOSTS,
    port=st.integers(0, (1 << 16) - 1),
    advertised_host=st.sampled_from(["", "a.example", "b.example"]),
    advertised_port=st.integers(0, (1 << 16) - 1),
)


@given(
    count=st.integers(2, 8),
    first=st.integers(0, (1 << 16) - 1),
    apart=st.lists(st.integers(-20, 20), max_size=2),
    build=st.lists(listeners, min_size=3, max_size=3),
)
def test_no_two_workers_have_one_port_and_no_client_is_told_anothers(
    count: int, first: int, apart: list[int], build: list[Listener]
) -> None:
    """Whatever is not refused is without a collision, by counting them all."""
    ports = [first, *(first + step for step in apart)]
    some = tuple(
        replace(one, port=port) for one, port in zip(build, ports, strict=False) if port >= 0
    )
    try:
        parts = divide_settings(BrokerSettings(listeners=some), count)
    except InvalidInputError:
        return
    bound = [(one.host, one.port) for part in parts for one in part.listeners]
    named = [told(one) for part in parts for one in part.listeners]
    for addresses in (bound, named):
        assert len(set(addresses)) == len(addresses)
        assert all(1 <= port < 1 << 16 for _, port in addresses)
    everywhere = [port for host, port in bound if host == "0.0.0.0"]
    for port in everywhere:
        assert [one for _, one in bound].count(port) == 1


@given(count=workers, first=st.integers(1024, 60_000))
def test_one_listener_is_never_refused(count: int, first: int) -> None:
    one = Listener(port=first, advertised_host="h", advertised_port=first + 1)
    parts = divide_settings(BrokerSettings(listeners=(one,)), count, ("127.0.0.1", first - 1))
    assert [part.listeners[0].port for part in parts] == list(range(first, first + count))
    assert [told(part.listeners[0]) for part in parts] == [
        ("h", first + 1 + worker) for worker in range(count)
    ]


def listen(*ports: int, **more: Any) -> Callable[[], object]:
    named = zip("ABC", ports, strict=False)
    some = tuple(Listener(name=name, port=port, **more) for name, port in named)
    http = ("127.0.0.1", ports[-1]) if len(ports) > len(some) else None
    return lambda: divide_settings(BrokerSettings(listeners=some), 3, http)


OVERLAP = "worker i of 3 listens on port + i, and ports overlap: "
APART = ". Choose ports that are 3 apart or more"


@pytest.mark.parametrize(
    ("try_", "said"),
    [
        (
            listen(9092, 9094),
            f"{OVERLAP}listener A needs 9092 to 9094, and listener B needs 9094 to 9096{APART}",
        ),
        (
            lambda: divide_settings(BrokerSettings(), 3, ("127.0.0.1", 9093)),
            f"{OVERLAP}listener PLAINTEXT needs 9092 to 9094, and --http needs 9093{APART}",
        ),
        (
            lambda: divide_settings(
                BrokerSettings(
                    listeners=(
                        Listener(name="A", port=1000, advertised_host="h", advertised_port=1),
                        Listener(name="B", port=2000, advertised_host="h", advertised_port=3),
                    )
                ),
                3,
            ),
            (f"{OVERLAP}what clients of A are told needs 1 to 3, and what clients of B are told "
            f"needs 3 to 5{APART}"),
        ),
        (
            listen(65_534),
            ("listener A needs 65534 to 65536, a port for each of 3 workers, and the last port is"
            " 65535: choose a lower one"),
        ),
        (
            listen(0),
            ("listener A has port 0, and 3 workers need ports that follow each other: choose the"
            " first of them, --listen 127.0.0.1:9092 for instance"),
        ),
    ],
)  # fmt: skip
def test_ports_that_cannot_be_are_refused_in_a_sentence(
    try_: Callable[[], object], said: str
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        try_()
    assert str(refused.value) == said


def test_ports_three_apart_are_enough_for_three_and_other_hosts_are_others() -> None:
    listen(9092, 9095)()
    two = (Listener(name="A", host="10.0.0.1"), Listener(name="B", host="10.0.0.2"))
    assert len(divide_settings(BrokerSettings(listeners=two), 3, ("127.0.0.1", 9093))) == 3
    divide_settings(BrokerSettings(), 3, ("127.0.0.1", 0))  # Any port that is free.
