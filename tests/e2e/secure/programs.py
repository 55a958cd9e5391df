"""The seven clients: how the program of each is built, and called with a plan."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.parts.golang import go_program
from tests.parts.jars import compiled
from tests.parts.jvm import java
from tests.parts.node import node, node_modules

__all__ = ["PROGRAMS", "call"]

_HERE = Path(__file__).parent
CALL_S = 180


def _python(module: str) -> Callable[[dict[str, Any]], list[str]]:
    name = f"tests.e2e.secure.python.{module}"
    return lambda plan: [sys.executable, "-m", name, json.dumps(plan)]


def _java(plan: dict[str, Any]) -> list[str]:
    classes = compiled("secure", _HERE / "java" / "Secure.java")
    config = {
        "bootstrap.servers": plan["bootstrap"],
        "security.protocol": plan["protocol"],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": plan["ca"],
    }
    if plan["cert"]:
        config |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": plan["cert"]}
    if plan["mechanism"]:
        config["sasl.mechanism"] = plan["mechanism"]
    package = "org.apache.kafka.common.security"
    named = f'username="{plan["user"]}" password="{plan["password"]}"'
    may_ask = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={plan['token_url']}"
    if plan["mechanism"] == "OAUTHBEARER":
        name = f"{package}.oauthbearer.OAuthBearerLogin"
        config["sasl.login.callback.handler.class"] = f"{name}CallbackHandler"
        config["sasl.oauthbearer.token.endpoint.url"] = plan["token_url"]
        client = f'clientId="{plan["user"]}" clientSecret="{plan["password"]}"'
        config["sasl.jaas.config"] = f"{name}Module required {client};"
    elif plan["mechanism"] == "PLAIN":
        config["sasl.jaas.config"] = f"{package}.plain.PlainLoginModule required {named};"
    elif plan["mechanism"]:
        config["sasl.jaas.config"] = f"{package}.scram.ScramLoginModule required {named};"
    words = {f"plan.{name}": plan[name] for name in plan}
    pairs = [f"{name}={value}" for name, value in {**config, **words}.items()]
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", quiet, may_ask]
    return [java(), *options, "-cp", classes, "Secure", *pairs]


PROGRAMS: Mapping[str, Callable[[dict[str, Any]], list[str]]] = {
    "java": _java,
    "confluent": _python("confluent"),
    "aiokafka": _python("aio"),
    "kafka-python": _python("plain"),
    "kafkajs": lambda plan: [node(), str(_HERE / "node" / "secure.js"), json.dumps(plan)],
    "franz-go": lambda plan: [str(go_program(_HERE / "go")), json.dumps(plan)],
    "kcat": _python("kcat"),
}


def call(client: str, plan: dict[str, Any], limit_s: int = CALL_S) -> tuple[bool, str]:
    """Run the program of a client; say whether the record came back, and what it said."""
    env = dict(os.environ)  # noqa: TID251 (a program of somebody else has the test's own)
    if client == "kafkajs":
        env["NODE_PATH"] = str(node_modules(_HERE.parent / "clients" / "node"))
    found = subprocess.run(
        PROGRAMS[client](plan), capture_output=True, text=True, timeout=limit_s, env=env
    )
    return found.stdout.strip() == "ok", found.stdout + found.stderr
