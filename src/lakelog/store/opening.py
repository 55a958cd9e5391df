"""From an address to a store.

    s3://bucket/folder   gs://bucket/folder   az://container/folder
    file:///path   /path   path
    memory:

Options are words for words, as a command line or Spark hands them over. A folder has one,
``one_machine=true``: no other machine uses it, although it is on a file system that others could
mount (see ``mounts``). Those of remote stores are obstore's: ``endpoint``, ``region``,
``access_key_id``, ``secret_access_key``, ``timeout``, and so on. What is not given is taken from
where the clouds' own tools look: variables of the environment (``environment``), then the
instance's own identity.

``prices`` says what requests cost (``prices``), for any store.

Options that begin with ``metadata`` are of etcd, if that keeps the cells of members and groups:
``metadata=etcd://host:2379,host:2379/folder``, ``metadata_user``, ``metadata_password``,
``metadata_ca``, ``metadata_cert``, ``metadata_key``.

A ``StoreSpec`` is what crosses process borders, with what the variables said where it was made.
Opening it does no input or output; a remote store connects with its first operation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from lakelog.errors import InvalidInputError
from lakelog.store.divided import DividedStore
from lakelog.store.environment import complete_options
from lakelog.store.etcd import EtcdStore
from lakelog.store.local import LocalStore
from lakelog.store.memory import MemoryStore
from lakelog.store.operations import Op
from lakelog.store.prices import PRICES, Prices, parse_prices, prices_of
from lakelog.store.remote import SCHEMES, RemoteStore

__all__ = ["METADATA", "ONE_MACHINE", "Store", "StoreSpec", "divide_options", "open_store"]

ONE_MACHINE = "one_machine"
"""The option that says that no other machine uses a folder."""


METADATA = "metadata"
"""The option that says where the cells of members and groups are; all of that begin with it."""


class Store(Protocol):
    """Whatever performs operations."""

    @property
    def url(self) -> str: ...

    def perform(self, op: Op) -> Any:
        """Perform one operation and wait for it."""
        ...

    async def perform_async(self, op: Op) -> Any:
        """Perform one operation on the running loop."""
        ...


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """An address and its options; can be pickled, and does not show secrets."""

    url: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if _is_remote(self.url):
            options, cells = divide_options(self.options)
            complete = {**complete_options(self.url, options), **cells}
            object.__setattr__(self, "options", complete)

    def open(self) -> Store:
        """Return the store, which connects when it is first used."""
        return open_store(self.url, self.options)

    @property
    def prices(self) -> Prices:
        """What requests to it cost.

        Raises:
            InvalidInputError: the option that says so is wrong.
        """
        return prices_of(self.url, self.options)


def _is_remote(url: str) -> bool:
    scheme, _, rest = url.partition(":")
    return scheme in SCHEMES and rest.startswith("//")


def open_store(url: str, options: Mapping[str, str] | None = None) -> Store:
    """Return the store at ``url``.

    Raises:
        InvalidInputError: the address or an option is wrong.
    """
    options, cells = divide_options(options or {})
    if PRICES in options:
        parse_prices(options.pop(PRICES))  # It is not for the store to know.
    if cells:
        return DividedStore(open_store(url, options), _open_cells(cells))
    if _is_remote(url):
        return RemoteStore(url, complete_options(url, options or {}))
    scheme, colon, _ = url.partition(":")
    if url == "memory:":
        _check_options(url, options, {})
        return MemoryStore()
    _check_options(url, options, {ONE_MACHINE: ("true", "false")})
    if scheme == "file" and colon:
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise InvalidInputError(f"{url!r} is no address: use file:///path")
        return LocalStore(unquote(parts.path))
    if "://" in url or not url:
        raise InvalidInputError(
            f"{url!r} is no address: use s3://, gs://, az://, file://, a path, or memory:"
        )
    return LocalStore(url)


def divide_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options of the bucket, and those of what keeps the cells of members and groups."""
    cells = {name: value for name, value in options.items() if name.startswith(METADATA)}
    return {name: value for name, value in options.items() if name not in cells}, cells


def _open_cells(options: Mapping[str, str]) -> Store:
    url = options.get(METADATA)
    if not url:
        raise InvalidInputError(
            f"{', '.join(options)}: these are for etcd: say where that is, by "
            f"{METADATA}=etcd://host:2379/folder"
        )
    rest = {name: value for name, value in options.items() if name != METADATA}
    return EtcdStore(url, {name.removeprefix(f"{METADATA}_"): rest[name] for name in rest})


def _check_options(
    url: str, options: Mapping[str, str] | None, known: Mapping[str, tuple[str, ...]]
) -> None:
    given = options or {}
    if unknown := sorted(given.keys() - known.keys()):
        takes = f"only the option {', '.join(known)}" if known else "no options"
        raise InvalidInputError(f"{url!r} takes {takes}, and got {', '.join(unknown)}")
    for name, value in given.items():
        if value not in known[name]:
            raise InvalidInputError(f"{name}={value}: use {' or '.join(known[name])}")
