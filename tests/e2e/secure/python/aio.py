"""Records there and back with aiokafka, or a question about the cluster. One argument: the plan."""

import asyncio
import json
import ssl
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from tests.parts.oidc import fetch_token


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Asks the issuer."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan

    async def token(self) -> str:
        plan = self._plan
        wanted = (plan["token_url"], plan["user"], plan["password"])
        return await asyncio.to_thread(fetch_token, *wanted)


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
    if plan["mechanism"] == "OAUTHBEARER":
        config["sasl_oauth_token_provider"] = Tokens(plan)
    if plan["wants"] == "cluster":
        await ask(config)
        return
    async with AIOKafkaProducer(**config) as producer:
        for at in range(plan["count"]):
            await producer.send_and_wait(plan["topic"], f"{plan['value']}{at}".encode())
            await asyncio.sleep(plan["pause_s"])
    reader = {"group_id": plan["group"], "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(plan["topic"], **config, **reader) as consumer:
        for _ in range(plan["count"]):
            await asyncio.wait_for(consumer.getone(), 60)
    print("ok")  # noqa: T201


async def ask(config: dict[str, Any]) -> None:
    """Ask for the configs of a broker: it knows of no ACLs."""
    admin = AIOKafkaAdminClient(**config)
    await admin.start()
    try:
        asked = [ConfigResource(ConfigResourceType.BROKER, "1")]
        for answer in await admin.describe_configs(asked):
            for code, *_ in answer.resources:
                if code:
                    raise for_code(code)
    finally:
        await admin.close()
    print("ok")  # noqa: T201


asyncio.run(main())
