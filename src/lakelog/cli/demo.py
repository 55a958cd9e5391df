"""`lakelog demo`: from nothing to records that were written and read, in one command.

The broker is the real one, on a temporary folder. The client is that of Kafka's tools: it speaks
Kafka's protocol over the socket, so that the demo needs no other client to be installed.
"""

import asyncio
import socket
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from lakelog.cli.arguments import missing
from lakelog.errors import LakelogError, UnavailableError
from lakelog.host import SystemClock
from lakelog.model import Record
from lakelog.records import NewBatch, decode_batches, encode_batch
from lakelog_kafka_tools import apis
from lakelog_kafka_tools.link import Link
from lakelog_kafka_tools.settings import Security
from lakelog_kafka_tools.thrown import check_codes

__all__ = ["demo"]

TOPIC = "demo"
RECORDS = 5
PORT = 9092
FETCH_BYTES_MAX = 1 << 20
DEADLINE_S = 30.0


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="The port to listen on; 9092 if it is free, else any, unless given.",
)
def demo(port: int | None) -> None:
    """Start a broker on a temporary folder, and show what it does.

    Creates a topic, writes and reads a few records, prints commands to try, and runs until Ctrl-C.
    Then the folder is removed.
    """
    try:
        import lakelog.cli.running  # noqa: F401 (what it needs may not be installed)
    except ImportError as error:
        raise click.UsageError(missing(error, "server")) from error
    try:
        with tempfile.TemporaryDirectory(prefix="lakelog-demo-") as folder:
            _run(Path(folder), _free(port))
    except LakelogError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)


def _free(port: int | None) -> int:
    """Return the port to listen on: Kafka's, unless another process has it."""
    if port is not None:
        return port
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return PORT if tried.connect_ex(("127.0.0.1", PORT)) else 0


def _run(folder: Path, port: int) -> None:
    from lakelog.broker import BrokerSettings, CoordinatorSettings, Listener
    from lakelog.cli.logs import make_log
    from lakelog.cli.running import Plan, open_log, run_plan
    from lakelog.store import StoreSpec

    plan = Plan(
        spec=StoreSpec(f"file://{folder}"),
        settings=BrokerSettings(
            listeners=(Listener(port=port),),
            groups=CoordinatorSettings(commit_interval_ms=1),
        ),
        http=("127.0.0.1", 0),
    )
    store, _, _ = open_log(plan.spec, make=True)

    async def ready(running: Any) -> None:
        (bound,) = running.broker.ports.values()
        try:
            async with asyncio.timeout(DEADLINE_S):
                lines = await asyncio.to_thread(_write_and_read, bound)
        except (LakelogError, TimeoutError) as error:
            raise UnavailableError(f"the broker did not answer: {error}: try again") from error
        click.echo(f"A broker listens on 127.0.0.1:{bound}, and keeps everything in {folder}.")
        click.echo(f"It has a topic, {TOPIC}, to which {RECORDS} records were written. Read back:")
        for line in lines:
            click.echo(f"    {line}")
        click.echo("\nTry, in another terminal:")
        for line in _next_steps(bound, folder, running.http):
            click.echo(f"    {line}")
        click.echo("\nCtrl-C ends it, and removes the folder.")

    run_plan(plan, store, make_log("text", quiet=True), ready=ready)


def _next_steps(port: int, folder: Path, http: tuple[str, int] | None) -> list[str]:
    assert http is not None
    return [
        f"echo hello | kcat -b 127.0.0.1:{port} -t {TOPIC} -P",
        f"kcat -b 127.0.0.1:{port} -t {TOPIC} -C -e",
        f"lakelog topic describe {TOPIC} --storage file://{folder}",
        f"curl http://127.0.0.1:{http[1]}/metrics",
    ]


# ---------------------------------------------------------------------------- a client


def _write_and_read(port: int) -> list[str]:
    """Make the topic, write records, and return what is read back, a line each."""
    with closing(Link("127.0.0.1", port, Security(), "lakelog-demo", DEADLINE_S)) as link:
        topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": -1}
        request = {"topics": [topic], "timeout_ms": 10_000}
        check_codes(link.ask(apis.CREATE_TOPICS, request, DEADLINE_S)["topics"])
        written = link.ask(apis.PRODUCE, _produce_request(), DEADLINE_S)["responses"]
        check_codes(written[0]["partition_responses"])
        found = link.ask(apis.FETCH, _fetch_request(), DEADLINE_S)["responses"]
        check_codes(found[0]["partitions"])
    return [
        f"offset {one.offset}  {(one.key or b'').decode()}  {(one.value or b'').decode()}"
        for batch in decode_batches(found[0]["partitions"][0]["records"] or b"")
        for one in batch.records
    ]


def _produce_request() -> dict[str, Any]:
    now_ms = SystemClock().now_ms()
    records = tuple(
        Record(
            offset=number,
            timestamp=now_ms,
            key=f"key-{number}".encode(),
            value=f"hello, lake {number}".encode(),
        )
        for number in range(RECORDS)
    )
    data = {"index": 0, "records": encode_batch(NewBatch(records=records))}
    topic = {"name": TOPIC, "partition_data": [data]}
    return {"acks": -1, "timeout_ms": 10_000, "topic_data": [topic]}


def _fetch_request() -> dict[str, Any]:
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 19,
    }
    return {
        "replica_id": -1,
        "max_wait_ms": 5_000,
        "min_bytes": 1,
        "max_bytes": FETCH_BYTES_MAX,
        "session_epoch": -1,
        "topics": [{"topic": TOPIC, "partitions": [partition]}],
    }
