"""A record there and back with kafka-python. One argument: the plan."""

import json
import ssl
import sys
import time
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """One token."""

    def __init__(self, text: str) -> None:
        self._text = text

    def token(self) -> str:
        return self._text


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
    if plan["user"]:
        config |= {"sasl_plain_username": plan["user"], "sasl_plain_password": plan["password"]}
    if plan["token"]:
        config["sasl_oauth_token_provider"] = Tokens(plan["token"])
    producer = KafkaProducer(**config)
    for at in range(plan["count"]):
        sent = producer.send(plan["topic"], f"{plan['value']}{at}".encode())
        sent.get(timeout=plan["within_s"])
        time.sleep(plan["pause_s"])  # noqa: TID251 (this is a driver)
    producer.close()
    reader = {"group_id": plan["topic"], "auto_offset_reset": "earliest"}
    consumer = KafkaConsumer(plan["topic"], **config, **reader, consumer_timeout_ms=60_000)
    for at, _ in enumerate(consumer, 1):
        if at == plan["count"]:
            print("ok")  # noqa: T201
            break
    consumer.close()


main()
