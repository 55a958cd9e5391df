"""Hosts hear each other until they are cut off, and a stepped clock is wrong and nothing else."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts.clocks import CACHE_S, SteppedClock
from tests.parts.hosts import CLIENTS, STORE, Hosts, Way, running_hosts
from tests.parts.process import mortal
from tests.patience import in_time

LATE_S = 0.7
"""Nothing that takes longer comes on a machine's own network."""

SERVER = """
import socket, sys
server = socket.create_server((sys.argv[1], 7))
print("ready", flush=True)
while True:
    link, _ = server.accept()
    link.sendall(b"x")
    link.close()
"""

CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[1], 7), float(sys.argv[2])) as link:
    link.settimeout(float(sys.argv[2]))
    assert link.recv(1) == b"x"
"""


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """Three, the first of which answers whoever connects."""
    with running_hosts(3) as some:
        argv = [*some.within(1), sys.executable, "-c", SERVER, some.address(1)]
        with subprocess.Popen(mortal(argv), stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            server.stdout.readline()
            yield some
            server.kill()


def hears(hosts: Hosts, who: int) -> bool:
    """Whether a host, or 0 for this machine, gets an answer of the first one."""
    within = hosts.within(who) if who else []
    argv = [*within, sys.executable, "-c", CLIENT, hosts.address(1), str(LATE_S)]
    return subprocess.run(argv, stderr=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize("way", Way)
def test_who_is_cut_off_hears_nothing_and_the_others_do(hosts: Hosts, way: Way) -> None:
    in_time(all(hears(hosts, who) for who in (0, 2, 3)), "they do not hear each other yet")
    hosts.cut(1, 2, way)
    assert [hears(hosts, who) for who in (0, 2, 3)] == [True, False, True]
    hosts.cut(1, CLIENTS, way)
    assert [hears(hosts, who) for who in (0, 3)] == [False, True]
    hosts.heal()
    assert all(hears(hosts, who) for who in (0, 2))
    hosts.cut(1, STORE, way)
    assert all(hears(hosts, who) for who in (0, 2))


def test_what_a_process_has_left_that_is_no_more_is_swept_away() -> None:
    """One that is killed takes nothing away."""
    make = "import os, tests.parts.hosts as h\nh._sweep(); h.Hosts(1).make(); os._exit(0)"
    child = subprocess.Popen([sys.executable, "-c", make], start_new_session=True)
    assert child.wait() == 0
    stem = f"llx{child.pid}x"

    def left() -> list[str]:
        places = (Path("/run/netns"), Path("/sys/class/net"))
        return [path.name for place in places for path in place.glob(f"{stem}*")]

    assert left()
    with running_hosts(1):
        assert left() == []


def test_a_stepped_clock_jumps_while_other_clocks_and_sleep_go_on(tmp_path: Path) -> None:
    clock = SteppedClock(tmp_path / "clock")
    tell = """
import time
while True:
    print(time.time() - time.monotonic(), flush=True)
    time.sleep(0.1)
"""
    env = {**os.environ, **clock.env()}  # noqa: TID251 (a child inherits)
    argv = mortal([sys.executable, "-c", tell])
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        right = time.time() - time.monotonic()  # noqa: TID251 (of clocks)
        assert abs(float(child.stdout.readline()) - right) < 5
        for step in (600, -600, 0):
            clock.step(step)
            end = time.monotonic() + CACHE_S + 20
            while abs(float(child.stdout.readline()) - right - step) >= 5:
                in_time(time.monotonic() < end, f"the clock did not step by {step} s")
        child.kill()
