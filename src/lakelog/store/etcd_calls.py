"""Transactions of etcd, as values, and what performs them: one of several servers.

    Request   if all revisions and values are these: steps; otherwise: other steps
    Answer    which of the two was done, at which revision, and what was read

All that is asked of etcd is a transaction: one that only reads is as cheap as a read. A server that
does not answer within ``CALL_S`` is left for the next one. Nothing is tried twice here but what a
server has refused because a token had run out.

Of aetcd these are the stubs that its authors have generated from etcd's own definitions. Its client
is not used: it speaks to one server, waits without an end, and does not tell a request that was
refused from one whose answer was lost.
"""

import asyncio
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lakelog.errors import InvalidInputError, LakelogError, TooLargeError, UnavailableError
from lakelog.flows import run, run_async

__all__ = [
    "Answer",
    "Caller",
    "Failure",
    "Read",
    "Remove",
    "Request",
    "Row",
    "Step",
    "Write",
    "check_options",
]

CALL_S = 3.0
"""For one server to answer."""
MESSAGE_BYTES_MAX = 16 << 20
_CHANNEL = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    # Reconnecting is counted for each channel, and not for all that go to one address.
    ("grpc.use_local_subchannel_pool", 1),
)

OPTIONS = ("user", "password", "ca", "cert", "key")
"""A user and its password; files with the certificate of the authority, and with one's own."""


@dataclass(frozen=True, slots=True)
class Read:
    """A key; or the keys from this one on that begin with ``below``, without their values."""

    key: str
    below: str | None = None
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Write:
    key: str
    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Remove:
    key: str


Step = Read | Write | Remove


@dataclass(frozen=True, slots=True)
class Request:
    """A transaction."""

    revisions: Mapping[str, int]
    """Keys, and when each was changed last; 0: there is no such key."""
    values: Mapping[str, bytes] = field(repr=False)
    steps: Sequence[Step] = field(repr=False)
    otherwise: Sequence[Read] = ()


class Row(NamedTuple):
    """A key, its value, and when it was changed last."""

    key: str
    value: bytes
    revision: int


class Answer(NamedTuple):
    """What a transaction has done."""

    done: bool
    """Whether all was as it should be, and the steps were taken."""
    revision: int
    found: Sequence[tuple[Sequence[Row], bool]]
    """What each read has found, and whether there is more."""


class Failure(NamedTuple):
    """etcd has not done what it was asked for, or nobody knows."""

    code: str
    """gRPC's name of it."""
    details: str

    def explained(self, where: str) -> LakelogError:
        """Return it as what the caller does next."""
        what = f"{where}: {self.details or self.code}"
        if "too large" in self.details or "too many operations" in self.details:
            return TooLargeError(f"{what}: nothing was stored; put less at once")
        if self.code in ("UNAUTHENTICATED", "PERMISSION_DENIED") or "user" in self.details:
            return InvalidInputError(
                f"{what}: nothing was stored; check the user and password of etcd, and what they "
                "may do in this folder"
            )
        if "database space exceeded" in self.details:
            return UnavailableError(
                f"{what}: nothing was stored; compact and defragment etcd, then disarm its alarm"
            )
        if self.code in ("INVALID_ARGUMENT", "UNIMPLEMENTED"):
            return InvalidInputError(f"{what}: nothing was stored; is this an etcd from 3.4 on?")
        return UnavailableError(
            f"{what}: no answer, outcome unknown: check etcd and the network, then retry"
        )


def check_options(url: str, options: Mapping[str, str]) -> None:
    """Do nothing if these are options of etcd.

    Raises:
        InvalidInputError: they are not, and the message says why.
    """
    if unknown := sorted(options.keys() - set(OPTIONS)):
        raise InvalidInputError(
            f"{url} takes the options {', '.join(OPTIONS)}, and got {', '.join(unknown)}"
        )
    if ("user" in options) != ("password" in options) or ("cert" in options) != ("key" in options):
        raise InvalidInputError(
            f"{url}: user and password go together, and so do cert and key: give both"
        )


class _Call(NamedTuple):
    """One call of a server."""

    stub: str
    method: str
    message: Any


_NO_ANSWER = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN", "INTERNAL")
"""Another server may have one."""


def _failure(error: Any) -> Failure:
    return Failure(error.code().name, str(error.details() or ""))


class Caller:
    """Calls the servers of one etcd."""

    def __init__(self, endpoints: Sequence[str], options: Mapping[str, str]) -> None:
        self._endpoints, self._options = endpoints, options
        self._at = 0
        """Which of them is asked."""
        self._token = ""
        self._channels: dict[str, Any] = {}
        self._async_channels: dict[str, Any] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def call(self, request: Request) -> Answer | Failure:
        """Perform a transaction and wait for it."""
        return run(self._calls(request), self._perform)

    async def call_async(self, request: Request) -> Answer | Failure:
        """Perform a transaction on the running loop."""
        return await run_async(self._calls(request), self._perform_async)

    def _calls(self, request: Request) -> Generator[_Call, Any, Answer | Failure]:
        """Ask for a token if there is to be one, and for the transaction; again if the token has
        run out.
        """
        rpc, _ = _rpc()
        answer: Any = None
        for _ in range(2):
            if self._options.get("user") and not self._token:
                answer = yield _Call("AuthStub", "Authenticate", self._authentication(rpc))
                if isinstance(answer, Failure):
                    break
                self._token = answer.token
            answer = yield _Call("KVStub", "Txn", _encode(rpc, request))
            if not isinstance(answer, Failure):
                return _decode(answer)
            if answer.code != "UNAUTHENTICATED" or not self._token:
                break
            self._token = ""
        failure: Failure = answer
        if failure.code in _NO_ANSWER:
            self._at = (self._at + 1) % len(self._endpoints)
        return failure

    def _perform(self, call: _Call) -> Any:
        rpc, grpc = _rpc()
        stub = getattr(rpc, call.stub)(self._channel(grpc))
        try:
            return getattr(stub, call.method)(
                call.message, timeout=CALL_S, metadata=self._metadata()
            )
        except grpc.RpcError as error:
            return _failure(error)

    async def _perform_async(self, call: _Call) -> Any:
        rpc, grpc = _rpc()
        stub = getattr(rpc, call.stub)(self._async_channel(grpc))
        try:
            return await getattr(stub, call.method)(
                call.message, timeout=CALL_S, metadata=self._metadata()
            )
        except grpc.RpcError as error:
            return _failure(error)

    async def close(self) -> None:
        """Close the channels of the running loop."""
        channels, self._async_channels = self._async_channels, {}
        for one in channels.values():
            await one.close()

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return (("token", self._token),) if self._token else ()

    def _authentication(self, rpc: Any) -> Any:
        user, password = self._options["user"], self._options["password"]
        return rpc.AuthenticateRequest(name=user, password=password)

    def _channel(self, grpc: Any) -> Any:
        endpoint = self._endpoints[self._at]
        if endpoint not in self._channels:
            self._channels[endpoint] = self._connect(grpc, grpc, endpoint)
        return self._channels[endpoint]

    def _async_channel(self, grpc: Any) -> Any:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._async_channels = loop, {}
        endpoint = self._endpoints[self._at]
        if endpoint not in self._async_channels:
            self._async_channels[endpoint] = self._connect(grpc, grpc.aio, endpoint)
        return self._async_channels[endpoint]

    def _connect(self, grpc: Any, kind: Any, endpoint: str) -> Any:
        if "ca" not in self._options:
            return kind.insecure_channel(endpoint, options=_CHANNEL)
        files = {name: self._options.get(name) for name in ("ca", "key", "cert")}
        try:
            ca, key, cert = (
                None if path is None else Path(path).read_bytes() for path in files.values()
            )
        except OSError as error:
            raise InvalidInputError(f"{error}: check the options ca, cert and key") from None
        credentials = grpc.ssl_channel_credentials(ca, key, cert)
        return kind.secure_channel(endpoint, credentials, options=_CHANNEL)


def _rpc() -> tuple[Any, Any]:
    """Return the stubs and their library, which are imported where etcd is used."""
    try:
        import aetcd.rpc
        import grpc
        import grpc.aio
    except ImportError as error:
        raise InvalidInputError(
            f"{error}: etcd needs an extra: pip install 'lakelog[etcd]'"
        ) from None
    return aetcd.rpc, grpc


# ---------------------------------------------------------------------------- the wire


def _encode(rpc: Any, request: Request) -> Any:
    compare = [
        rpc.Compare(
            key=key.encode(),
            target=rpc.Compare.MOD,
            result=rpc.Compare.EQUAL,
            mod_revision=revision,
        )
        for key, revision in request.revisions.items()
    ]
    compare += [
        rpc.Compare(
            key=key.encode(), target=rpc.Compare.VALUE, result=rpc.Compare.EQUAL, value=value
        )
        for key, value in request.values.items()
    ]
    return rpc.TxnRequest(
        compare=compare,
        success=[_encode_step(rpc, step) for step in request.steps],
        failure=[_encode_step(rpc, step) for step in request.otherwise],
    )


def _encode_step(rpc: Any, step: Step) -> Any:
    key = step.key.encode()
    match step:
        case Write():
            return rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=step.value))
        case Remove():
            return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))
        case Read(below=None):
            return rpc.RequestOp(request_range=rpc.RangeRequest(key=key))
        case Read():
            assert step.below is not None
            end = step.below.encode()
            asked = rpc.RangeRequest(
                key=key,
                # What begins with it is below the next name of its length.
                range_end=end[:-1] + bytes([end[-1] + 1]),
                limit=step.limit,
                keys_only=True,
                sort_order=rpc.RangeRequest.ASCEND,
                sort_target=rpc.RangeRequest.KEY,
            )
            return rpc.RequestOp(request_range=asked)


def _decode(made: Any) -> Answer:
    reads = [one.response_range for one in made.responses if one.HasField("response_range")]
    found = [
        ([Row(row.key.decode(), row.value, row.mod_revision) for row in one.kvs], bool(one.more))
        for one in reads
    ]
    return Answer(bool(made.succeeded), made.header.revision, found)
