"""The two servers that ``benchmarks.broker`` compares, each a process of its own.

    python -m benchmarks.served bare                     frames in, a constant out
    python -m benchmarks.served broker STORAGE [DELAY [POLICY]]
                                                         a broker; each put takes DELAY ms longer;
                                                         with a POLICY requests have S3's prices
    python -m benchmarks.served judging STORAGE          a broker with an authorizer and many ACLs

Either prints its port, and ends with its parent's pipe. A broker prints what it has counted, as one
line of JSON, for each line that it is sent.
"""

import asyncio
import json
import os
import struct
import sys
import threading
from contextlib import suppress
from typing import Any

import structlog
import uvloop

from lakelog.broker import (
    BrokerSettings,
    CoordinatorSettings,
    Listener,
    Metrics,
    run_broker,
    spend_by_prices,
)
from lakelog.broker.metrics.counters import Histogram
from lakelog.broker.settings import STANDARD_AUTHORIZER, AuthorizerSettings
from lakelog.catalog import add_acls, make_namespace
from lakelog.errors import ConflictError
from lakelog.groups import GroupRules
from lakelog.host import new_id, tune_process
from lakelog.journal import FlushPolicy, FlushSettings
from lakelog.model import Rules
from lakelog.security import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from lakelog.store import S3_PRICES, Op, PutIfAbsent, Store, open_store, run, working

ANSWER_BYTES = 45
"""As many as the broker answers to such a request."""


class Bare(asyncio.Protocol):
    """Reads frames, and answers each with the same bytes."""

    answer = struct.pack(">i", ANSWER_BYTES) + bytes(ANSWER_BYTES)

    def __init__(self) -> None:
        self._transport: Any = None
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        at, end = 0, len(data)
        while end - at >= 4:
            size = int.from_bytes(data[at : at + 4], "big")
            if end - at - 4 < size:
                break
            at += 4 + size
            self._transport.write(self.answer)
        self._rest = data[at:]


class Slow:
    """A store whose puts take longer."""

    def __init__(self, store: Store, delay_ms: int) -> None:
        self.url = store.url
        self.perform = store.perform
        self._store, self._delay_s = store, delay_ms / 1000

    async def perform_async(self, op: Op) -> Any:
        if isinstance(op, PutIfAbsent):
            await asyncio.sleep(self._delay_s)
        return await self._store.perform_async(op)


METRICS = Metrics()


def _die_with_the_parent() -> None:
    for _ in sys.stdin:
        print(json.dumps(_counted()), flush=True)
    os._exit(0)


def _counted() -> dict[str, Any]:
    """Return requests by what they are for, and where the time of produce requests went."""
    puts = METRICS.store_seconds.get("put") or Histogram((1.0,))
    times = {
        "produce": METRICS.api("Produce").seconds,
        "flush": METRICS.flush_seconds,
        "put": puts,
    }
    return {
        "requests": {f"{what} {kind}": n for (what, kind), n in list(METRICS.purposes.items())},
        "flushes": METRICS.flush_bytes.count,
        "flushed_bytes": METRICS.flush_bytes.total,
        "seconds": {name: [row.count, row.total] for name, row in times.items()},
    }


async def bare() -> None:
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def many_acls() -> list[Acl]:
    """Return ACLs that let everybody use topics that begin with ``load``, among many others."""
    topic, literal, prefixed = ResourceType.TOPIC, PatternType.LITERAL, PatternType.PREFIXED
    allow = Operation.ALL, Permission.ALLOW
    others = [Acl(topic, literal, f"t{n}", f"User:u{n % 97}", "*", *allow) for n in range(1_000)]
    others += [Acl(topic, prefixed, "l" * n, "User:u", "*", *allow) for n in range(1, 40)]
    cluster = Acl(ResourceType.CLUSTER, literal, CLUSTER_NAME, "User:*", "*", *allow)
    return [*others, cluster, Acl(topic, prefixed, "load", "User:*", "127.0.0.1", *allow)]


async def broker(storage: str, delay_ms: int, policy: str = "", *, judges: bool = False) -> None:
    store: Store = open_store(storage)
    with suppress(ConflictError):
        run(make_namespace(new_id(), Rules()), working(store.perform))
    if judges:
        run(add_acls(many_acls(), new_id()), working(store.perform))
    settings = BrokerSettings(
        listeners=(Listener(port=0),),
        authorizer=AuthorizerSettings(class_name=STANDARD_AUTHORIZER if judges else ""),
        flush=FlushSettings(policy=FlushPolicy(policy) if policy else None),
        groups=CoordinatorSettings(
            commit_interval_ms=0, rules=GroupRules(initial_rebalance_delay_ms=0)
        ),
    )
    if policy:
        settings = spend_by_prices(settings, S3_PRICES)
    log, slow = structlog.get_logger(), Slow(store, delay_ms) if delay_ms else store
    async with run_broker(slow, settings, log, metrics=METRICS) as running:
        print(running.ports["PLAINTEXT"], flush=True)
        await asyncio.Event().wait()


def main() -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    threading.Thread(target=_die_with_the_parent, daemon=True).start()
    tune_process()
    if sys.argv[1] == "bare":
        uvloop.run(bare())
    else:
        storage, delay_ms, policy = [*sys.argv[2:], *("0", "")[len(sys.argv) - 3 :]]
        judges = sys.argv[1] == "judging"
        uvloop.run(broker(storage, int(delay_ms), policy, judges=judges))


if __name__ == "__main__":
    main()
