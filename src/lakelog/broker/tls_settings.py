"""The TLS of a listener, as it was told: which files, and what clients must show.

A store is the path of a PEM file, or the PEM text itself. Whatever may be secret is not in the
repr: settings are logged, and errors quote them.
"""

from dataclasses import dataclass, field

from lakelog.errors import InvalidInputError
from lakelog.security import ClientAuth, PrincipalRules

__all__ = ["PROTOCOLS", "TlsSettings", "is_pem"]

PROTOCOLS = ("TLSv1.2", "TLSv1.3")


def is_pem(text: str) -> bool:
    """Say whether this is PEM text, and not the path of a file."""
    return "-----BEGIN" in text


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """TLS of one listener."""

    key_store: str = field(repr=False)
    """A private key, its certificate, and those between it and a root."""
    key_password: str = field(default="", repr=False)
    trust_store: str = field(default="", repr=False)
    """Whose certificates are believed; nothing: those that the system believes."""
    client_auth: ClientAuth = ClientAuth.NONE
    protocols: tuple[str, ...] = PROTOCOLS
    ciphers: str = ""
    """Of TLS 1.2, by OpenSSL's names; nothing: those that Python takes for good."""
    rules: str = "DEFAULT"
    """What certificates are called (``ssl.principal.mapping.rules``)."""
    checks_hosts: bool = True
    """Whether a broker that is called by another must have its host's name in its certificate
    (``ssl.endpoint.identification.algorithm``)."""

    def __post_init__(self) -> None:
        PrincipalRules(self.rules)
        unknown = set(self.protocols) - set(PROTOCOLS)
        if unknown or not self.protocols:
            raise InvalidInputError(
                f"ssl.enabled.protocols={','.join(self.protocols)}: use TLSv1.2, TLSv1.3, or both;"
                " older ones are broken"
            )
        if self.client_auth is not ClientAuth.NONE and not self.trust_store:
            raise InvalidInputError(
                f"ssl.client.auth={self.client_auth} needs to know whose certificates are good: "
                "name a PEM file in ssl.truststore.location"
            )
