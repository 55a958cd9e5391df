"""A real Kafka that also listens where it asks for a name and a password, under TLS."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.parts.archives import quick_kafka
from tests.parts.jars import run_tool
from tests.parts.jvm import jdk_tool
from tests.parts.kafka import Kafka
from tests.parts.process import LOOPBACK, free_ports

__all__ = ["SecuredKafka", "running_secured_kafka"]

_MODULES = "org.apache.kafka.common.security"
_SECRET = "keystore"


class SecuredKafka(Kafka):
    """One node with a second door."""

    def __init__(self, home: Path) -> None:
        (port,) = free_ports(1)
        self.secured = f"{LOOPBACK}:{port}"
        self.certificate = home / "certificate.pem"
        self._store = home / "keys.p12"
        keytool = [jdk_tool("keytool"), "-keystore", str(self._store), "-storepass", _SECRET]
        keytool += ["-alias", "broker", "-noprompt"]
        run_tool([*keytool, "-genkeypair", "-keyalg", "EC", "-dname", "CN=broker",
                  "-ext", f"SAN=ip:{LOOPBACK}", "-validity", "2"])  # fmt: skip
        run_tool([*keytool, "-exportcert", "-rfc", "-file", str(self.certificate)])
        super().__init__(home, jvm=quick_kafka())

    def _default_settings(self) -> dict[str, str]:
        settings = super()._default_settings()
        listener = "listener.name.sasl_ssl"
        return {
            **settings,
            "listeners": f"{settings['listeners']},SASL_SSL://{self.secured}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL"
            ),
            "ssl.keystore.location": str(self._store),
            "ssl.keystore.password": _SECRET,
            "ssl.keystore.type": "PKCS12",
            f"{listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            f"{listener}.plain.sasl.jaas.config": (
                f'{_MODULES}.plain.PlainLoginModule required user_ann="secret";'
            ),
            f"{listener}.scram-sha-256.sasl.jaas.config": (
                f"{_MODULES}.scram.ScramLoginModule required;"
            ),
            f"{listener}.scram-sha-512.sasl.jaas.config": (
                f"{_MODULES}.scram.ScramLoginModule required;"
            ),
        }

    def client(self, mechanism: str, user: str, password: str) -> str:
        """What a client has in its properties file."""
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        return (
            f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\n"
            f"sasl.jaas.config={_MODULES}.{module} required"
            f' username="{user}" password="{password}";\n'
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.certificate}\n"
        )


@contextlib.contextmanager
def running_secured_kafka() -> Iterator[SecuredKafka]:
    """A started Kafka in a temporary folder, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="lakelog-kafka-") as home:
        kafka = SecuredKafka(Path(home))
        try:
            kafka.start()
            yield kafka
        finally:
            kafka.stop()
