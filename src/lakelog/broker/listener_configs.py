"""Listeners out of Kafka's configs: names, addresses, protocols, and the TLS of each.

    listeners=INSIDE://10.0.0.7:9092,OUTSIDE://0.0.0.0:9093
    listener.security.protocol.map=INSIDE:SSL,OUTSIDE:SASL_SSL
    ssl.keystore.location=/etc/lakelog/broker.pem                   of every listener
    listener.name.outside.ssl.keystore.location=/etc/lakelog/outside.pem     of one

A config of one listener counts before that of all. ``ssl.client.auth`` of all is not that of a
listener whose clients log in, as in Kafka: there it must be said for the listener.
"""

import re
from collections.abc import Mapping
from functools import partial

from lakelog.broker.login_configs import SASL_CONFIGS, config_of, translate_logins
from lakelog.broker.settings import Listener
from lakelog.broker.tls_settings import PROTOCOLS, TlsSettings
from lakelog.errors import InvalidInputError
from lakelog.security import ClientAuth, SecurityProtocol

__all__ = [
    "LISTENER_CONFIGS",
    "inter_broker_listener",
    "is_listener_config",
    "plain_name",
    "translate_listeners",
]

LISTENER_CONFIGS: Mapping[str, str] = {
    "listeners": "NAME://HOST:PORT of each listener.",
    "advertised.listeners": "What clients are told instead.",
    "listener.security.protocol.map": "NAME:PROTOCOL: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    "inter.broker.listener.name": "The listener on which brokers call each other; the first one.",
    "security.inter.broker.protocol": "The same, by the protocol that is its name.",
    "ssl.keystore.type": "PEM.",
    "ssl.keystore.location": "A PEM file: private key, certificate, and those up to a root. It is"
    " read again when it changes.",
    "ssl.keystore.certificate.chain": "The certificates as text, with `ssl.keystore.key`.",
    "ssl.keystore.key": "The private key as text.",
    "ssl.key.password": "What opens the private key.",
    "ssl.truststore.type": "PEM.",
    "ssl.truststore.location": "A PEM file of the authorities whose certificates are good. It is"
    " read again when it changes.",
    "ssl.truststore.certificates": "The same as text.",
    "ssl.client.auth": "Whether clients show a certificate: none, requested, required.",
    "ssl.enabled.protocols": "TLSv1.2, TLSv1.3.",
    "ssl.cipher.suites": "Of TLS 1.2, by Java's or OpenSSL's names.",
    "ssl.principal.mapping.rules": "What certificates are called: RULE:pattern/replacement/, ….",
    **SASL_CONFIGS,
    "ssl.endpoint.identification.algorithm": "Empty: a broker need not have its host's name in its"
    " certificate for another broker to call it.",
}

_PREFIX = re.compile(r"listener\.name\.[^.]+\.(?:(?:scram-sha-\d+|plain|oauthbearer)\.)?(.+)")
_JAVA_CIPHER = re.compile(r"TLS_(\w+?)_WITH_(\w+)_(SHA\d*)")
_NO_PEM = (
    "is no PEM: make one with keytool -importkeystore -srckeystore STORE -destkeystore store.p12"
    " -deststoretype PKCS12; openssl pkcs12 -in store.p12 -nodes -out store.pem"
)


def plain_name(name: str) -> str:
    """Return the name of a config without the listener, and the mechanism, that it is of."""
    found = _PREFIX.fullmatch(name)
    return found[1] if found else name


def is_listener_config(name: str) -> bool:
    """Say whether a config is of listeners, of all or of one."""
    return plain_name(name) in LISTENER_CONFIGS


def translate_listeners(lines: Mapping[str, str]) -> tuple[Listener, ...]:
    """Return the listeners that configs ask for; none: they do not say.

    Raises:
        InvalidInputError: a value is wrong.
    """
    controllers = {one.strip() for one in lines.get("controller.listener.names", "").split(",")}
    protocols = dict(
        pair.strip().split(":", 1)
        for pair in lines.get("listener.security.protocol.map", "").split(",")
        if ":" in pair
    )
    advertised = {name: (host, port) for name, host, port in _parsed(lines, "advertised.listeners")}
    found: list[Listener] = []
    for name, host, port in _parsed(lines, "listeners"):
        if name in controllers:
            continue
        protocol = _protocol(name, protocols.get(name, name).strip())
        outside = advertised.get(name, ("", 0))
        found.append(
            Listener(
                name=name,
                host=host or "0.0.0.0",  # noqa: S104 (Kafka's meaning; serve asks twice)
                port=port,
                advertised_host=outside[0],
                advertised_port=outside[1],
                protocol=protocol,
                tls=_tls(lines, name, protocol) if protocol.has_tls else None,
                logins=translate_logins(lines, name) if protocol.has_login else None,
            )
        )
    return tuple(found)


def inter_broker_listener(lines: Mapping[str, str], listeners: tuple[Listener, ...]) -> str:
    """Return the listener on which brokers call each other; nothing: it is not said.

    Raises:
        InvalidInputError: there is none of that name.
    """
    config = "inter.broker.listener.name"
    if config not in lines:
        config = "security.inter.broker.protocol"
    name = lines.get(config, "").strip()
    names = [one.name for one in listeners]
    if name and name not in names:
        raise InvalidInputError(f"{config}={name}: use one of listeners, {', '.join(names)}")
    return name


def _protocol(name: str, text: str) -> SecurityProtocol:
    try:
        return SecurityProtocol(text)
    except ValueError:
        raise InvalidInputError(
            f"listener {name} is {text}: name its protocol in listener.security.protocol.map,"
            f" {name}:SASL_SSL for instance; there are {', '.join(SecurityProtocol)}"
        ) from None


def _parsed(lines: Mapping[str, str], config: str) -> list[tuple[str, str, int]]:
    rows: list[tuple[str, str, int]] = []
    for text in filter(None, (one.strip() for one in lines.get(config, "").split(","))):
        name, found, address = text.partition("://")
        host, colon, port = address.rpartition(":")
        if not found or not colon or not port.isdecimal() or int(port) >= 1 << 16:
            raise InvalidInputError(f"{config}={text}: use NAME://HOST:PORT")
        rows.append((name, host.removeprefix("[").removesuffix("]"), int(port)))
    return rows


# ---------------------------------------------------------------------------- TLS


def _tls(lines: Mapping[str, str], listener: str, protocol: SecurityProtocol) -> TlsSettings:
    get = partial(config_of, lines, listener)
    for config in ("ssl.keystore.type", "ssl.truststore.type"):
        kind = get(config, "PEM")
        if kind.upper() != "PEM":
            raise InvalidInputError(f"{config}={kind} {_NO_PEM}, and say {config}=PEM")
    key_store = get("ssl.keystore.location")
    if get("ssl.keystore.certificate.chain"):
        key_store = f"{get('ssl.keystore.key')}\n{get('ssl.keystore.certificate.chain')}"
    if not key_store:
        raise InvalidInputError(
            f"listener {listener} is {protocol} and needs a key and its certificate: name a PEM"
            " file in ssl.keystore.location"
        )
    own = f"listener.name.{listener.lower()}.ssl.client.auth"
    auth = lines.get(own, "none") if protocol.has_login else get("ssl.client.auth", "none")
    try:
        client_auth = ClientAuth(auth.strip().lower())
    except ValueError:
        raise InvalidInputError(
            f"ssl.client.auth={auth[:64]}: use one of {', '.join(ClientAuth)}"
        ) from None
    versions = get("ssl.enabled.protocols") or ",".join(PROTOCOLS)
    return TlsSettings(
        key_store=key_store,
        key_password=get("ssl.key.password"),
        trust_store=get("ssl.truststore.certificates") or get("ssl.truststore.location"),
        client_auth=client_auth,
        protocols=tuple(one.strip() for one in versions.split(",")),
        ciphers=_ciphers(get("ssl.cipher.suites")),
        rules=get("ssl.principal.mapping.rules") or "DEFAULT",
        checks_hosts=get("ssl.endpoint.identification.algorithm", "https") != "",
    )


def _ciphers(text: str) -> str:
    """Return ciphers by OpenSSL's names. Those of TLS 1.3 are all good, and cannot be chosen."""
    names = [one.strip() for one in text.split(",") if one.strip()]
    return ":".join(_cipher(one) for one in names if "_WITH_" in one or "_" not in one)


def _cipher(name: str) -> str:
    """Return a cipher's name as OpenSSL writes it: TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is
    ECDHE-RSA-AES256-GCM-SHA384 there.
    """
    found = _JAVA_CIPHER.fullmatch(name)
    if found is None:
        return name
    keys, cipher, digest = found.groups()
    keys = "" if keys == "RSA" else keys.replace("_", "-") + "-"
    cipher = re.sub(r"(AES|CAMELLIA|ARIA)_(\d+)", r"\1\2", cipher)
    cipher = cipher.removesuffix("_CBC").replace("_", "-")
    tail = "" if cipher.startswith("CHACHA20") else f"-{digest}"
    return f"{keys}{cipher}{tail}"
