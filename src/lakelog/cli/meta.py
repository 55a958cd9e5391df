"""`lakelog meta`: where members and consumer groups are kept, and how to bring them elsewhere.

    lakelog meta status  --storage URL
    lakelog meta migrate --storage URL --to etcd         all groups, while brokers run
    lakelog meta reshard --storage URL 32
    lakelog meta backup  --storage URL groups.jsonl
    lakelog meta restore --storage URL [groups.jsonl]    without a file: what the bucket has of etcd

A run that was ended, however, is completed by running it again.
"""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from lakelog.catalog import (
    BUCKET,
    ETCD,
    Backup,
    MetadataStores,
    Namespace,
    decode_backup,
    encode_backup,
    join_groups,
    move_groups,
    open_namespace,
    restore_groups,
)
from lakelog.cli.arguments import exit_on_error, json_option, storage_options
from lakelog.cli.storage import spec_of
from lakelog.cli.tables import counted, plain, show_rows
from lakelog.coordination import (
    RELEASED,
    SHARDS_MAX,
    ClaimedShard,
    Groups,
    groups_in,
    read_mirror,
    read_overview,
    stored_shards,
)
from lakelog.errors import ConflictError, InvalidInputError, NotFoundError
from lakelog.host import new_id
from lakelog.log import Driver, store_now
from lakelog.store import DividedStore, Usage, Work, retrying

__all__ = ["meta"]

BACKUP_BYTES_MAX = 2 << 30
"""Of a backup: more than the largest shards together."""

_MIRROR = "mirror"

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class _Meta(NamedTuple):
    """A namespace, and the stores that its members and groups may be in."""

    namespace: Namespace
    stores: MetadataStores

    def groups(self) -> Groups:
        """Return where groups are, for somebody who only reads them."""
        return groups_in(self.namespace.metadata, RELEASED, move=self.namespace.moves)

    def run(self, flow: Work[T]) -> T:
        """Run a flow where members and groups are."""
        return self.stores.of(self.namespace.metadata)(flow)

    def shards(self) -> dict[int, ClaimedShard | None]:
        """Return every shard as it is stored."""
        return self.run(stored_shards(self.groups()))


def _open(url: str, store_options: tuple[str, ...]) -> _Meta:
    store = spec_of(url, store_options).open()
    bucket, etcd = store, None
    if isinstance(store, DividedStore):
        bucket, etcd = store.bucket, Driver(retrying(store.cells.perform)).run
    stores = MetadataStores(url, Driver(retrying(bucket.perform)).run, etcd)
    return _Meta(stores.bucket(open_namespace()), stores)


@click.group()
def meta() -> None:
    """Show where members and consumer groups are kept, and bring them elsewhere.

    They are in the bucket, or in etcd. Records are in the bucket always, and are not touched.
    """


def _changing(command: F) -> F:
    dry = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
    return storage_options(dry(command))


# ---------------------------------------------------------------------------- seeing


@meta.command("status")
@storage_options
@json_option
def _status(url: str, store_options: tuple[str, ...], as_json: bool) -> None:
    """Show where members and groups are, and how old their copy in the bucket is."""
    with exit_on_error():
        opened = _open(url, store_options)
        row = _row(opened)
    if as_json:
        click.echo(json.dumps(row))
    else:
        show_rows(("WHAT", "VALUE"), row.items())


def _row(opened: _Meta) -> dict[str, Any]:
    namespace = opened.namespace
    shards = opened.shards()
    held = [one for one in shards.values() if one is not None]
    row: dict[str, Any] = {
        "metadata": namespace.metadata,
        "moves": namespace.moves,
        "shards": len(shards),
        "groups": sum(len(one.groups) for one in held),
        "bytes": sum(len(body) for one in held for body in one.groups.values()),
        "moving_to": None if namespace.moving is None else namespace.moving.metadata,
    }
    if namespace.metadata == ETCD:
        mirrored = opened.stores.bucket(read_mirror(namespace.moves))
        now_ms = opened.stores.bucket(store_now(new_id))
        ages = [now_ms - one.at_ms for one in mirrored.values()]
        row["mirrored_shards"] = len(mirrored)
        row["last_mirrored_s"] = max(min(ages), 0) // 1000 if ages else None
    return row


# ---------------------------------------------------------------------------- moving


@meta.command("migrate")
@_changing
@click.option(
    "--to", type=click.Choice((BUCKET, ETCD)), required=True, help="Where groups are to be kept."
)
@click.option("--force", is_flag=True, help="Also if a broker that runs was not told of etcd.")
def _migrate(url: str, store_options: tuple[str, ...], to: str, dry_run: bool, force: bool) -> None:
    """Bring members and groups to etcd, or back to the bucket, while brokers run.

    Brokers must have been started with the storage options of etcd; they start anew by themselves,
    which clients see as a restart. Groups cannot be changed for some seconds, and no commit is
    lost.
    """
    with exit_on_error():
        opened = _open(url, store_options)
        if to == ETCD and not force:
            _check_brokers(opened)
        _move(opened, to=to, shards=None, dry_run=dry_run)


@meta.command("reshard")
@_changing
@click.argument("shards", type=click.IntRange(1, SHARDS_MAX))
def _reshard(url: str, store_options: tuple[str, ...], shards: int, dry_run: bool) -> None:
    """Keep the groups in so many SHARDS, while brokers run; there are 8 at first.

    More shards carry more groups and more commits, and can be spread over more brokers.
    """
    with exit_on_error():
        _move(_open(url, store_options), to=None, shards=shards, dry_run=dry_run)


def _check_brokers(opened: _Meta) -> None:
    members = opened.run(read_overview(opened.groups())).members
    for node, seen in members.items():
        if seen.member.serves and not seen.member.knows_etcd:
            where = ", ".join(seen.member.listeners.values())
            raise InvalidInputError(
                f"broker {node} at {plain(where)} was started without the storage option metadata: "
                "start it again with it first; or, if it does not run any more, use --force"
            )


def _move(opened: _Meta, *, to: str | None, shards: int | None, dry_run: bool) -> None:
    if dry_run:
        _tell_plan(opened, to or opened.namespace.metadata, shards)
        return
    before = opened.namespace
    after = move_groups(opened.stores, to=to, shards=shards, note=_note)
    if after.moves == before.moves:
        click.echo(f"The groups are in {after.metadata} already, as you want them.")
    else:
        click.echo(f"The groups are in {after.metadata} now.")


def _tell_plan(opened: _Meta, to: str, shards: int | None) -> None:
    row = _row(opened)
    count = row["shards"] if shards is None else shards
    requests = {BUCKET: 8, ETCD: 0}
    requests[opened.namespace.metadata] += 5 * row["shards"]
    requests[to] += 5 * count
    usd = Usage(requests={"put": requests[BUCKET]}).price_usd
    click.echo(
        f"Would move {counted(row['groups'], 'group')} of {row['bytes']:,} bytes from "
        f"{counted(row['shards'], 'shard')} in {row['metadata']} to {counted(count, 'shard')} in "
        f"{to}: about {requests[BUCKET]} requests to the bucket (${usd:.4f}) and "
        f"{requests[ETCD]} to etcd."
    )


def _note(text: str) -> None:
    click.echo(text[0].upper() + text[1:] + ".", err=True)


# ---------------------------------------------------------------------------- keeping a copy


@meta.command("backup")
@storage_options
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def _backup(url: str, store_options: tuple[str, ...], file: Path) -> None:
    """Write all groups and their offsets to FILE, while brokers run."""
    with exit_on_error():
        opened = _open(url, store_options)
        shards = opened.shards()
        groups = join_groups(one for one in shards.values() if one is not None)
        now_ms = opened.stores.bucket(store_now(new_id))
        data = encode_backup(opened.namespace, url, now_ms, len(shards), groups)
        temporary = file.with_name(f"{file.name}.part")
        try:
            with temporary.open("wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            temporary.replace(file)
        except OSError as error:
            raise InvalidInputError(f"{file} cannot be written: {error.strerror}") from error
    click.echo(f"{file}: {counted(len(groups), 'group')}, {len(data):,} bytes")


@meta.command("restore")
@_changing
@click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False
)
@click.option(
    "--to", type=click.Choice((BUCKET, ETCD)), help="Where; if not given, where they were."
)
@click.option(
    "--lost", is_flag=True, help="The groups that this namespace has are lost, or may be."
)
def _restore(
    url: str,
    store_options: tuple[str, ...],
    file: Path | None,
    to: str | None,
    lost: bool,
    dry_run: bool,
) -> None:
    """Bring all groups back as they were: from FILE, or from the copy that the bucket has of etcd.

    Offsets that were committed since are lost: consumers read some records again. The copy in the
    bucket is a minute old at most.
    """
    with exit_on_error():
        opened = _open(url, store_options)
        saved = _from_file(file, opened.namespace) if file else _from_mirror(opened)
        if dry_run:
            click.echo(
                f"Would bring back {counted(len(saved.groups), 'group')} in "
                f"{to or opened.namespace.metadata}, as they were at {_moment(saved.at_ms)}."
            )
            return
        after = restore_groups(
            opened.stores,
            to=to,
            shards=saved.shards,
            groups=saved.groups,
            source=saved.name,
            is_lost=lost,
            note=_note,
        )
    click.echo(
        f"{counted(len(saved.groups), 'group')} are in {after.metadata} as they were at "
        f"{_moment(saved.at_ms)}: what was committed later is lost."
    )


def _from_file(file: Path, namespace: Namespace) -> Backup:
    size = file.stat().st_size
    if size > BACKUP_BYTES_MAX:
        raise InvalidInputError(f"{file} has {size} bytes, and is no backup: none is so large")
    saved = decode_backup(file.read_bytes(), str(file))
    if saved.namespace != namespace.id:
        click.echo(
            f"{file} is of another namespace, {plain(saved.storage)}: offsets of topics that this "
            "one has not got are kept, and mean nothing.",
            err=True,
        )
    return saved


def _from_mirror(opened: _Meta) -> Backup:
    namespace = opened.namespace
    mirrored = opened.stores.bucket(read_mirror(namespace.moves))
    if not mirrored and namespace.restored.startswith(_MIRROR):
        raise ConflictError(
            f"the groups were restored already, by move {namespace.moves}: nothing is left to do"
        )
    if not mirrored:
        raise NotFoundError(
            "the bucket has no copy of the groups: there is one only if they were in etcd; name "
            "the file of a backup"
        )
    shards = max(one.shard.shards for one in mirrored.values())
    missing = [str(number) for number in range(shards) if number not in mirrored]
    if missing:
        click.echo(
            f"Of {counted(shards, 'shard')} these were never copied, and what was in them is lost: "
            f"{', '.join(missing)}.",
            err=True,
        )
    return Backup(
        namespace=namespace.id,
        storage=opened.stores.url,
        at_ms=max(one.at_ms for one in mirrored.values()),
        shards=shards,
        name=f"{_MIRROR} {namespace.moves}",
        groups=join_groups(one.shard for one in mirrored.values()),
    )


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
