"""The addresses of a broker: of its listeners and of its health, and whether they are safe."""

from pathlib import Path
from typing import Any

import click

from lakelog.errors import InvalidInputError

__all__ = ["Address", "check_addresses", "http_tls"]

PORTS = range(1 << 16)


class Address(click.ParamType[tuple[str, int]]):
    """HOST:PORT, or [HOST]:PORT."""

    name = "HOST:PORT"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, int]:
        host, colon, port = str(value).rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdecimal() or int(port) not in PORTS:
            self.fail(f"{value!r} is not HOST:PORT: use 127.0.0.1:9092", param, ctx)
        return host, int(port)


def http_tls(certificate: Path | None, client_ca: Path | None) -> Any:
    """Return the TLS of health and metrics, if they have it.

    Raises:
        InvalidInputError: a certificate cannot be used, or is missing.
    """
    from lakelog.broker import ListenerTls, TlsSettings
    from lakelog.security import ClientAuth

    if certificate is None:
        if client_ca is not None:
            raise InvalidInputError("--http-client-ca needs TLS: give --http-certificate as well")
        return None
    asked = ClientAuth.NONE if client_ca is None else ClientAuth.REQUESTED
    trusted = "" if client_ca is None else str(client_ca)
    settings = TlsSettings(key_store=str(certificate), trust_store=trusted, client_auth=asked)
    return ListenerTls("HTTP", settings)


def check_addresses(listeners: Any, http: tuple[str, int] | None, *, insecure: bool) -> None:
    """See that whoever comes from another machine comes by TLS, and can be told where to.

    Raises:
        InvalidInputError: it is not so.
    """
    from lakelog.security import is_loopback

    hosts = [("--listen", one.host) for one in listeners if not one.protocol.has_tls]
    hosts += [("--http", http[0])] if http is not None else []
    for option, host in hosts:
        if not insecure and not is_loopback(host):
            tls = (
                "give it TLS: listeners=SSL://HOST:PORT and ssl.keystore.location=FILE.pem in a"
                " file for --kafka-config; or "
                if option == "--listen"
                else "give it TLS with --http-certificate FILE.pem; or "
            )
            raise InvalidInputError(
                f"{option} {host} accepts clients from other machines without TLS: {tls}"
                "use 127.0.0.1, or --insecure to accept them all the same"
            )
    for listener in listeners:
        if not listener.advertised_host and listener.host in ("0.0.0.0", "::"):  # noqa: S104
            raise InvalidInputError(
                f"clients cannot connect to {listener.host}: use --advertise HOST:PORT"
            )
