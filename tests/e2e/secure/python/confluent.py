"""A record there and back with confluent-kafka, which is librdkafka. One argument: the plan."""

import json
import sys
import time
from typing import Any

from confluent_kafka import Consumer, Producer


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
        config |= {"sasl.username": plan["user"], "sasl.password": plan["password"]}
    if plan["token"]:
        # It is refreshed at four fifths of its life.
        config["oauth_cb"] = lambda _: (plan["token"], time.time() + 600)  # noqa: TID251
    producer = Producer(config)
    for at in range(plan["count"]):
        producer.produce(plan["topic"], f"{plan['value']}{at}")
        producer.poll(plan["pause_s"])
    if producer.flush(plan["within_s"]):
        raise SystemExit("not delivered")
    reader = {"group.id": plan["topic"], "auto.offset.reset": "earliest"}
    consumer = Consumer({**config, **reader})
    consumer.subscribe([plan["topic"]])
    left, deadline = plan["count"], time.monotonic() + 60
    while left and time.monotonic() < deadline:
        message = consumer.poll(1)
        left -= message is not None and not message.error()
    consumer.close()
    print("ok" if not left else f"{left} are missing")  # noqa: T201


def failed(error: Any) -> None:
    if error.code() in (-169, -181):  # _AUTHENTICATION, _SSL
        sys.exit(f"refused: {error}")


main()
