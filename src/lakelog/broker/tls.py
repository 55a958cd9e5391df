"""The TLS of a listener as it is now: its certificate, which is taken anew when its files change.

    files --> look, now and then --> a new context --> connections that come from now on
                     |
                     '--> unusable: it is told, and the old one stays

A connection keeps the context that it began with, so that nobody is cut off. asyncio and uvloop are
given one context for as long as a server lives and ask it for each connection: this one answers
with what the newest says.

No session is resumed: a client would come back as whoever it was, after its certificate or the
authority behind it was taken out.
"""

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from structlog.typing import FilteringBoundLogger

from lakelog.broker.tls_settings import TlsSettings, is_pem
from lakelog.errors import InvalidInputError
from lakelog.security import ClientAuth, expiry_ms

__all__ = ["ListenerTls"]

PEM_BYTES_MAX = 1 << 20
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFIED = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_TO_PEM = (
    "make PEM of another kind of store: keytool -importkeystore -srckeystore STORE -destkeystore"
    " store.p12 -deststoretype PKCS12; openssl pkcs12 -in store.p12 -nodes -out store.pem"
)

Marks = tuple[tuple[int, int, int], ...]
"""What the system says of files: if that is the same, so are they."""


class _Newest(ssl.SSLContext):
    """A context that makes connections of whichever is the newest."""

    newest: ssl.SSLContext

    def wrap_bio(self, *args: Any, **more: Any) -> ssl.SSLObject:
        return self.newest.wrap_bio(*args, **more)


class ListenerTls:
    """The TLS of one listener."""

    def __init__(self, name: str, settings: TlsSettings) -> None:
        """Load it.

        Raises:
            InvalidInputError: a file cannot be read, or has not got what it should have.
        """
        self.name, self.settings = name, settings
        self._marks = _marks(settings)
        self._told: Marks | None = None
        """Files that were found to be unusable, as they were."""
        self.expires_ms = 0
        """When the certificate does."""
        self.context: ssl.SSLContext = _Newest(ssl.PROTOCOL_TLS_SERVER)
        """For servers."""
        self.peer_context: ssl.SSLContext
        """For calling other brokers, with the same certificate."""
        self._load()

    def _load(self) -> None:
        server, expires_ms = _context(self.settings, ssl.PROTOCOL_TLS_SERVER)
        peer, _ = _context(self.settings, ssl.PROTOCOL_TLS_CLIENT)
        assert isinstance(self.context, _Newest)
        self.context.newest, self.peer_context, self.expires_ms = server, peer, expires_ms

    def look(self, log: FilteringBoundLogger) -> None:
        """Take files that have changed; called now and then, in a thread."""
        try:
            marks = _marks(self.settings)
            if marks == self._marks:
                self._told = None
                return
            if marks == self._told:
                return
            self._load()
        except InvalidInputError as error:
            self._told = _tried(self.settings)
            log.error(
                "a new certificate cannot be used, and the old one stays",
                listener=self.name,
                error=str(error),
            )
            return
        self._marks, self._told = marks, None
        log.info("a new certificate", listener=self.name, expires_ms=self.expires_ms)


def _files(settings: TlsSettings) -> list[str]:
    stores = (settings.key_store, settings.trust_store)
    return [store for store in stores if store and not is_pem(store)]


def _marks(settings: TlsSettings) -> Marks:
    found = []
    for name in _files(settings):
        try:
            stat = Path(name).stat()
        except OSError as error:
            raise InvalidInputError(f"{name} cannot be read: {error.strerror}") from error
        found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return tuple(found)


def _tried(settings: TlsSettings) -> Marks:
    try:
        return _marks(settings)
    except InvalidInputError:
        return ()


def _context(settings: TlsSettings, side: int) -> tuple[ssl.SSLContext, int]:
    """Return a context of one side, and when its certificate expires."""
    context = ssl.SSLContext(side)
    versions = [_VERSIONS[name] for name in settings.protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
    if side == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
        context.verify_mode = _VERIFIED[settings.client_auth]
    else:
        context.check_hostname = settings.checks_hosts
    if settings.ciphers:
        _taking("ssl.cipher.suites", lambda: context.set_ciphers(settings.ciphers))
    chain = _text("ssl.keystore", settings.key_store)
    _taking("ssl.keystore", lambda: _load_chain(context, chain, settings.key_password))
    if settings.trust_store:
        trusted = _text("ssl.truststore", settings.trust_store)
        _taking("ssl.truststore", lambda: context.load_verify_locations(cadata=trusted))
    elif side == ssl.PROTOCOL_TLS_CLIENT:
        context.load_default_certs()
    leaf = chain[chain.index(_BEGIN) : chain.index(_END) + len(_END)]
    return context, expiry_ms(ssl.PEM_cert_to_DER_cert(leaf))


def _text(name: str, store: str) -> str:
    if not is_pem(store):
        try:
            with Path(store).open("rb") as file:
                store = file.read(PEM_BYTES_MAX).decode("ascii", "replace")
        except OSError as error:
            raise InvalidInputError(f"{name}: {store} cannot be read: {error.strerror}") from error
    if _BEGIN not in store or _END not in store:
        raise InvalidInputError(f"{name} has no certificate in PEM: {_TO_PEM}")
    return store


def _taking(name: str, take: Callable[[], object]) -> None:
    try:
        take()
    except (ssl.SSLError, ValueError, OSError) as error:
        why = getattr(error, "reason", None) or type(error).__name__
        raise InvalidInputError(
            f"{name} cannot be used: {why}: check that the private key, in PEM, is of the first"
            f" certificate, and that ssl.key.password opens it; or {_TO_PEM}"
        ) from error


def _load_chain(context: ssl.SSLContext, chain: str, password: str) -> None:
    # OpenSSL takes keys from files only: this one has no name, and no other process sees it. It
    # would ask a terminal for a password if it were not given one.
    handle = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(handle), "w") as file:
            file.write(chain)
        context.load_cert_chain(f"/proc/self/fd/{handle}", password=lambda: password)
    finally:
        os.close(handle)
