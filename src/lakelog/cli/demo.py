"""`lakelog demo`: from nothing to records that were written and read, in one command.

The broker is the real one, on a temporary folder. The client is a page of code: it speaks Kafka's
protocol over the socket, so that the demo needs no client to be installed, and shows that any will
do.
"""

import asyncio
import socket
import sys
import tempfile
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from lakelog.cli.arguments import missing
from lakelog.errors import LakelogError, UnavailableError
from lakelog.host import SystemClock
from lakelog.model import Record
from lakelog.records import NewBatch, decode_batches, encode_batch

__all__ = ["demo"]

TOPIC = "demo"
RECORDS = 5
PORT = 9092
ANSWER_BYTES_MAX = 1 << 20
DEADLINE_S = 30.0


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), help="9092 if it is free, else any.")
def demo(port: int | None) -> None:
    """Start a broker on a temporary folder, and show it off.

    Makes a topic, writes and reads a few records, says what to try, and runs until Ctrl-C. The
    folder goes with it.
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
    """Return the port to listen on: Kafka's, unless somebody has it."""
    if port is not None:
        return port
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return PORT if tried.connect_ex(("127.0.0.1", PORT)) else 0


def _run(folder: Path, port: int) -> None:
    from lakelog.broker import BrokerSettings, CoordinatorSettings, Listener
    from lakelog.cli.logs import make_log
    from lakelog.cli.running import Plan, open_log, run_plan
    from lakelog.journal import FlushSettings
    from lakelog.store import StoreSpec

    plan = Plan(
        spec=StoreSpec(f"file://{folder}"),
        settings=BrokerSettings(
            listeners=(Listener(port=port),),
            flush=FlushSettings(interval_ms=1),
            groups=CoordinatorSettings(commit_interval_ms=1),
        ),
        http=("127.0.0.1", 0),
    )
    store, _, _ = open_log(plan.spec, make=True)

    async def ready(running: Any) -> None:
        (bound,) = running.broker.ports.values()
        try:
            async with asyncio.timeout(DEADLINE_S):
                lines = await _write_and_read(bound)
        except (OSError, EOFError, TimeoutError) as error:
            raise UnavailableError(f"no answer of the broker: {error!r}: try again") from error
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


# ---------------------------------------------------------------------------- a client of a page


class _Client:
    """Sends a request and reads its answer; kio knows how each looks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, request: Any) -> Any:
        from kio.index import load_response_schema
        from kio.serial import entity_reader, entity_writer

        out, kind = _Buffer(), type(request)
        header = kind.__header_schema__(
            request_api_key=kind.__api_key__,
            request_api_version=kind.__version__,
            correlation_id=1,
            client_id="lakelog-demo",
        )
        write: Any = entity_writer
        write(type(header))(out, header)
        write(kind)(out, request)
        self._writer.write(len(out).to_bytes(4, "big") + out)
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        if size > ANSWER_BYTES_MAX:
            raise UnavailableError(f"an answer of {size} bytes: is it a broker? Use another port")
        body = await self._reader.readexactly(size)
        schema: Any = load_response_schema(kind.__api_key__, kind.__version__)
        _, at = entity_reader(schema.__header_schema__)(body, 0)
        answer, _ = entity_reader(schema)(body, at)
        return answer


class _Buffer(bytearray):
    write = bytearray.extend


def _request(api: str, version: int) -> Any:
    """Return the module in which kio describes a request."""
    return import_module(f"kio.schema.{api}.v{version}.request")


def _check(row: Any) -> None:
    if row.error_code.value:
        raise UnavailableError(f"the broker says {row.error_code.name}: try lakelog demo again")


async def _write_and_read(port: int) -> list[str]:
    """Make the topic, write records, and return what is read back, a line each."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        client = _Client(reader, writer)
        await _create(client)
        await _write(client)
        return await _read(client)
    finally:
        writer.close()


async def _create(client: _Client) -> None:
    api = _request("create_topics", 7)
    topic = api.CreatableTopic(
        name=TOPIC, num_partitions=1, replication_factor=-1, assignments=(), configs=()
    )
    _check((await client.ask(api.CreateTopicsRequest(topics=(topic,)))).topics[0])


async def _write(client: _Client) -> None:
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
    api = _request("produce", 9)
    data = api.PartitionProduceData(index=0, records=encode_batch(NewBatch(records=records)))
    topic = api.TopicProduceData(name=TOPIC, partition_data=(data,))
    request = api.ProduceRequest(
        transactional_id=None, acks=-1, timeout=timedelta(seconds=10), topic_data=(topic,)
    )
    _check((await client.ask(request)).responses[0].partition_responses[0])


async def _read(client: _Client) -> list[str]:
    api = _request("fetch", 12)
    part = api.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 19)
    topic = api.FetchTopic(topic=TOPIC, partitions=(part,))
    request = api.FetchRequest(
        max_wait=timedelta(seconds=5), min_bytes=1, topics=(topic,), forgotten_topics_data=()
    )
    found = (await client.ask(request)).responses[0].partitions[0]
    _check(found)
    return [
        f"offset {one.offset}  {(one.key or b'').decode()}  {(one.value or b'').decode()}"
        for batch in decode_batches(bytes(found.records or b""))
        for one in batch.records
    ]
