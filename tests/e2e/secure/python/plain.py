"""Records there and back with kafka-python, or a question about the cluster. Argument: a plan."""

import json
import ssl
import sys
import time
from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.parts.oidc import fetch_token

ANY = ACLFilter(
    None,
    None,
    ACLOperation.ANY,
    ACLPermissionType.ANY,
    ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
)


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Asks the issuer."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan

    def token(self) -> str:
        plan = self._plan
        return fetch_token(plan["token_url"], plan["user"], plan["password"])


def main() -> None:
    plan: dict[str, Any] = json.loads(sys.argv[1])
    context = ssl.create_default_context(cafile=plan["ca"])
    if plan["cert"]:
        context.load_cert_chain(plan["cert"])
    config: dict[str, Any] = {
        "bootstrap_servers": plan["bootstrap"],
        "security_protocol": plan["protocol"],
        "ssl_context": context,
    }
    if plan["mechanism"]:
        config["sasl_mechanism"] = plan["mechanism"]
    if plan["mechanism"] == "OAUTHBEARER":
        config["sasl_oauth_token_provider"] = Tokens(plan)
    elif plan["mechanism"]:
        config |= {"sasl_plain_username": plan["user"], "sasl_plain_password": plan["password"]}
    if plan["wants"] == "cluster":
        with closing(KafkaAdminClient(**config)) as admin:
            print(admin.describe_acls(ANY))  # noqa: T201
        return
    producer = KafkaProducer(**config)
    for at in range(plan["count"]):
        sent = producer.send(plan["topic"], f"{plan['value']}{at}".encode())
        sent.get(timeout=plan["within_s"])
        time.sleep(plan["pause_s"])  # noqa: TID251 (this is a driver)
    producer.close()
    reader = {"group_id": plan["group"], "auto_offset_reset": "earliest"}
    consumer = KafkaConsumer(plan["topic"], **config, **reader, consumer_timeout_ms=60_000)
    for at, _ in enumerate(consumer, 1):
        if at == plan["count"]:
            print("ok")  # noqa: T201
            break
    consumer.close()


main()
