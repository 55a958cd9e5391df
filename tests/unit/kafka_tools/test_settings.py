"""Properties files are read as Java reads them, and Java's names become those of our clients."""

from pathlib import Path

import pytest

from lakelog_kafka_tools.settings import (
    key_values,
    librdkafka,
    read_properties,
    read_security,
)
from lakelog_kafka_tools.thrown import Thrown

JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required"
    ' username="ann" password="s3\\"cret";'
)


def test_a_file_as_java_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "# a comment\n! another\n\n"
        "a=1\nb : 2\nc 3\n  d = four five \ne\n"
        "f=one \\\n    two\ng\\=h=i\nj=tab\\tuni\\u0041\nk=C:\\\\x\n"
    )

    assert read_properties(str(path)) == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "four five ",
        "e": "",
        "f": "one two",
        "g=h": "i",
        "j": "tab\tuniA",
        "k": "C:\\x",
    }


def test_a_file_that_is_not_there_is_javas_exception() -> None:
    with pytest.raises(Thrown, match=r"NoSuchFileException: /no/such\.properties"):
        read_properties("/no/such.properties")


def test_an_escape_that_is_none_is_javas_exception(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("a=\\u12g4\n")
    with pytest.raises(Thrown, match="IllegalArgumentException: Malformed"):
        read_properties(str(path))


def test_a_value_may_be_missing_or_have_equals_signs() -> None:
    assert key_values(["a=b=c", "d=", "e"]) == {"a": "b=c", "d": "", "e": ""}


def test_a_name_and_a_password_come_from_jaas() -> None:
    security = read_security(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": JAAS,
            "ssl.endpoint.identification.algorithm": "",
        }
    )

    assert security.tls
    assert not security.check_host
    assert (security.mechanism, security.username) == ("SCRAM-SHA-512", "ann")
    assert security.password == 's3"cret'


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"security.protocol": "X"}, "security.protocol=X is not one of"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanism=GSSAPI is not supported here"),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
            "sasl.jaas.config has no username and password",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "trust.jks"},
            "convert the file to PEM",
        ),
    ],
)
def test_what_we_cannot_do_is_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(Thrown, match=message):
        read_security(properties)


def test_names_that_differ_are_translated_and_strangers_are_told_of() -> None:
    told: list[str] = []

    found = librdkafka(
        {
            "fetch.max.wait.ms": "7",
            "max.request.size": "8",
            "linger.ms": "9",
            "key.serializer": "x",
            "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
            "interceptor.classes": "y",
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "ca.pem",
        },
        told.append,
    )

    assert found == {
        "fetch.wait.max.ms": "7",
        "message.max.bytes": "8",
        "linger.ms": "9",
        "partition.assignment.strategy": "roundrobin",
        "security.protocol": "SSL",
        "ssl.ca.location": "ca.pem",
        "ssl.endpoint.identification.algorithm": "https",
    }
    assert told == ["The setting interceptor.classes has no counterpart here and is left out."]
