"""`lakelog serve`: a broker on a store."""

import ipaddress
import json
import sys
from pathlib import Path
from typing import Any

import click

from lakelog.cli.arguments import json_option, missing
from lakelog.cli.storage import spec_of, storage_options
from lakelog.cli.tables import show_rows
from lakelog.errors import InvalidInputError, LakelogError
from lakelog.host import leave_process
from lakelog_kafka_tools.settings import parse_properties

__all__ = ["serve"]

PORTS = range(1 << 16)


class _Address(click.ParamType[tuple[str, int]]):
    """HOST:PORT, or [HOST]:PORT."""

    name = "HOST:PORT"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, int]:
        host, colon, port = str(value).rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdecimal() or int(port) not in PORTS:
            self.fail(f"{value!r} is no HOST:PORT: use 127.0.0.1:9092", param, ctx)
        return host, int(port)


@click.command()
@storage_options
@click.option("--listen", type=_Address(), default="127.0.0.1:9092", show_default=True)
@click.option(
    "--advertise", type=_Address(), help="Where clients find it, if that is not --listen."
)
@click.option("--http", type=_Address(), help="Health and metrics: /healthz, /readyz, /metrics.")
@click.option("--node-id", type=click.IntRange(0), default=1, show_default=True)
@click.option(
    "--flush-interval-ms",
    type=click.IntRange(0),
    help="How long a record waits for company.  [default: 250; 1 on a folder]",
)
@click.option(
    "--memory-bytes",
    type=click.IntRange(1 << 20),
    default=256 << 20,
    show_default=True,
    help="For requests that are worked on.",
)
@click.option(
    "--cache-bytes",
    type=click.IntRange(1 << 20),
    default=256 << 20,
    show_default=True,
    help="For what was just written, and for what was read from the store.",
)
@click.option("--keep/--no-keep", default=True, help="Seal and retain, in a process of its own.")
@click.option("--keep-every", type=float, default=60.0, show_default=True, metavar="SECONDS")
@click.option("--auto-create-topics/--no-auto-create-topics", default=True)
@click.option(
    "--partitions", type=click.IntRange(1), default=1, show_default=True, help="Of such topics."
)
@click.option("--init", "make", is_flag=True, help="Make the namespace if there is none.")
@click.option("--insecure", is_flag=True, help="Listen to others than this machine, without TLS.")
@click.option(
    "--kafka-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A server.properties of Kafka. Options that are given here count more.",
)
@click.option("--explain", is_flag=True, help="Say what becomes of each line of it, and end.")
@json_option
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text")
@click.pass_context
def serve(
    ctx: click.Context,
    /,
    url: str,
    store_options: tuple[str, ...],
    log_format: str,
    make: bool,
    explain: bool,
    as_json: bool,
    kafka_config: Path | None,
    **given: Any,
) -> None:
    """Serve Kafka clients from an object store.

    Topics, records and groups are in the storage, and nowhere else: stop it, and start it on
    another machine. SIGTERM lets it answer what it has accepted.
    """
    try:
        from lakelog.cli.logs import make_log
        from lakelog.cli.running import open_log, run_plan
    except ImportError as error:
        raise click.UsageError(missing(error, "server")) from error
    log = make_log(log_format)
    try:
        kafka = _translation(kafka_config)
        if explain:
            _explain(kafka, as_json=as_json)
            return
        said = {
            name: value
            for name, value in given.items()
            if ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
        }
        plan = _plan(url, store_options, kafka, said, **given)
        for line in kafka.lines:
            log.info("kafka config", line=line.name, became=line.verdict.value, why=line.words)
        store, namespace, made = open_log(plan.spec, make=make)
        if made:
            log.info("made a namespace", storage=url, lanes=namespace.rules.lanes)
        if plan.keep is None:
            log.info("nothing is sealed here", next="lakelog keep")

        async def ready(running: Any) -> None:
            door = plan.settings.listeners[0]
            port = door.advertised_port or next(iter(running.broker.ports.values()))
            where = f"{door.advertised_host or door.host}:{port}"
            log.info("ready", storage=store.url, bootstrap=where, namespace=namespace.id.hex())

    except InvalidInputError as error:
        raise click.UsageError(str(error)) from error
    except LakelogError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    try:
        run_plan(plan, store, log, ready=ready)
    except LakelogError as error:
        click.echo(f"Error: {error}", err=True)
        leave_process(1)
    leave_process(0)


def _translation(path: Path | None) -> Any:
    """Return what a server.properties asks for; without one, what is so anyway."""
    from lakelog.broker import BrokerSettings, translate_kafka_config

    lines = {} if path is None else parse_properties(path.read_text(errors="replace"))
    return translate_kafka_config(lines, BrokerSettings())


def _explain(kafka: Any, *, as_json: bool) -> None:
    if as_json:
        for line in kafka.lines:
            row = {"name": line.name, "value": line.value, "became": line.verdict.value}
            click.echo(json.dumps({**row, "why": line.words}))
        return
    rows = [(line.name, line.value, line.verdict.value, line.words) for line in kafka.lines]
    show_rows(("CONFIG", "VALUE", "BECAME", ""), rows)


def _plan(
    url: str,
    store_options: tuple[str, ...],
    kafka: Any,
    said: dict[str, Any],
    *,
    listen: tuple[str, int],
    advertise: tuple[str, int] | None,
    http: tuple[str, int] | None,
    flush_interval_ms: int | None,
    keep: bool,
    keep_every: float,
    insecure: bool,
    **_: Any,
) -> Any:
    """Return what these options ask for: Kafka's configs, and what was ``said`` instead.

    Raises:
        InvalidInputError: they ask for what cannot be, or should not.
    """
    from dataclasses import replace

    from lakelog.broker import Listener, MaintenanceSettings
    from lakelog.cli.running import Plan, is_here

    settings = kafka.settings
    named = {"node_id", "partitions", "auto_create_topics"} & said.keys()
    sized = {"memory_bytes", "cache_bytes"} & said.keys()
    settings = replace(
        settings,
        **{name: said[name] for name in named},
        limits=replace(settings.limits, **{name: said[name] for name in sized}),
        groups=replace(settings.groups, commit_interval_ms=0) if is_here(url) else settings.groups,
    )
    if flush_interval_ms is None and is_here(url):
        flush_interval_ms = 1
    if flush_interval_ms is not None:
        settings = replace(settings, flush=replace(settings.flush, interval_ms=flush_interval_ms))
    has_listeners = any(line.name == "listeners" for line in kafka.lines)
    if "listen" in said or "advertise" in said or not has_listeners:
        host, port = advertise or ("", 0)
        door = Listener(host=listen[0], port=listen[1], advertised_host=host, advertised_port=port)
        settings = replace(settings, listeners=(door,))
    _check_doors(settings.listeners, http, insecure=insecure)
    if "keep_every" not in said and kafka.keep_every_ms is not None:
        keep_every = kafka.keep_every_ms / 1000
    return Plan(
        spec=spec_of(url, store_options),
        settings=settings,
        http=http,
        keep=MaintenanceSettings(every_s=keep_every) if keep and url != "memory:" else None,
    )


def _check_doors(listeners: Any, http: tuple[str, int] | None, *, insecure: bool) -> None:
    doors = [("--listen", door.host) for door in listeners]
    doors += [("--http", http[0])] if http is not None else []
    for option, host in doors:
        if not insecure and not _is_loopback(host):
            raise InvalidInputError(
                f"{option} {host} lets others in, and there is no TLS yet: "
                "use 127.0.0.1, or say --insecure"
            )
    for door in listeners:
        if not door.advertised_host and door.host in ("0.0.0.0", "::"):  # noqa: S104 (refused)
            raise InvalidInputError(
                f"clients cannot connect to {door.host}: say --advertise HOST:PORT"
            )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
