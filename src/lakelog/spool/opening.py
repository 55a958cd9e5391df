"""Opening a spool: one writer for a folder, or as many readers as one likes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from lakelog.errors import InvalidInputError, NotFoundError
from lakelog.host import THIS_HOST, install_command
from lakelog.log import Driver
from lakelog.ports import Ids
from lakelog.spool.cells import SpoolId, read_spool_id, write_spool_id
from lakelog.spool.disk import Disk
from lakelog.spool.reading import SpoolReader
from lakelog.spool.settings import SpoolSettings, Sync, WhenFull, parse_sync
from lakelog.spool.shipping import Shipment, Target, read_id, ship
from lakelog.spool.spool import Spool
from lakelog.spool.stats import PartitionStats, stats_of
from lakelog.spool.writing import WRITER_LOCK
from lakelog.store import LINUX, StoreSpec, System, retrying

__all__ = ["disk_of", "open_reader", "open_spool", "open_with", "partition_stats", "ship_spool"]


def open_with(
    root: str,
    settings: SpoolSettings,
    *,
    system: System,
    ids: Ids,
    clock_us: Callable[[], int] | None = None,
) -> Spool:
    """Open a spool, and make it if there is none.

    Raises:
        ConflictError: another process has it open.
        CorruptError, UnsupportedError: the folder is not what a spool has made.
        InvalidInputError: there is no way to have a folder there.
        FullError, UnavailableError: the disk has no room, or failed.
    """
    disk = Disk(root, system)
    try:
        return _open(disk, settings, ids, clock_us)
    except OSError as error:
        raise disk.refusal(error) from error


def _open(
    disk: Disk, settings: SpoolSettings, ids: Ids, clock_us: Callable[[], int] | None
) -> Spool:
    system = disk.system
    disk.make("")
    lock = disk.lock(
        WRITER_LOCK,
        "another process writes to this spool: a folder has one writer; let that one append, or "
        "use a folder of its own. To read and to ship needs no lock",
    )
    try:
        found = read_spool_id(disk)
        if found is None or not found.id:
            # A new one, or a copy of another: that one ships under its own id.
            is_adopted = bool(disk.partitions()) if found is None else found.is_adopted
            found = SpoolId(ids(), is_adopted)
            write_spool_id(disk, found)
    except BaseException:
        system.close(lock)
        raise
    return Spool(
        disk,
        settings,
        id_=found.id,
        is_adopted=found.is_adopted,
        lock=lock,
        clock_us=clock_us or (lambda now_ns=system.now_ns: now_ns() // 1000),  # type: ignore[misc]
    )


def open_spool(path: str, *, sync: Sync | str | None = None, **settings: Any) -> Spool:
    """Open the spool in a folder to write to it, and make it if there is none.

    ``sync`` says when records are made durable: "every-write" (the default), "records=1000",
    "ms=50", "records=1000,ms=50" or "never". Other settings are those of SpoolSettings:
    segment_bytes, segment_ms, bytes_max, when_full ("refuse", "block" or "drop"), retention_ms,
    retention_bytes, keep_unshipped.

    Raises:
        ConflictError: another process has it open.
        InvalidInputError: a setting is not as it must be.
    """
    if "when_full" in settings:
        try:
            settings["when_full"] = WhenFull(settings["when_full"])
        except ValueError as error:
            raise InvalidInputError(f"when_full: {error}; use refuse, block or drop") from error
    try:
        chosen = SpoolSettings(**settings)
    except TypeError as error:
        raise InvalidInputError(f"a spool has no such setting: {error}") from error
    if sync is not None:
        chosen = replace(chosen, sync=parse_sync(sync) if isinstance(sync, str) else sync)
    spool = open_with(path, chosen, system=LINUX, ids=THIS_HOST.ids)
    spool.start_ticking()
    return spool


def open_reader(path: str, system: System = LINUX) -> SpoolReader:
    """Open the spool in a folder to read it, beside whoever writes to it.

    Raises:
        NotFoundError: there is no such folder.
    """
    disk = Disk(path, system)
    with disk.explained(""):
        disk.view("", WRITER_LOCK)
    return SpoolReader(disk)


def disk_of(path: str) -> Disk:
    """Return the folder of a spool, for what is asked of one without opening it."""
    return Disk(path, LINUX)


def partition_stats(path: str) -> Iterator[PartitionStats]:
    """Return what is in each partition of the spool in a folder.

    Raises:
        NotFoundError: there is no such folder.
    """
    open_reader(path)
    return stats_of(disk_of(path))


def ship_spool(
    path: str,
    to: str,
    *,
    store_options: Mapping[str, str] | None = None,
    at_least_once: bool = False,
    **settings: Any,
) -> Iterator[Shipment]:
    """Ship what the spool in a folder holds to a namespace (s3://...), or to Kafka (kafka://...).

    Yields a Shipment for each range that is confirmed; what was shipped before is not shipped
    again. The writer may go on meanwhile.

    Raises:
        NotFoundError: there is no spool, no namespace, or no such topic.
        ConflictError: another process ships this spool.
        UnavailableError: the target does not answer; nothing is lost, ship again.
    """
    disk = Disk(path, LINUX)
    try:
        target = _target_of(to, read_id(disk), store_options or {}, at_least_once=at_least_once)
    except FileNotFoundError as error:
        raise NotFoundError(f"{disk.root}: there is no such folder") from error
    return ship(disk, target, **settings)


def _target_of(
    to: str, spool_id: bytes, options: Mapping[str, str], *, at_least_once: bool
) -> Target:
    if to.startswith("kafka://"):
        try:
            import confluent_kafka
        except ImportError as error:
            raise InvalidInputError(
                f"to ship to Kafka needs its client: {install_command('tools')}"
            ) from error
        from lakelog.spool.kafka import KafkaTarget

        servers = to.removeprefix("kafka://")
        return KafkaTarget(servers, spool_id, at_least_once=at_least_once, client=confluent_kafka)
    from lakelog.spool.namespace import NamespaceTarget

    store = StoreSpec(to, dict(options)).open()
    return NamespaceTarget(to, Driver(retrying(store.perform)), THIS_HOST, spool_id)
