"""`lakelog serve`: a broker on a store."""

import json
from pathlib import Path
from typing import Any

import click

from lakelog.cli.addresses import Address, check_addresses, http_tls
from lakelog.cli.arguments import exit_on_error, json_option, missing, storage_options_unless
from lakelog.cli.ephemeral import serve_ephemeral
from lakelog.cli.tables import show_rows
from lakelog.errors import LakelogError
from lakelog.host import leave_process
from lakelog_kafka_tools.settings import parse_properties

__all__ = ["serve"]

WORKERS_MAX = 256
LANES_OF_A_WORKER = 4
"""In a new namespace: they share evenly, and still do when some are away."""


@click.command()
@storage_options_unless("ephemeral")
@click.option(
    "--listen",
    type=Address(),
    default="127.0.0.1:9092",
    show_default=True,
    help="The address on which it accepts Kafka clients.",
)
@click.option(
    "--advertise",
    type=Address(),
    help="The address that clients are given, if that is not --listen.",
)
@click.option(
    "--http",
    type=Address(),
    help="The address of health and metrics: /healthz, /readyz, /metrics.",
)
@click.option(
    "--metrics-token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="/metrics, and what is wrong on /readyz, only for who sends Authorization: Bearer TOKEN "
    "with the token in FILE.",
)
@click.option(
    "--http-certificate",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Health and metrics with TLS: a private key, its certificate, and those between it and a"
    " root, in PEM.",
)
@click.option(
    "--http-client-ca",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="/metrics, and what is wrong on /readyz, only for who shows a certificate of an authority"
    " in FILE.",
)
@click.option(
    "--audit-log",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write down who logged in, was denied or changed something: a line of JSON for each.",
)
@click.option(
    "--node-id",
    type=click.IntRange(0),
    help="The broker's id, by Kafka's name.  [default: the one this address had before, or a free "
    "one]",
)
@click.option(
    "--workers",
    type=click.IntRange(1, WORKERS_MAX),
    default=1,
    show_default=True,
    metavar="N",
    help="How many brokers to run here, one for a core: worker i of them, from 0, has port + i of"
    " each listener and --node-id + i.",
)
@click.option(
    "--rack",
    metavar="NAME",
    help="Where the broker stands, a zone for example; clients are told.",
)
@click.option(
    "--flush-policy",
    type=click.Choice(["latency", "balanced", "cost"]),
    help="What to spend on writing records soon.  [default: latency where requests are free, else"
    " balanced]",
)
@click.option(
    "--flush-interval-ms",
    type=click.IntRange(0),
    help="The longest that records wait to be written together.  [default: 250; 5000 by cost, at"
    " S3's prices]",
)
@click.option(
    "--memory-bytes",
    type=click.IntRange(1 << 20),
    default=256 << 20,
    show_default=True,
    help="How much memory requests may take while they are handled.",
)
@click.option(
    "--cache-bytes",
    type=click.IntRange(1 << 20),
    default=256 << 20,
    show_default=True,
    help="How much memory to keep records in that were just written, or read from the store.",
)
@click.option(
    "--keep/--no-keep",
    default=True,
    help="Maintain the namespace (seal, retain, sweep) in a process of its own.",
)
@click.option(
    "--keep-every",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long after one maintenance pass the next one begins; if it is not given, up to ten"
    " minutes where requests cost something and there is less than a gigabyte to seal.",
)
@click.option(
    "--auto-create-topics/--no-auto-create-topics",
    default=True,
    help="Create a topic when a client first names it.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How many partitions a topic has that does not say it itself.",
)
@click.option(
    "--ephemeral",
    is_flag=True,
    is_eager=True,
    help="For tests: use a temporary folder and a free port, print the address, and end, folder"
    " and all, when the parent process ends or closes the pipe to stdin.",
)
@click.option("--init", "make", is_flag=True, help="Make the namespace if there is none.")
@click.option(
    "--insecure",
    is_flag=True,
    help="Accept clients from other machines also on listeners that have no TLS.",
)
@click.option(
    "--kafka-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A server.properties of Kafka. Options on the command line override it.",
)
@click.option(
    "--explain", is_flag=True, help="Print what becomes of each line of --kafka-config, and end."
)
@json_option
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The form of log lines on stderr.",
)
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
    workers: int,
    **given: Any,
) -> None:
    """Serve Kafka clients from an object store.

    Topics, records and groups are in the storage, and nowhere else, so it can be stopped and
    started on another machine. Brokers on the same storage are a cluster: lakelog cluster brokers
    shows them. On SIGTERM others take over what this one does; it answers the requests it has
    accepted, and ends. One process uses one core: --workers runs several, as a cluster on this
    machine.
    """
    if ctx.params["ephemeral"]:
        serve_ephemeral(ctx, as_json=as_json)
        return
    try:
        from lakelog.cli.logs import make_log, make_relay
        from lakelog.cli.running import open_log, run_plan
        from lakelog.cli.workers import divide_plan, run_workers
    except ImportError as error:
        raise click.UsageError(missing(error, "server")) from error
    log = make_log(log_format)
    with exit_on_error():
        kafka = _translation(kafka_config)
        if explain:
            _explain(kafka, as_json=as_json)
            return
        chosen = {
            name: value
            for name, value in given.items()
            if ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
        }
        plan = _plan(url, store_options, kafka, chosen, **given)
        plans = divide_plan(plan, workers)
        for line in kafka.lines:
            log.info("kafka config", line=line.name, became=line.verdict.value, why=line.words)
        store, namespace, made = open_log(plan.spec, make=make, rules=_rules(workers))
        _tell_namespace(log, url, namespace, made=made, workers=workers)
        if plan.keep is None:
            log.info("nothing is sealed here", next="lakelog keep")

        async def ready(running: Any) -> None:
            log.info(
                "ready",
                storage=store.url,
                bootstrap=running.address(plan),
                namespace=namespace.id.hex(),
                node=running.broker.services.cluster.node_id,
            )

    code = 0
    try:
        if workers > 1:
            code = run_workers(plans, plan, log, make_relay(log_format))
        else:
            run_plan(plan, store, log, ready=ready)
    except LakelogError as error:
        click.echo(f"Error: {error}", err=True)
        code = 1
    leave_process(code)


def _rules(workers: int) -> Any:
    """Return how a namespace is made, if there is none: with lanes for all workers."""
    from lakelog.model import Rules

    return Rules() if workers == 1 else Rules(lanes=LANES_OF_A_WORKER * workers)


def _tell_namespace(log: Any, url: str, namespace: Any, *, made: bool, workers: int) -> None:
    lanes = namespace.rules.lanes
    if made:
        log.info("made a namespace", storage=url, lanes=lanes)
    if lanes < workers:
        log.warning(
            "there are fewer lanes than workers, so that some lead nothing",
            lanes=lanes,
            workers=workers,
            next=f"lakelog cluster lanes {LANES_OF_A_WORKER * workers} --storage {url}",
        )


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
    chosen: dict[str, Any],
    *,
    listen: tuple[str, int],
    advertise: tuple[str, int] | None,
    http: tuple[str, int] | None,
    metrics_token_file: Path | None,
    http_certificate: Path | None,
    http_client_ca: Path | None,
    audit_log: Path | None,
    flush_policy: str | None,
    flush_interval_ms: int | None,
    keep: bool,
    keep_every: float,
    insecure: bool,
    **_: Any,
) -> Any:
    """Return what is to be run: by Kafka's configs, and the options ``chosen`` instead of them.

    Raises:
        InvalidInputError: options contradict each other, or would be unsafe.
    """
    from dataclasses import replace

    from lakelog.broker import (
        MaintenanceSettings,
        TokenFile,
        maintain_by_prices,
        spend_by_prices,
    )
    from lakelog.cli.running import Plan, is_here
    from lakelog.cli.storage import spec_of

    spec, settings = spec_of(url, store_options), kafka.settings
    named = {"node_id", "rack", "partitions", "auto_create_topics"} & chosen.keys()
    sized = {"memory_bytes", "cache_bytes"} & chosen.keys()
    settings = replace(
        settings,
        **{name: chosen[name] for name in named},
        audit_log=audit_log,
        limits=replace(settings.limits, **{name: chosen[name] for name in sized}),
        groups=replace(settings.groups, commit_interval_ms=0) if is_here(url) else settings.groups,
    )
    flush = _flush(settings.flush, flush_policy, flush_interval_ms)
    settings = spend_by_prices(replace(settings, flush=flush), spec.prices)
    if {"listen", "advertise"} & chosen.keys() or "listeners" not in {
        line.name for line in kafka.lines
    }:
        settings = replace(settings, listeners=(_listener(listen, advertise),))
    tls = http_tls(http_certificate, http_client_ca)
    check_addresses(settings.listeners, http if tls is None else None, insecure=insecure)
    is_said = "keep_every" in chosen or kafka.keep_every_ms is not None
    if "keep_every" not in chosen and kafka.keep_every_ms is not None:
        keep_every = kafka.keep_every_ms / 1000
    maintenance = MaintenanceSettings(every_s=keep_every)
    maintenance = maintenance if is_said else maintain_by_prices(maintenance, spec.prices)
    token = None if metrics_token_file is None else TokenFile(metrics_token_file)
    return Plan(
        spec=spec,
        settings=settings,
        http=http,
        token=token,
        tls=tls,
        keep=maintenance if keep and url != "memory:" else None,
    )


def _listener(listen: tuple[str, int], advertise: tuple[str, int] | None) -> Any:
    from lakelog.broker import Listener

    host, port = advertise or ("", 0)
    return Listener(host=listen[0], port=listen[1], advertised_host=host, advertised_port=port)


def _flush(flush: Any, policy: str | None, interval_ms: int | None) -> Any:
    """Return when to flush, with what the options say."""
    from dataclasses import replace

    from lakelog.journal import FlushPolicy

    chosen = flush.policy if policy is None else FlushPolicy(policy)
    bound_ms = flush.interval_ms if interval_ms is None else interval_ms
    return replace(flush, policy=chosen, interval_ms=bound_ms)
