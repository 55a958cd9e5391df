"""A record there and back with aiokafka. One argument: the plan."""

import asyncio
import json
import ssl
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """One token."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> str:
        return self._text


async def main() -> None:
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
        config |= {
            "sasl_mechanism": plan["mechanism"],
            "sasl_plain_username": plan["user"],
            "sasl_plain_password": plan["password"],
        }
    if plan["token"]:
        config["sasl_oauth_token_provider"] = Tokens(plan["token"])
    async with AIOKafkaProducer(**config) as producer:
        for at in range(plan["count"]):
            await producer.send_and_wait(plan["topic"], f"{plan['value']}{at}".encode())
            await asyncio.sleep(plan["pause_s"])
    reader = {"group_id": plan["topic"], "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(plan["topic"], **config, **reader) as consumer:
        for _ in range(plan["count"]):
            await asyncio.wait_for(consumer.getone(), 60)
    print("ok")  # noqa: T201


asyncio.run(main())
