"""Settings of clients: properties files, and what Java's names mean to our clients.

    security.protocol, ssl.*, sasl.*   how a connection is made: ``Security``
    the rest                           for librdkafka, by a table of names that differ

A setting that has no counterpart is reported on stderr and left out, as Apache's clients do with
settings that they do not know. One that would change who may read what is refused instead.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakelog.errors import InvalidInputError
from lakelog_kafka_tools.thrown import Thrown, config_error, illegal

__all__ = [
    "Security",
    "is_pem",
    "key_values",
    "librdkafka",
    "librdkafka_client",
    "parse_properties",
    "read_properties",
    "read_security",
    "timeout_ms",
]

FILE_BYTES_MAX = 1 << 20
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"
_JAAS = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]+))')
_PROTOCOLS = {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}
_MECHANISMS = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
API_TIMEOUT_MS = 60_000

_RENAMED = {
    "max.request.size": "message.max.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
}
_SAME = {
    "acks", "allow.auto.create.topics", "auto.commit.interval.ms", "auto.offset.reset",
    "batch.size", "bootstrap.servers", "check.crcs", "client.dns.lookup", "client.id",
    "client.rack", "compression.type", "connections.max.idle.ms", "delivery.timeout.ms",
    "enable.auto.commit", "enable.idempotence", "fetch.max.bytes", "fetch.min.bytes", "group.id",
    "group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms",
    "isolation.level", "linger.ms", "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes", "max.poll.interval.ms", "metadata.max.age.ms",
    "partition.assignment.strategy", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
    "request.timeout.ms", "retries", "retry.backoff.max.ms", "retry.backoff.ms",
    "session.timeout.ms", "transaction.timeout.ms", "transactional.id",
}  # fmt: skip
_NEEDLESS = {
    "key.serializer", "value.serializer", "key.deserializer", "value.deserializer",
    "buffer.memory", "max.block.ms", "max.poll.records", "default.api.timeout.ms",
    "exclude.internal.topics", "metadata.max.idle.ms", "metric.reporters",
    "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
    "enable.metrics.push", "auto.include.jmx.reporter", "socket.connection.setup.timeout.max.ms",
}  # fmt: skip
_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_OPENSSL = (
    "ssl.truststore",
    "ssl.keystore",
    "ssl.key.password",
    "ssl.endpoint",
    "sasl.",
    "security.",
)


def read_properties(path: str | None) -> dict[str, str]:
    """Return a properties file as Java reads it; without a path, nothing.

    Raises:
        Thrown: it cannot be read, or a Unicode escape in it is malformed.
    """
    if path is None:
        return {}
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_BYTES_MAX)
        return parse_properties(data.decode("latin-1"))
    except FileNotFoundError:
        raise Thrown("java.nio.file.NoSuchFileException", path) from None
    except OSError as error:
        raise Thrown("java.io.IOException", error.strerror) from None
    except InvalidInputError:
        raise illegal("Malformed \\uxxxx encoding.") from None


def parse_properties(text: str) -> dict[str, str]:
    """Return the names and values of a properties file, as far as people write them by hand.

        # a comment, also with !
        name=value          or name:value, or name value
        long=one, \\
             line           a backslash joins lines, and the blanks before the rest go
        a\\:b=\\u00e4       escapes

    The last line of a name counts.

    Raises:
        InvalidInputError: the text is too long, or a Unicode escape is malformed.
    """
    if len(text) > FILE_BYTES_MAX:
        raise InvalidInputError(
            f"The file has more than {FILE_BYTES_MAX} characters: is it the properties file?"
        )
    found: dict[str, str] = {}
    for line in _joined(text):
        name, value = _split(line)
        found[_plain(name)] = _plain(value)
    return found


def _joined(text: str) -> list[str]:
    lines: list[str] = []
    open_ = False
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip(_BLANKS)
        if not open_ and (not line or line[0] in "#!"):
            continue
        goes_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        part = line[:-1] if goes_on else line
        if open_:
            lines[-1] += part
        else:
            lines.append(part)
        open_ = goes_on
    return lines


def _split(line: str) -> tuple[str, str]:
    """Return a name and a value: they part at the first =, : or blank that is not escaped."""
    at = 0
    while at < len(line) and line[at] not in "=:" + _BLANKS:
        at += 2 if line[at] == "\\" else 1
    rest = line[at:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:at], rest


def _plain(text: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\" or at + 1 == len(text):
            out.append(text[at])
            at += 1
        elif text[at + 1] != "u":
            out.append(_ESCAPES.get(text[at + 1], text[at + 1]))
            at += 2
        else:
            try:
                out.append(chr(int(text[at + 2 : at + 6], 16)))
            except ValueError:
                raise InvalidInputError(
                    f"{text[at : at + 6]!r} is no character: use \\\\u and four hex digits"
                ) from None
            at += 6
    return "".join(out)


def key_values(texts: Iterable[str]) -> dict[str, str]:
    """Return what was given as key=value; a value may be missing."""
    return {name: value for name, _, value in (text.partition("=") for text in texts)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How a connection is made."""

    tls: bool = False
    ca_pem: str | None = None
    """Certificates to trust, as PEM or the path of a file; None: those of the system."""
    key_pem: str | None = None
    key_password: str | None = None
    check_host: bool = True
    mechanism: str | None = None
    username: str = ""
    password: str = ""


def timeout_ms(properties: Mapping[str, str]) -> int:
    """Return how long a call may take."""
    return int(properties.get("default.api.timeout.ms", API_TIMEOUT_MS))


def read_security(properties: Mapping[str, str]) -> Security:
    """Return how Java's settings say that a connection is made.

    Raises:
        Thrown: we cannot make it so.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise config_error(
            f"security.protocol={protocol} is not one of {', '.join(sorted(_PROTOCOLS))}"
        )
    ca, key = _stores(properties) if protocol.endswith("SSL") else (None, None)
    mechanism = username = password = None
    if protocol.startswith("SASL"):
        mechanism = properties.get("sasl.mechanism", "GSSAPI")
        if mechanism not in _MECHANISMS:
            raise config_error(
                f"sasl.mechanism={mechanism} is not supported here: use one of"
                f" {', '.join(sorted(_MECHANISMS))}"
            )
        jaas = {
            name: re.sub(r"\\(.)", r"\1", quoted) or bare
            for name, quoted, bare in _JAAS.findall(properties.get("sasl.jaas.config", ""))
        }
        username, password = jaas.get("username"), jaas.get("password")
        if username is None or password is None:
            raise config_error("sasl.jaas.config has no username and password")
    return Security(
        tls=protocol.endswith("SSL"),
        ca_pem=ca,
        key_pem=key,
        key_password=properties.get("ssl.key.password") or properties.get("ssl.keystore.password"),
        check_host=bool(properties.get("ssl.endpoint.identification.algorithm", "https").strip()),
        mechanism=mechanism,
        username=username or "",
        password=password or "",
    )


def _stores(properties: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return what to trust and what to show, each as PEM or a file of PEM."""
    for store in ("truststore", "keystore"):
        kind = properties.get(
            f"ssl.{store}.type", "PEM" if _is_pem_file(properties, store) else "JKS"
        )
        if f"ssl.{store}.location" in properties and kind.upper() != "PEM":
            raise config_error(
                f"ssl.{store}.type={kind} is a format of Java's, which is not read here: convert"
                f" the file to PEM (keytool, openssl), and set ssl.{store}.type=PEM"
            )
    ca = properties.get("ssl.truststore.certificates") or properties.get("ssl.truststore.location")
    key = properties.get("ssl.keystore.location")
    if "ssl.keystore.key" in properties:
        key = f"{properties['ssl.keystore.key']}\n{properties['ssl.keystore.certificate.chain']}"
    return ca, key


def _is_pem_file(properties: Mapping[str, str], store: str) -> bool:
    return properties.get(f"ssl.{store}.location", "").lower().endswith((".pem", ".crt", ".cer"))


def is_pem(text: str) -> bool:
    """Say whether a text is PEM, and not the path of a file of PEM."""
    return "-----BEGIN" in text


def librdkafka(properties: Mapping[str, str], warn: Callable[[str], None]) -> dict[str, str]:
    """Return Java's settings by librdkafka's names; ``warn`` gets what is left out."""
    security = read_security(properties)
    found: dict[str, str] = {}
    for name, value in properties.items():
        if name in _NEEDLESS or name.startswith(_OPENSSL):
            continue
        if name == "partition.assignment.strategy":
            names = (one.strip().rpartition(".")[2] for one in value.split(","))
            value = ",".join(_ASSIGNORS.get(one, one) for one in names)
        if name in _SAME or name in _RENAMED:
            found[_RENAMED.get(name, name)] = value
        else:
            warn(f"The setting {name} has no counterpart here and is left out.")
    found["security.protocol"] = properties.get("security.protocol", "PLAINTEXT")
    if security.mechanism:
        found |= {
            "sasl.mechanism": security.mechanism,
            "sasl.username": security.username,
            "sasl.password": security.password,
        }
    return found | _librdkafka_tls(security)


def _librdkafka_tls(security: Security) -> dict[str, str]:
    if not security.tls:
        return {}
    found = {"ssl.endpoint.identification.algorithm": "https" if security.check_host else "none"}
    if security.ca_pem:
        kind = "pem" if is_pem(security.ca_pem) else "location"
        found[f"ssl.ca.{kind}"] = security.ca_pem
    if security.key_pem:
        kind = "pem" if is_pem(security.key_pem) else "location"
        found[f"ssl.key.{kind}"] = found[f"ssl.certificate.{kind}"] = security.key_pem
    if security.key_password:
        found["ssl.key.password"] = security.key_password
    return found


def librdkafka_client(kind: str, settings: Mapping[str, Any]) -> Any:
    """Return a ``Producer`` or a ``Consumer`` of librdkafka.

    Raises:
        Thrown: it does not take the settings.
    """
    import confluent_kafka

    try:
        return getattr(confluent_kafka, kind)(settings)
    except confluent_kafka.KafkaException as error:
        raise config_error(error.args[0].str()) from error
