"""A real Spark Connect: a server of its own, and a client that knows it by its protocol alone.

A process has one Spark of one kind, and that of the tests is a classic one. So the client is a
Python of its own: `connect_job` takes a function of a module, has it called there with a session
from `SparkSession.builder.remote("local[2]")`, and hands back what it returned, as JSON.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.parts.jars import cache
from tests.parts.jvm import java
from tests.parts.process import LOOPBACK, FailedPartError, mortal

_ROOT = Path(__file__).parents[2]
_MARK = "result: "


def connect_job(
    function: Callable[..., object],
    jvm: Sequence[str] = (),
    within_s: float = 120,
    **arguments: object,
) -> Any:
    """Have a function of a module called as `function(session, **arguments)` by a new client."""
    java()
    call = json.dumps([function.__module__, function.__name__, arguments, list(jvm)])
    env = {
        **os.environ,  # noqa: TID251 (a child inherits)
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
        # Spark's own word for: let the server listen on any free port.
        "SPARK_TESTING": "1",
        # The server starts a dozen Pythons, and each would compile pandas, Numba and Spark.
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(cache() / "bytecode"),
    }
    argv = mortal([sys.executable, "-m", "tests.parts.spark_connect", call])
    done = subprocess.run(
        argv, cwd=_ROOT, env=env, capture_output=True, text=True, timeout=within_s
    )
    for line in done.stdout.splitlines():
        if line.startswith(_MARK):
            return json.loads(line.removeprefix(_MARK))
    raise FailedPartError(f"the client ended with {done.returncode}:\n{done.stderr[-4000:]}")


def _main(call: str) -> None:
    from pyspark.sql import SparkSession

    module, name, arguments, jvm = json.loads(call)
    function = getattr(importlib.import_module(module), name)
    with tempfile.TemporaryDirectory(prefix="lakelog-connect-") as home:
        settings = {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.defaultJavaOptions": " ".join(jvm),
            "spark.local.dir": str(Path(home, "scratch")),
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(Path(home, "warehouse")),
            "spark.ui.enabled": "false",
        }
        session = SparkSession.builder.remote("local[2]").config(map=settings).getOrCreate()
        try:
            result = function(session, **arguments)
        finally:
            session.stop()
        sys.stdout.write(f"{_MARK}{json.dumps(result)}\n")


if __name__ == "__main__":
    _main(sys.argv[1])
