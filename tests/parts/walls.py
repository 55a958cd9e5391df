"""What stands between brokers and clients: TLS, logins by SCRAM, and ACLs.

    CLIENTS    TLS and SCRAM-SHA-512; brokers call each other here as well, as a super user
    ASKED      neither: who asks here is User:ANONYMOUS, and may describe, and no more

The worker of a test is User:worker, which is allowed what workers do, by ACLs.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lakelog.broker.settings import STANDARD_AUTHORIZER
from lakelog.catalog import UserChange, add_acls, change_users
from lakelog.host import new_id
from lakelog.security import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    ScramMechanism,
    keys_of,
    salt_password,
)
from lakelog.store import run
from tests.certificates import Authority

__all__ = ["Walls"]

_ITERATIONS = 4096
_PASSWORDS = {"broker": "of the brokers", "worker": "of the workers"}
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_MECHANISM = ScramMechanism.SHA_512
_T, _G, _C = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_O = Operation
_ALLOWED: Mapping[str, Mapping[ResourceType, tuple[Operation, ...]]] = {
    "User:worker": {
        _T: (_O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE_CONFIGS),
        _G: (_O.READ, _O.DELETE),
        _C: (_O.DESCRIBE,),
    },
    "User:ANONYMOUS": {_T: (_O.DESCRIBE,), _G: (_O.DESCRIBE,), _C: (_O.DESCRIBE,)},
}


def _jaas(user: str) -> str:
    return f'{_MODULE} required username="{user}" password="{_PASSWORDS[user]}";'


class Walls:
    """Those around one cluster."""

    def __init__(self, home: Path) -> None:
        self._home, self._authority = home, Authority()
        self._ca = self._authority.write_certificate(home / "ca.pem")

    def build(self, perform: Callable[..., Any]) -> None:
        """Make users and ACLs, before the first broker starts."""
        changes = []
        for user, password in _PASSWORDS.items():
            salt = f"salt of {user}".encode()
            salted = salt_password(_MECHANISM, password.encode(), salt, _ITERATIONS)
            keys = keys_of(_MECHANISM, salted, salt, _ITERATIONS)
            changes.append(UserChange(user, _MECHANISM, keys))
        run(change_users(tuple(changes), write=new_id(), secret=bytes(32)), perform)
        acls = [
            Acl(
                kind,
                PatternType.LITERAL,
                CLUSTER_NAME if kind is _C else "*",
                principal,
                "*",
                operation,
                Permission.ALLOW,
            )
            for principal, kinds in _ALLOWED.items()
            for kind, operations in kinds.items()
            for operation in operations
        ]
        run(add_acls(acls, new_id()), perform)

    def properties(self, asked: str, clients: str) -> dict[str, str]:
        """Return what a broker is told that listens at these two addresses."""
        host, _, _ = clients.rpartition(":")
        signed = self._authority.sign("CN=broker", hosts=(host,))
        return {
            "listeners": f"CLIENTS://{clients},ASKED://{asked}",
            "listener.security.protocol.map": "CLIENTS:SASL_SSL,ASKED:PLAINTEXT",
            "inter.broker.listener.name": "CLIENTS",
            "ssl.keystore.location": str(signed.write(self._home / f"{host}.pem")),
            "ssl.truststore.location": str(self._ca),
            "sasl.enabled.mechanisms": _MECHANISM,
            "sasl.mechanism.inter.broker.protocol": _MECHANISM,
            "listener.name.clients.scram-sha-512.sasl.jaas.config": _jaas("broker"),
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:broker",
            "connections.max.reauth.ms": "20000",
        }

    def librdkafka(self) -> dict[str, str]:
        """Return what a client of librdkafka is told."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": _MECHANISM,
            "sasl.username": "worker",
            "sasl.password": _PASSWORDS["worker"],
            "ssl.ca.location": str(self._ca),
        }

    def java(self) -> dict[str, str]:
        """Return what a client in Java is told."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": _MECHANISM,
            "sasl.jaas.config": _jaas("worker"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._ca),
        }
