"""`lakelog spool`: a log on this machine's disk, which is shipped when there is a way to."""

import base64
import json
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import click

from lakelog.cli.arguments import exit_on_error, json_option, missing, named_values, store_option
from lakelog.cli.tables import counted, show_rows
from lakelog.errors import InvalidInputError, LakelogError

if TYPE_CHECKING:
    from io import BufferedReader
    from types import ModuleType

    from lakelog.spool import SpoolRecord

__all__ = ["spool"]

EXIT_UNVERIFIABLE = 5
"""As ``lakelog pipeline verify`` ends when there is nothing that could tell."""

READ_BYTES = 1 << 16
BATCH_LINES = 10_000
POLL_S = 0.05


@click.group()
def spool() -> None:
    """Append to a log on this machine's disk, read it, and ship it.

    DIR is the folder of a spool. One process writes to it; others may read and ship meanwhile.
    """


def _engine() -> "ModuleType":
    try:
        import lakelog.spool as engine
    except ImportError as error:
        raise click.ClickException(missing(error, "arrow")) from error
    return engine


# ---------------------------------------------------------------------------- writing


@spool.command("append")
@click.argument("folder", metavar="DIR")
@click.argument("topic")
@click.option("--partition", default=0, show_default=True)
@click.option(
    "--sync",
    default="every-write",
    show_default=True,
    help="When records are durable: every-write, records=N, ms=M, or never.",
)
@click.option("--key-separator", help="What stands between key and value; without it, no keys.")
@click.option("--bytes-max", type=int, help="How many bytes the folder may have.")
@click.option(
    "--when-full",
    type=click.Choice(["refuse", "block", "drop"]),
    default="refuse",
    show_default=True,
    help="What becomes of a record for which there is no room.",
)
def _append(
    folder: str,
    topic: str,
    partition: int,
    sync: str,
    key_separator: str | None,
    bytes_max: int | None,
    when_full: str,
) -> None:
    """Append each line of stdin as a record; make the spool if there is none."""
    engine, count = _engine(), 0
    separator = key_separator.encode() if key_separator else None
    with (
        exit_on_error(),
        engine.open(folder, sync=sync, bytes_max=bytes_max, when_full=when_full) as opened,
    ):
        for lines in _lines():
            keys, values = None, lines
            if separator is not None:
                split = [_split(line, separator) for line in lines]
                keys, values = [key for key, _ in split], [value for _, value in split]
            opened.append_many(topic, values, keys=keys, partition=partition)
            count += len(lines)
    click.echo(f"Appended {counted(count, 'record')}.", err=True)


def _lines() -> Iterator[list[bytes]]:
    """Yield the lines of stdin as they come."""
    rest, stdin = b"", cast("BufferedReader", sys.stdin.buffer)
    while data := stdin.read1(READ_BYTES):
        *lines, rest = (rest + data).split(b"\n")
        for at in range(0, len(lines), BATCH_LINES):
            yield lines[at : at + BATCH_LINES]
    if rest:
        yield [rest]


def _split(line: bytes, separator: bytes) -> tuple[bytes | None, bytes]:
    key, found, value = line.partition(separator)
    return (key, value) if found else (None, line)


# ---------------------------------------------------------------------------- reading


@spool.command("cat")
@click.argument("folder", metavar="DIR")
@click.argument("topic")
@click.option("--partition", default=0, show_default=True)
@click.option("--offset", default=0, show_default=True, help="Where to begin.")
@click.option("--limit", type=int, help="How many records at most.")
@json_option
def _cat(
    folder: str, topic: str, partition: int, offset: int, limit: int | None, as_json: bool
) -> None:
    """Print records: their values as lines, or all of them as JSON."""
    with exit_on_error():
        reader = _engine().open_reader(folder)
        for record in reader.records(topic, partition, offset=offset, limit=limit):
            _print(record, as_json=as_json)


@spool.command("tail")
@click.argument("folder", metavar="DIR")
@click.argument("topic")
@click.option("--partition", default=0, show_default=True)
@click.option("-n", "count", default=10, show_default=True, help="How many of the last records.")
@click.option("-f", "--follow", is_flag=True, help="Wait for those that come.")
@json_option
def _tail(folder: str, topic: str, partition: int, count: int, follow: bool, as_json: bool) -> None:
    """Print the last records, and those that come."""
    with exit_on_error():
        reader = _engine().open_reader(folder)
        start, end = reader.bounds(topic, partition)
        offset = max(end - count, start, 0)
        if follow:
            found = reader.follow(topic, partition, offset=offset, wait=_wait)
        else:
            found = reader.records(topic, partition, offset=offset)
        for record in found:
            _print(record, as_json=as_json)


def _wait(seconds: float) -> None:
    sys.stdout.flush()
    time.sleep(max(seconds, POLL_S))  # noqa: TID251 (a command waits here)


def _print(record: "SpoolRecord", *, as_json: bool) -> None:
    if not as_json:
        click.echo(bytes(record.value if record.value is not None else b""))
        return
    fields = {
        "offset": record.offset,
        "timestamp_us": record.timestamp_us,
        **_text("key", record.key),
        **_text("value", record.value),
        "headers": [{"key": one.key, **_text("value", one.value)} for one in record.headers],
        "verified": record.is_verified,
    }
    click.echo(json.dumps(fields))


def _text(name: str, data: bytes | memoryview | None) -> dict[str, str | None]:
    """Return bytes as text, or as base64 under a name that says so."""
    if data is None:
        return {name: None}
    try:
        return {name: bytes(data).decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


@spool.command("stats")
@click.argument("folder", metavar="DIR")
@json_option
def _stats(folder: str, as_json: bool) -> None:
    """Show the partitions of a spool: where they begin and end, and what was shipped."""
    with exit_on_error():
        rows = list(_engine().partition_stats(folder))
    _show(rows, as_json=as_json)


@spool.command("verify")
@click.argument("folder", metavar="DIR")
@json_option
def _verify(folder: str, as_json: bool) -> None:
    """Read every record. The exit code is 1 on damage, and 5 if some cannot be verified."""
    engine = _engine()
    with exit_on_error():
        engine.open_reader(folder)
        rows = list(engine.verify(engine.disk_of(folder)))
    _show(rows, as_json=as_json)
    if any(row.damage for row in rows):
        click.echo("Damaged: see the column DAMAGE; restore a backup: lakelog spool copy", err=True)
        sys.exit(1)
    unverifiable = sum(row.unverifiable for row in rows)
    if unverifiable:
        click.echo(f"{counted(unverifiable, 'record')} of other writers cannot be told", err=True)
        sys.exit(EXIT_UNVERIFIABLE)


def _show(rows: list[Any], *, as_json: bool) -> None:
    if as_json:
        for row in rows:
            click.echo(json.dumps(row._asdict()))
    elif rows:
        names = [name.upper().replace("_", "-") for name in rows[0]._fields]
        show_rows(names, rows)


# ---------------------------------------------------------------------------- keeping


@spool.command("keep")
@click.argument("folder", metavar="DIR")
@click.option("--retention-ms", type=int, help="Delete segments that are older.")
@click.option("--retention-bytes", type=int, help="Delete the oldest beyond so many bytes.")
@click.option("--unshipped", is_flag=True, help="Delete also what was not shipped.")
@click.option("--compact", "compacts", is_flag=True, help="Keep the newest record of each key.")
def _keep(
    folder: str,
    retention_ms: int | None,
    retention_bytes: int | None,
    unshipped: bool,
    compacts: bool,
) -> None:
    """Recover every partition, and delete what may be deleted. No other process may write."""
    engine = _engine()
    with (
        exit_on_error(),
        engine.open(
            folder,
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
            keep_unshipped=not unshipped,
        ) as opened,
    ):
        for name in opened.partitions():
            opened.log(*name)
            if compacts:
                done = opened.compact(*name)
                gone = done.records_before - done.records_after
                click.echo(f"{name[0]}-{name[1]}: {counted(gone, 'outdated record')} dropped.")
        deleted = opened.keep()
    click.echo(f"Deleted {counted(deleted.segments, 'segment')}, {deleted.bytes:,} bytes.")


@spool.command("copy")
@click.argument("folder", metavar="DIR")
@click.argument("to")
@click.option(
    "--until",
    "limits",
    multiple=True,
    metavar="TOPIC:PARTITION:OFFSET",
    help="Copy of this partition only what is before the offset; may be repeated.",
)
def _copy(folder: str, to: str, limits: tuple[str, ...]) -> None:
    """Copy a spool into a new folder: a backup, or back from one. The copy has a new id."""
    engine = _engine()
    with exit_on_error():
        engine.open_reader(folder)
        until = dict(_limit(text) for text in limits)
        count = engine.copy_spool(engine.disk_of(folder), engine.disk_of(to), until)
    click.echo(f"Copied {counted(count, 'partition')}.")


def _limit(text: str) -> tuple[tuple[str, int], int]:
    topic, partition, offset = ([*text.rsplit(":", 2), "", ""])[:3]
    if not topic or not partition.isdecimal() or not offset.isdecimal():
        raise InvalidInputError(f"--until {text}: use TOPIC:PARTITION:OFFSET")
    return (topic, int(partition)), int(offset)


# ---------------------------------------------------------------------------- shipping


@spool.command("ship")
@click.argument("folder", metavar="DIR")
@click.option("--to", required=True, help="s3://bucket/folder, file:///path, or kafka://host:port.")
@store_option("to-")
@click.option("--every", "every_s", type=float, help="Go on, and look again after so many seconds.")
@click.option(
    "--at-least-once",
    is_flag=True,
    help="For Kafka brokers without transactions: a range may be there twice.",
)
@json_option
def _ship(
    folder: str,
    to: str,
    to_store_options: tuple[str, ...],
    every_s: float | None,
    at_least_once: bool,
    as_json: bool,
) -> None:
    """Ship what a spool holds to a namespace or to Kafka, in order and once.

    What was confirmed is not shipped again, and may then be deleted by retention.
    """
    engine = _engine()
    while True:
        try:
            with exit_on_error() if every_s is None else _told():
                for done in engine.ship(
                    folder,
                    to,
                    store_options=named_values(to_store_options),
                    at_least_once=at_least_once,
                ):
                    _tell(done, as_json=as_json)
        finally:
            sys.stdout.flush()
        if every_s is None:
            return
        time.sleep(every_s)  # noqa: TID251 (a command waits here)


class _told:  # noqa: N801 (used as a function)
    """Say what went wrong, and go on: the next look may find it mended."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if isinstance(error, LakelogError) and error.retryable:
            click.echo(f"Not shipped: {error}", err=True)
            return True
        if isinstance(error, LakelogError):
            raise click.ClickException(str(error)) from error
        return False


def _tell(done: Any, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(done._asdict()))
        return
    again = " (was there)" if done.was_there else ""
    click.echo(f"Shipped {done.topic}-{done.partition}: {done.start} to {done.end}{again}")
