"""Kafka's protocol without a client: one connection to one broker, and what exactly it answers.

A client asks whichever broker it likes. What one of several brokers says can be asked only so.
"""

import socket
import struct
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

__all__ = ["Wire"]


class Wire:
    """One connection: requests written by kio, answers read by kio."""

    def __init__(self, bootstrap: str, within_s: float = 30) -> None:
        host, _, port = bootstrap.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=within_s)
        self._number = 0

    def close(self) -> None:
        self._socket.close()

    def ask(self, key: int, version: int, /, **fields: Any) -> Any:
        """Ask something, and return what was answered."""
        return self.read(key, version, self.ask_raw(key, version, **fields))

    def ask_raw(self, key: int, version: int, /, **fields: Any) -> bytes:
        """Ask something, and return the bytes of the answer, which kio takes its time to read."""
        kind: Any = load_request_schema(key, version)
        self._number += 1
        header = kind.__header_schema__(
            request_api_key=key,
            request_api_version=version,
            correlation_id=self._number,
            client_id="wire",
        )
        body = _written(header) + _written(kind(**fields))
        self._socket.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def read(self, key: int, version: int, data: bytes) -> Any:
        """Return what an answer says."""
        answer: Any = load_response_schema(key, version)
        _, at = entity_reader(answer.__header_schema__)(data, 0)
        found, _ = entity_reader(answer)(data, at)
        return found

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the connection was closed")
            data += more
        return data


class _Buffer(bytearray):
    write = bytearray.extend


def _written(entity: Any) -> bytes:
    out = _Buffer()
    write: Any = entity_writer(type(entity))
    write(out, entity)
    return bytes(out)
