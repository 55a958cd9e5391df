"""Listeners by Kafka's configs: what each line makes of them, and what is refused."""

import pytest

from lakelog.broker import BrokerSettings, Listener, Verdict, translate_kafka_config
from lakelog.broker.listener_configs import translate_listeners
from lakelog.broker.login_settings import LoginSettings
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


# ---------------------------------------------------------------------------- logins

SASL = {
    "listeners": "CLIENTS://h:1",
    "listener.security.protocol.map": "CLIENTS:SASL_SSL",
    "ssl.keystore.location": "/k.pem",
    "ssl.client.auth": "required",
}
TOKENS = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://login.example.com/keys",
    "sasl.oauthbearer.expected.issuer": "us",
    "sasl.oauthbearer.expected.audience": "kafka, other",
}
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def logins(**lines: str) -> LoginSettings:
    (found,) = translate_listeners({**SASL, **lines})
    assert found.logins is not None
    return found.logins


def test_a_listener_whose_clients_log_in_wants_no_certificate_unless_it_says_so() -> None:
    (found,) = translate_listeners(SASL)
    assert found.tls is not None
    assert found.tls.client_auth is ClientAuth.NONE
    own = {"listener.name.clients.ssl.client.auth": "required", "ssl.truststore.location": "/t"}
    (found,) = translate_listeners({**SASL, **own})
    assert found.tls is not None
    assert found.tls.client_auth is ClientAuth.REQUIRED


def test_mechanisms_sessions_and_tokens_are_kafkas_configs() -> None:
    assert logins().mechanisms == ("SCRAM-SHA-512", "SCRAM-SHA-256")
    own = {"listener.name.clients.connections.max.reauth.ms": "5", "connections.max.reauth.ms": "7"}
    assert logins(**own).session_ms_max == 5
    oauth = logins(**TOKENS).oauth
    assert oauth is not None
    assert (oauth.issuer, oauth.audience, oauth.user_claim) == ("us", ("kafka", "other"), "sub")


def test_a_broker_logs_in_at_others_by_a_jaas_config_which_is_not_shown() -> None:
    name = "listener.name.clients.scram-sha-512.sasl.jaas.config"
    lines = {**SASL, name: f'{MODULE} username="broker" password="hunter\\"2";'}
    found = translate_kafka_config(lines, BrokerSettings())
    (listener,) = found.settings.listeners
    assert listener.logins is not None
    assert listener.logins.peer is not None
    assert (listener.logins.peer.user, listener.logins.peer.password) == ("broker", 'hunter"2')
    assert "hunter" not in repr(found)
    assert {line.verdict for line in found.lines} == {Verdict.USED}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "use some of SCRAM-SHA-512"),
        ({"connections.max.reauth.ms": "-1"}, "whole number"),
        ({**TOKENS, "sasl.oauthbearer.expected.issuer": ""}, "expected.issuer"),
        ({**TOKENS, "sasl.oauthbearer.expected.audience": ""}, "expected.audience"),
        ({**TOKENS, "sasl.oauthbearer.jwks.endpoint.url": ""}, "jwks.endpoint.url"),
        ({**TOKENS, "sasl.oauthbearer.jwks.endpoint.url": "http://h/"}, "https"),
        (
            {"listener.name.clients.plain.sasl.jaas.config": 'X required user_bob="hunter2";'},
            "lakelog user add bob",
        ),
        (
            {
                "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": "PLAIN",
            },
            "use SASL_SSL",
        ),
    ],
)
def test_logins_that_would_be_unsafe_are_refused(lines: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words) as error:
        translate_listeners({**SASL, **lines})
    assert "hunter2" not in str(error.value)
