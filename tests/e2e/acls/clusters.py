"""The two that are compared: a Kafka with its own authorizer, and a broker of ours.

In Kafka brokers and controllers log in as a super user, on listeners of their own. Clients of the
matrix are nobody, on the plain one.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lakelog.broker.settings import STANDARD_AUTHORIZER, AuthorizerSettings
from lakelog.catalog import add_acls
from lakelog.host import new_id
from lakelog.security import Acl
from tests.parts.archives import quick_kafka
from tests.parts.kafka import Kafka
from tests.parts.process import LOOPBACK, free_ports
from tests.patience import heard
from tests.unit.broker.site import Site, broker

__all__ = ["running_kafka", "running_lakelog"]

_PLAIN = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin"'
    ' password="secret" user_admin="secret";'
)


class _Kafka(Kafka):
    """One node with its authorizer."""

    def __init__(self, home: Path) -> None:
        (port,) = free_ports(1)
        self.door = f"{LOOPBACK}:{port}"
        super().__init__(home, jvm=quick_kafka())

    def _default_settings(self) -> dict[str, str]:
        settings = super()._default_settings()
        return {
            **settings,
            "listeners": f"{settings['listeners']},ADMIN://{self.door}",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,ADMIN:SASL_PLAINTEXT"
            ),
            "inter.broker.listener.name": "ADMIN",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.admin.plain.sasl.jaas.config": _PLAIN,
            "listener.name.controller.plain.sasl.jaas.config": _PLAIN,
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:admin",
            "auto.create.topics.enable": "true",
        }

    def allow(self, acls: Sequence[Acl]) -> None:
        """Have some ACLs."""
        admin = AdminClient(
            {
                "bootstrap.servers": self.door,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "admin",
                "sasl.password": "secret",
            }
        )
        heard(admin.create_acls([_binding(one) for one in acls]).values())


def _binding(acl: Acl) -> AclBinding:
    names = {"TRANSACTIONAL_ID": "TRANSACTIONAL_ID", "CLUSTER": "BROKER"}
    kind = acl.resource_type.name
    return AclBinding(
        ResourceType[names.get(kind, kind)],
        acl.name,
        ResourcePatternType[acl.pattern_type.name],
        acl.principal,
        acl.host,
        AclOperation[acl.operation.name],
        AclPermissionType[acl.permission.name],
    )


@contextmanager
def running_kafka(acls: Sequence[Acl]) -> Iterator[int]:
    """A Kafka with some ACLs: the port of its plain listener."""
    with tempfile.TemporaryDirectory(prefix="lakelog-kafka-") as home:
        kafka = _Kafka(Path(home))
        try:
            kafka.start()
            kafka.allow(acls)
            yield int(kafka.bootstrap.rpartition(":")[2])
        finally:
            kafka.stop()


@asynccontextmanager
async def running_lakelog(acls: Sequence[Acl]) -> AsyncIterator[int]:
    """A broker of ours in this process with some ACLs: the port of its listener."""
    site = Site()
    site.do(add_acls(acls, new_id()))
    settings = AuthorizerSettings(class_name=STANDARD_AUTHORIZER)
    async with broker(site, authorizer=settings, node_id=1, auto_create_topics=True) as running:
        yield running.ports["PLAINTEXT"]
