"""Certificates for tests, made on the spot: an authority, and what it signs."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["Authority", "Signed"]

_PEM = serialization.Encoding.PEM


class Signed:
    """A certificate, and its private key."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate, self._key = certificate, key

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(_PEM).decode()

    def key_pem(self, password: str = "") -> str:
        """Return the key, which a password opens, if there is one."""
        lock: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password:
            lock = serialization.BestAvailableEncryption(password.encode())
        kind = serialization.PrivateFormat.PKCS8
        return self._key.private_bytes(_PEM, kind, lock).decode()

    def write(self, path: Path, password: str = "") -> Path:
        """Write key and certificate into one file; one that is there is replaced at once."""
        beside = path.with_name(path.name + ".new")
        beside.write_text(self.key_pem(password) + self.certificate_pem)
        return beside.replace(path)


class Authority(Signed):
    """Whoever signs."""

    def __init__(self, name: str = "authority") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = _builder(subject, subject, key, timedelta(days=30)).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        super().__init__(made.sign(key, hashes.SHA256()), key)

    def sign(
        self,
        subject: str = "CN=localhost",
        *,
        lasts: timedelta = timedelta(days=10),
        hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
    ) -> Signed:
        """Return a certificate of a subject, by RFC 4514, and of hosts."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name.from_rfc4514_string(subject)
        made = _builder(name, self.certificate.subject, key, lasts).add_extension(
            x509.SubjectAlternativeName([_general(host) for host in hosts]), critical=False
        )
        return Signed(made.sign(self._key, hashes.SHA256()), key)

    def client(self, shown: Signed | None, folder: Path) -> ssl.SSLContext:
        """Return what a client uses that believes this authority, and shows a certificate."""
        context = ssl.create_default_context(cadata=self.certificate_pem)
        if shown is not None:
            context.load_cert_chain(shown.write(folder / "client.pem"))
        return context

    def write_certificate(self, path: Path) -> Path:
        """Write what others believe."""
        path.write_text(self.certificate_pem)
        return path


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, lasts: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + lasts) - timedelta(days=1))
        .not_valid_after(now + lasts)
    )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
