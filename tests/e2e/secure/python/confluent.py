"""Records there and back with librdkafka (confluent-kafka), or a question about the cluster.

One argument: the plan.
"""

import json
import sys
import time
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

GREEDY = AclBinding(
    ResourceType.BROKER,
    "kafka-cluster",
    ResourcePatternType.LITERAL,
    "User:reader",
    "*",
    AclOperation.ALL,
    AclPermissionType.ALLOW,
)


def main() -> None:
    plan: dict[str, Any] = json.loads(sys.argv[1])
    config: dict[str, Any] = {
        "bootstrap.servers": plan["bootstrap"],
        "security.protocol": plan["protocol"],
        "ssl.ca.location": plan["ca"],
        "error_cb": failed,
    }
    if plan["cert"]:
        config |= {"ssl.certificate.location": plan["cert"], "ssl.key.location": plan["cert"]}
    if plan["mechanism"]:
        config["sasl.mechanism"] = plan["mechanism"]
    if plan["mechanism"] == "OAUTHBEARER":
        config |= {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": plan["token_url"],
            "sasl.oauthbearer.client.id": plan["user"],
            "sasl.oauthbearer.client.secret": plan["password"],
        }
    elif plan["mechanism"]:
        config |= {"sasl.username": plan["user"], "sasl.password": plan["password"]}
    if plan["wants"] == "cluster":
        # What DescribeAcls is answered, if not ACLs, it does not tell.
        admin = AdminClient(config)
        for future in admin.create_acls([GREEDY]).values():
            future.result(plan["within_s"])
        print("ok")  # noqa: T201
        return
    producer = Producer(config)
    for at in range(plan["count"]):
        producer.produce(plan["topic"], f"{plan['value']}{at}", on_delivery=delivered)
        producer.poll(plan["pause_s"])
    if producer.flush(plan["within_s"]):
        raise SystemExit("not delivered")
    reader = {"group.id": plan["group"], "auto.offset.reset": "earliest"}
    consumer = Consumer({**config, **reader})
    consumer.subscribe([plan["topic"]])
    left, deadline = plan["count"], time.monotonic() + 60
    while left and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error():
            raise SystemExit(message.error())
        left -= message is not None
    consumer.close()
    print("ok" if not left else f"{left} are missing")  # noqa: T201


def delivered(error: Any, _: object) -> None:
    if error is not None:
        raise SystemExit(error)


def failed(error: Any) -> None:
    if error.code() in (-169, -181):  # _AUTHENTICATION, _SSL
        sys.exit(f"refused: {error}")


main()
