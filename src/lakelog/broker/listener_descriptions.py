"""The configs of listeners as DescribeConfigs tells them: with Kafka's types, and no secret.

    listeners, advertised.listeners,     as they are: options and workers change what a file says
    listener.security.protocol.map
    every other one                      as the file says, also of one listener; or its default

A secret is of the type PASSWORD and has no value, as in Kafka. That a config has one is told.
"""

from collections.abc import Mapping
from typing import NamedTuple

from lakelog.broker.listener_configs import LISTENER_CONFIGS, plain_name
from lakelog.broker.login_settings import LoginSettings
from lakelog.broker.settings import BrokerSettings
from lakelog.broker.tls_settings import PROTOCOLS
from lakelog.catalog import ConfigSource, ConfigType, DescribedConfig, Synonym

__all__ = ["describe_listeners"]


class _Kind(NamedTuple):
    type: ConfigType
    default: str | None = None


_TEXT = _Kind(ConfigType.STRING)
_SECRET = _Kind(ConfigType.PASSWORD)

_KINDS: Mapping[str, _Kind] = {
    "listeners": _Kind(ConfigType.LIST, "PLAINTEXT://127.0.0.1:9092"),
    "advertised.listeners": _Kind(ConfigType.LIST),
    "listener.security.protocol.map": _Kind(
        ConfigType.STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    ),
    "security.inter.broker.protocol": _Kind(ConfigType.STRING, "PLAINTEXT"),
    "ssl.keystore.type": _Kind(ConfigType.STRING, "PEM"),
    "ssl.keystore.certificate.chain": _SECRET,
    "ssl.keystore.key": _SECRET,
    "ssl.key.password": _SECRET,
    "ssl.truststore.type": _Kind(ConfigType.STRING, "PEM"),
    "ssl.truststore.certificates": _SECRET,
    "ssl.client.auth": _Kind(ConfigType.STRING, "none"),
    "ssl.enabled.protocols": _Kind(ConfigType.LIST, ",".join(PROTOCOLS)),
    "ssl.cipher.suites": _Kind(ConfigType.LIST, ""),
    "ssl.principal.mapping.rules": _Kind(ConfigType.STRING, "DEFAULT"),
    "ssl.endpoint.identification.algorithm": _Kind(ConfigType.STRING, "https"),
    "sasl.enabled.mechanisms": _Kind(ConfigType.LIST, ",".join(LoginSettings().mechanisms)),
    "connections.max.reauth.ms": _Kind(ConfigType.LONG, "0"),
    "sasl.mechanism.inter.broker.protocol": _Kind(ConfigType.STRING, "SCRAM-SHA-512"),
    "sasl.jaas.config": _SECRET,
    "sasl.oauthbearer.expected.audience": _Kind(ConfigType.LIST, ""),
    "sasl.oauthbearer.sub.claim.name": _Kind(ConfigType.STRING, "sub"),
    "sasl.oauthbearer.clock.skew.seconds": _Kind(ConfigType.INT, "30"),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": _Kind(ConfigType.LONG, "3600000"),
}
"""What is not here is text without a default."""


def describe_listeners(settings: BrokerSettings) -> list[DescribedConfig]:
    """Return the configs of listeners: those of all, and those of one that were given."""
    given = {**settings.listener_configs, **_addresses(settings)}
    names = LISTENER_CONFIGS.keys() | given.keys()
    return [_described(name, given) for name in names]


def _described(name: str, given: Mapping[str, str]) -> DescribedConfig:
    plain = plain_name(name)
    kind = _KINDS.get(plain, _TEXT)
    is_secret = kind.type is ConfigType.PASSWORD
    synonyms = [
        Synonym(one, None if is_secret else given[one], ConfigSource.BROKER)
        for one in dict.fromkeys((name, plain))
        if one in given
    ]
    if kind.default is not None:
        synonyms.append(Synonym(plain, kind.default, ConfigSource.DEFAULT))
    return DescribedConfig(
        name=name,
        value=synonyms[0].value if synonyms else None,
        type=kind.type,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        synonyms=tuple(synonyms),
        documentation=LISTENER_CONFIGS[plain],
        is_read_only=True,
        is_sensitive=is_secret,
    )


def _addresses(settings: BrokerSettings) -> dict[str, str]:
    """Return where listeners are, if that is not the default."""
    listeners = settings.listeners
    found = {"listeners": ",".join(_url(one.name, one.host, one.port) for one in listeners)}
    told = [
        _url(one.name, one.advertised_host or one.host, one.advertised_port or one.port)
        for one in listeners
        if one.advertised_host or one.advertised_port
    ]
    if told:
        found["advertised.listeners"] = ",".join(told)
    if any(one.name != one.protocol for one in listeners):
        pairs = ",".join(f"{one.name}:{one.protocol}" for one in listeners)
        found["listener.security.protocol.map"] = pairs
    return {name: text for name, text in found.items() if text != _KINDS[name].default}


def _url(name: str, host: str, port: int) -> str:
    return f"{name}://{f'[{host}]' if ':' in host else host}:{port}"
