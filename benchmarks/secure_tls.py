"""What TLS costs a broker: what it does in a second of its processor, over that without TLS.

    requests   small produce requests, fifty on their way
    in         produce requests of a megabyte
    out        fetches of megabytes, which come from memory

One broker in a process of its own has a plain listener and one with TLS, on a store in memory.
Loads go to either by turns, and what counts is the processor time of the broker, because the client
pays for its own TLS. The value is the smallest of the three medians.

A fetch from memory is what TLS costs most: without it, bytes are handed to the kernel as they lie;
with it, each is encrypted and copied, at about a gigabyte a second.
"""

import asyncio
import json
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import structlog
import uvloop

from benchmarks.measure import arguments, closing_line
from lakelog.broker import BrokerSettings, Listener, run_broker
from lakelog.broker.tls_settings import TlsSettings
from lakelog.catalog import create_topic, make_namespace
from lakelog.host import new_id, tune_process
from lakelog.model import Rules
from lakelog.security import SecurityProtocol
from lakelog.store import MemoryStore, run, working
from tests.certificates import Authority
from tests.unit.broker.site import Client, batch

BAR = 0.6
TOPIC = "t"
SMALL_BYTES, LARGE_BYTES = 200, 900_000
DEPTH = 50


# ---------------------------------------------------------------------------- the broker


async def _serve(keys: str) -> None:
    store = MemoryStore()
    perform = working(store.perform)
    run(make_namespace(new_id(), Rules(lanes=1)), perform)
    making = create_topic(TOPIC, topic_id=new_id(), partitions=1, lanes=1, now_ms=0)
    run(making, perform)
    tls = TlsSettings(key_store=keys)
    listeners = (
        Listener(name="PLAINTEXT", port=0),
        Listener(name="SSL", port=0, protocol=SecurityProtocol.SSL, tls=tls),
    )
    log = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(40),
    )
    async with run_broker(store, BrokerSettings(listeners=listeners), log) as running:
        print(json.dumps(running.ports), flush=True)
        await asyncio.Event().wait()


def _die_with_the_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process so far."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(one.read_text().split()[0]) for one in threads) / 1e9


# ---------------------------------------------------------------------------- the client


class Load:
    """One connection, and requests that were written before the clock begins to run."""

    def __init__(self, port: int, context: ssl.SSLContext | None) -> None:
        plain = socket.create_connection(("127.0.0.1", port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = (
            plain if context is None else context.wrap_socket(plain, server_hostname="localhost")
        )
        self._buffer = bytearray(1 << 20)

    def ask(self, frame: bytes, count: int, depth: int) -> None:
        """Send a request so many times, of which some may be on their way."""
        sent = answered = 0
        while answered < count:
            now = min(depth - (sent - answered), count - sent)
            if now:
                self._socket.sendall(frame * now)
                sent += now
            self._skip(int.from_bytes(self._exactly(4), "big"))
            answered += 1

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    def _skip(self, size: int) -> None:
        while size:
            got = self._socket.recv_into(self._buffer, min(size, len(self._buffer)))
            if not got:
                raise EOFError
            size -= got


class _Frames:
    """Writes what a client would send."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data = data


def _frames() -> dict[str, bytes]:
    kept: Any = _Frames()
    client = Client(kept, kept)
    client.send_produce({(TOPIC, 0): batch(bytes(SMALL_BYTES))})
    small = kept.data
    client.send_produce({(TOPIC, 0): batch(os.urandom(LARGE_BYTES))})
    large = kept.data
    client.send_fetch({(TOPIC, 0): 0})
    return {"requests": small, "in": large, "out": kept.data}


def _round(pid: int, load: Load, frame: bytes, count: int, depth: int) -> float:
    before = _cpu_s(pid)
    load.ask(frame, count, depth)
    return count / (_cpu_s(pid) - before)


def measure(
    ports: dict[str, int], pid: int, authority: Authority, *, quick: bool
) -> dict[str, Any]:
    """Return what TLS does of what is done without, for each load."""
    context = ssl.create_default_context(cadata=authority.certificate_pem)
    loads = {"plain": Load(ports["PLAINTEXT"], None), "tls": Load(ports["SSL"], context)}
    frames, rounds = _frames(), 3 if quick else 15
    sizes = {"out": (400, 2), "requests": (5_000, DEPTH), "in": (100, 2)}
    loads["plain"].ask(frames["in"], 4, 1)  # Something to fetch, which stays the same.
    found: dict[str, Any] = {}
    for what, (count, depth) in sizes.items():
        rates: dict[str, list[float]] = {name: [] for name in loads}
        for load in loads.values():  # To be warm.
            load.ask(frames[what], count // 4, depth)
        for at in range(rounds):
            for name in sorted(loads, reverse=bool(at % 2)):
                rates[name].append(_round(pid, loads[name], frames[what], count, depth))
        ratios = [tls / plain for tls, plain in zip(rates["tls"], rates["plain"], strict=True)]
        found[what] = {"ratio": round(statistics.median(ratios), 3)}
        for name in loads:
            found[what][f"{name}_per_cpu_s"] = round(statistics.median(rates[name]))
    return found


def figures(*, quick: bool) -> dict[str, Any]:
    """Return what is left of each speed, and what it is made of."""
    authority = Authority()
    with tempfile.TemporaryDirectory() as home:
        keys = authority.sign().write(Path(home, "broker.pem"))
        broker = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.secure_tls", "--serve", str(keys)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert broker.stdin is not None
        assert broker.stdout is not None
        with broker.stdin, broker.stdout:
            ports = json.loads(broker.stdout.readline())
            found = measure(ports, broker.pid, authority, quick=quick)
        broker.wait(10)
    return found


def main() -> None:
    asked = arguments(
        __doc__, lambda parser: parser.add_argument("--serve", metavar="KEYS", help="be the broker")
    )
    if asked.serve:
        threading.Thread(target=_die_with_the_parent, daemon=True).start()
        tune_process()
        uvloop.run(_serve(asked.serve))
        return
    found = figures(quick=asked.quick)
    value = min(one["ratio"] for one in found.values())
    closing_line(name="secure_tls", value=value, bar=BAR, **found)


if __name__ == "__main__":
    main()
