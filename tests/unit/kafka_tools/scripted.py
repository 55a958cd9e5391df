"""A broker that says what it is told, on a socket of this machine, and a console that remembers."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import Any, NamedTuple

from click.exceptions import Exit

from lakelog_kafka_tools import apis
from lakelog_kafka_tools.apis import Api
from lakelog_kafka_tools.running import Console
from lakelog_kafka_tools.schemas import decode, encode, schema

__all__ = ["Answer", "Scripted", "Told", "every_api", "metadata", "scripted", "told"]

_SIZE = struct.Struct(">i")
_HEAD = struct.Struct(">hhih")
Answer = dict[str, Any] | Callable[[dict[str, Any]], dict[str, Any]]


def every_api() -> list[Api]:
    """Every API that tools ask."""
    return [one for one in vars(apis).values() if isinstance(one, Api)]


class Told(NamedTuple):
    """What a tool said."""

    code: int
    out: str
    err: str


def told(tool: Callable[..., int], *arguments: str, **handed: Any) -> Told:
    """Run a tool on a console that remembers."""
    out, err = BytesIO(), BytesIO()
    try:
        code = tool(arguments, Console(out, err), **handed)
    except Exit as ended:
        code = ended.exit_code
    return Told(code, out.getvalue().decode(), err.getvalue().decode())


class Scripted:
    """What a broker answers, by the key of the API; what it does not have it does not know."""

    def __init__(self, answers: Mapping[Api, Answer], newest: Mapping[Api, int]) -> None:
        self.answers = dict(answers)
        self.newest = newest
        self.asked: list[tuple[str, int, dict[str, Any]]] = []
        self.bootstrap = ""

    def answer(self, api: Api, version: int, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((api.name, version, request))
        if api is apis.API_VERSIONS:
            rows = [
                {"api_key": one.key, "min_version": 0, "max_version": self.newest.get(one, 99)}
                for one in (*self.answers, apis.API_VERSIONS)
            ]
            return {"api_keys": rows}
        found = self.answers[api]
        return found if isinstance(found, dict) else found(request)


def metadata(bootstrap: str, *topics: Mapping[str, Any]) -> dict[str, Any]:
    """An answer of one broker with some topics."""
    host, _, port = bootstrap.partition(":")
    node = {"node_id": 1, "host": host, "port": int(port)}
    return {"brokers": [node], "controller_id": 1, "topics": list(topics)}


@contextmanager
def scripted(
    answers: Mapping[Api, Answer], newest: Mapping[Api, int] | None = None
) -> Iterator[Scripted]:
    """A broker that listens."""
    broker = Scripted(answers, newest or {})
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        broker.bootstrap = f"{host}:{port}"
        thread = threading.Thread(target=_serve, args=(server, broker), daemon=True)
        thread.start()
        try:
            yield broker
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def _serve(server: socket.socket, broker: Scripted) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection, connection.makefile("rb") as incoming:
            while data := incoming.read(4):
                _answer(connection, incoming.read(_SIZE.unpack(data)[0]), broker)


def _answer(connection: socket.socket, request: bytes, broker: Scripted) -> None:
    key, version, correlation, size = _HEAD.unpack_from(request)
    api = next(one for one in every_api() if one.key == key)
    flexible = version >= api.flexible
    at = _HEAD.size + size + flexible
    asked = decode(schema(api.request), request, at, version, flexible)
    answer = broker.answer(api, version, asked)
    tags = b"\0" if flexible and api is not apis.API_VERSIONS else b""
    body = encode(schema(api.response), answer, version, flexible)
    head = _SIZE.pack(correlation) + tags
    connection.sendall(_SIZE.pack(len(head) + len(body)) + head + body)
