"""A connection to one broker: a socket, TLS and SASL if asked for, and a request at a time."""

import os
import socket
import ssl
import struct
from typing import Any

from lakelog import __version__
from lakelog.errors import CorruptError, UnavailableError
from lakelog_kafka_tools import apis, sasl
from lakelog_kafka_tools.apis import Api
from lakelog_kafka_tools.schemas import decode, encode, schema
from lakelog_kafka_tools.settings import Security, is_pem
from lakelog_kafka_tools.thrown import UNSUPPORTED_VERSION, check_codes, kafka_error, refused

__all__ = ["Link"]

ANSWER_BYTES_MAX = 256 * 1024 * 1024
_SIZE = struct.Struct(">i")
_HEAD = struct.Struct(">hhi")


class Link:
    """A connection that knows which versions the broker speaks."""

    def __init__(
        self, host: str, port: int, security: Security, client_id: str, timeout_s: float
    ) -> None:
        """Connect.

        Raises:
            UnavailableError: no broker answers there.
            Thrown: one does, but refuses the connection.
        """
        self.address = f"{host}:{port}"
        self._client_id = client_id.encode()
        self._timeout_s = timeout_s
        self._correlation = 0
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if security.tls:
                self._socket = _secured(self._socket, host, security)
        except ssl.SSLError as error:
            message = f"SSL handshake failed: {error.reason or error}"
            raise kafka_error("SslAuthentication", message) from error
        except OSError as error:
            raise UnavailableError(f"{self.address}: {error.strerror or error}") from error
        try:
            self._learn_versions()
            if security.mechanism:
                self._authenticate(security)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def newest(self, api: Api) -> int:
        """Return the newest version of an API that both sides know.

        Raises:
            Thrown: there is none.
        """
        oldest, newest = self._versions.get(api.key, (0, -1))
        if max(oldest, api.oldest) > min(newest, api.newest):
            raise refused(UNSUPPORTED_VERSION, f"The node does not support {api.name}")
        return min(newest, api.newest)

    def ask(
        self, api: Api, request: dict[str, Any], timeout_s: float, version: int | None = None
    ) -> dict[str, Any]:
        """Send a request, and return the answer.

        Raises:
            UnavailableError: no answer came.
            Thrown: the broker does not know the API.
        """
        if version is None:
            version = self.newest(api)
        flexible = version >= api.flexible
        self._correlation += 1
        head = _HEAD.pack(api.key, version, self._correlation)
        head += len(self._client_id).to_bytes(2) + self._client_id + b"\0" * flexible
        body = encode(schema(api.request), request, version, flexible)
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(_SIZE.pack(len(head) + len(body)) + head + body)
            answer = self._receive(_SIZE.unpack(self._receive(_SIZE.size))[0])
        except OSError as error:
            raise UnavailableError(f"{self.address}: {error.strerror or error}") from error
        if _SIZE.unpack_from(answer)[0] != self._correlation:
            raise CorruptError("the answer is to another request", at=0, where=self.address)
        # ApiVersions is answered with the old header, since it is asked before anything is known.
        at = _SIZE.size + (flexible and api is not apis.API_VERSIONS)
        if api is apis.API_VERSIONS and answer[at : at + 2] == UNSUPPORTED_VERSION.to_bytes(2):
            version, flexible = 0, False
        return decode(schema(api.response), answer, at, version, flexible)

    def _receive(self, size: int) -> bytes:
        if not 0 <= size <= ANSWER_BYTES_MAX:
            raise CorruptError(
                f"an answer of {size} bytes: does a broker listen here, and without TLS?",
                at=0,
                where=self.address,
            )
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(min(size - len(data), 1 << 20))
            if not piece:
                raise UnavailableError(f"{self.address}: the connection was closed")
            data += piece
        return bytes(data)

    def _learn_versions(self) -> None:
        request = {"client_software_name": "lakelog", "client_software_version": __version__}
        api = apis.API_VERSIONS
        answer = self.ask(api, request, self._timeout_s, api.newest)
        if answer["error_code"] == UNSUPPORTED_VERSION:
            answer = self.ask(api, {}, self._timeout_s, 0)
        self._versions = {
            row["api_key"]: (row["min_version"], row["max_version"]) for row in answer["api_keys"]
        }

    def _authenticate(self, security: Security) -> None:
        assert security.mechanism is not None
        request = {"mechanism": security.mechanism}
        answer = self.ask(apis.SASL_HANDSHAKE, request, self._timeout_s)
        if answer["error_code"]:
            raise refused(
                answer["error_code"],
                f"Client SASL mechanism '{security.mechanism}' not enabled in the server, enabled"
                f" mechanisms are [{', '.join(answer['mechanisms'])}]",
            )
        steps = sasl.exchange(
            security.mechanism, security.username, security.password, os.urandom(24)
        )
        mine = next(steps)
        while True:
            answer = self.ask(apis.SASL_AUTHENTICATE, {"auth_bytes": mine}, self._timeout_s)
            check_codes([answer])
            try:
                mine = steps.send(answer["auth_bytes"])
            except StopIteration:
                return


def _secured(plain: socket.socket, host: str, security: Security) -> ssl.SSLSocket:
    ca = security.ca_pem or None
    is_text = ca is not None and is_pem(ca)
    context = ssl.create_default_context(
        cafile=None if is_text else ca, cadata=ca if is_text else None
    )
    context.check_hostname = security.check_host
    if security.key_pem:
        _load_key(context, security.key_pem, security.key_password)
    return context.wrap_socket(plain, server_hostname=host)


def _load_key(context: ssl.SSLContext, key: str, password: str | None) -> None:
    if not is_pem(key):
        context.load_cert_chain(key, password=password)
        return
    # OpenSSL takes keys from files only: this one has no name and no other process sees it.
    handle = os.memfd_create("key")
    try:
        os.write(handle, key.encode())
        context.load_cert_chain(f"/proc/self/fd/{handle}", password=password)
    finally:
        os.close(handle)
