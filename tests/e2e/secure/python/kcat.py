"""A record there and back with kcat. One argument: the plan."""

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
    call = [kcat(), "-b", plan["bootstrap"], *options, "-t", plan["topic"]]
    lines = "".join(f"{plan['value']}{at}\n" for at in range(plan["count"]))
    limit = ["-X", f"message.timeout.ms={plan['within_s'] * 1000}"]
    subprocess.run([*call, "-P", *limit], input=lines, text=True, check=True)
    found = subprocess.run(
        [*call, "-C", "-e", "-q", "-o", "beginning"], capture_output=True, text=True, check=True
    )
    print("ok" if found.stdout == lines else f"found {found.stdout!r}")  # noqa: T201


main()
