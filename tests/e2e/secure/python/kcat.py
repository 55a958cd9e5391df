"""Records there and back with kcat. One argument: the plan."""

import json
import subprocess
import sys
from typing import Any

from tests.parts.kcat import kcat


def main() -> None:
    plan: dict[str, Any] = json.loads(sys.argv[1])
    config = {"security.protocol": plan["protocol"], "ssl.ca.location": plan["ca"]}
    if plan["cert"]:
        config |= {"ssl.certificate.location": plan["cert"], "ssl.key.location": plan["cert"]}
    if plan["mechanism"]:
        config |= {"sasl.mechanisms": plan["mechanism"]}
        config |= {"sasl.username": plan["user"], "sasl.password": plan["password"]}
    options = [part for name, value in config.items() for part in ("-X", f"{name}={value}")]
    if plan["wants"] == "cluster":
        options += ["-X", "enable.idempotence=true"]  # Of a cluster it asks for nothing else.
    call = [kcat(), "-b", plan["bootstrap"], *options]
    lines = "".join(f"{plan['value']}{at}\n" for at in range(plan["count"]))
    limit = ["-X", f"message.timeout.ms={plan['within_s'] * 1000}"]
    writing = [*call, "-P", "-t", plan["topic"], *limit]
    subprocess.run(writing, input=lines, text=True, check=True)
    earliest = ["-X", "auto.offset.reset=earliest"]
    reading = [*call, *earliest, "-e", "-q", "-G", plan["group"], plan["topic"]]
    found = subprocess.run(reading, stdout=subprocess.PIPE, text=True, check=True)
    print("ok" if found.stdout == lines else f"found {found.stdout!r}")  # noqa: T201


main()
