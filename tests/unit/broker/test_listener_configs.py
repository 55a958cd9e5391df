"""Listeners by Kafka's configs: what each line makes of them, and what is refused."""

import pytest

from lakelog.broker import BrokerSettings, Listener, Verdict, translate_kafka_config
from lakelog.broker.listener_configs import translate_listeners
from lakelog.errors import InvalidInputError
from lakelog.security import ClientAuth, SecurityProtocol

TWO = {
    "listeners": "INSIDE://10.0.0.7:9092,OUTSIDE://:9093",
    "advertised.listeners": "OUTSIDE://broker.example.com:443",
    "listener.security.protocol.map": "INSIDE:SSL,OUTSIDE:SSL,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "/etc/all.pem",
    "ssl.truststore.location": "/etc/trust.pem",
    "ssl.client.auth": "required",
    "ssl.key.password": "hunter2",
    "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
    "listener.name.outside.ssl.keystore.location": "/etc/outside.pem",
    "listener.name.outside.ssl.client.auth": "none",
    "listener.name.outside.ssl.enabled.protocols": "TLSv1.3",
}


def one(**lines: str) -> Listener:
    given = {name.replace("_", "."): value for name, value in lines.items()}
    (found,) = translate_listeners(
        {"listeners": "SSL://h:1", "ssl.keystore.location": "/k.pem", **given}
    )
    return found


def test_a_config_of_one_listener_counts_before_that_of_all() -> None:
    inside, outside = translate_kafka_config(TWO, BrokerSettings()).settings.listeners
    assert inside.tls is not None
    assert outside.tls is not None
    assert (inside.name, inside.host, inside.port) == ("INSIDE", "10.0.0.7", 9092)
    assert (outside.advertised_host, outside.advertised_port) == ("broker.example.com", 443)
    assert inside.protocol is outside.protocol is SecurityProtocol.SSL
    assert (inside.tls.key_store, outside.tls.key_store) == ("/etc/all.pem", "/etc/outside.pem")
    assert inside.tls.client_auth is ClientAuth.REQUIRED
    assert outside.tls.client_auth is ClientAuth.NONE
    assert (inside.tls.protocols, outside.tls.protocols) == (("TLSv1.2", "TLSv1.3"), ("TLSv1.3",))
    assert inside.tls.rules == "RULE:^CN=(.*)$/$1/"


def test_every_line_is_used_and_no_secret_is_shown() -> None:
    found = translate_kafka_config(TWO, BrokerSettings())
    assert {line.verdict for line in found.lines} == {Verdict.USED}
    assert found.settings.inter_broker_listener == "INSIDE"
    assert "hunter2" not in repr(found)


def test_certificates_may_stand_in_the_configs() -> None:
    found = one(ssl_keystore_key="KEY", ssl_keystore_certificate_chain="CHAIN")
    assert found.tls is not None
    assert found.tls.key_store == "KEY\nCHAIN"
    assert "KEY" not in repr(found)


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_AES_256_GCM_SHA384", ""),
        ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_ciphers_have_javas_names(java: str, openssl: str) -> None:
    import ssl

    found = one(ssl_cipher_suites=java)
    assert found.tls is not None
    assert found.tls.ciphers == openssl
    if openssl:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(openssl)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ssl.keystore.type", "JKS", "keytool -importkeystore .* openssl pkcs12"),
        ("ssl.truststore.type", "PKCS12", "openssl pkcs12"),
        ("ssl.client.auth", "maybe", "none, requested, required"),
        ("ssl.client.auth", "required", "ssl.truststore.location"),
        ("ssl.enabled.protocols", "TLSv1.1", "older ones are broken"),
        ("ssl.principal.mapping.rules", "RULE:(/x/", "cannot be read"),
        ("ssl.keystore.location", "", "name a PEM file"),
        ("inter.broker.listener.name", "INSIDE", "use one of listeners, SSL"),
    ],
)
def test_what_would_be_missed_is_refused(name: str, value: str, words: str) -> None:
    lines = {"listeners": "SSL://h:1", "ssl.keystore.location": "/k.pem", name: value}
    with pytest.raises(InvalidInputError, match=words):
        translate_kafka_config(lines, BrokerSettings())
