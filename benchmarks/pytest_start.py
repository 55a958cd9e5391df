"""How long a test waits for its Kafka: until a client may come, and until a record is acknowledged.

Two environments take turns: one that has lakelog's wheel with the extra ``server`` and pytest, as a
user has it, and the one in which lakelog is developed. In each round a new process runs

    import     ``lakelog.ephemeral``, once in a session: reported, and not part of the figure
    ready      ``EphemeralBroker()``: the figure, in seconds by the clock, and CPU beside it
    record     a topic, a producer of librdkafka, one record, acknowledged
    stop       ``close()``
    again      a second broker in the same process, as with ``lakelog_scope = function``
    plugin     what ``import pytest_lakelog`` adds to every start of pytest

``child`` is what was not chosen for tests in Python: ``lakelog serve --ephemeral``, from its start
to the line with its address.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import arguments, closing_line, undisturbed
from release.build import build
from release.versions import ROOT
from tests.parts.pythons import Environment, find_python

BAR_S = 0.5
PLUGIN_BAR_S = 0.02

_PROGRAM = """
import json, time
import pytest

found = {}

class took:
    def __init__(self, name): self.name = name
    def __enter__(self): self.began = time.perf_counter(), time.process_time()
    def __exit__(self, *_):
        wall, cpu = self.began
        found[self.name] = time.perf_counter() - wall, time.process_time() - cpu

with took("plugin"):
    import pytest_lakelog
with took("import"):
    from lakelog.ephemeral import EphemeralBroker
with took("ready"):
    broker = EphemeralBroker()
import confluent_kafka
from pytest_lakelog.clients import Clients
with took("record"):
    topic = broker.create_topic()
    clients = Clients(broker.bootstrap_servers, "confluent-kafka")
    producer = clients.producer()
    producer.produce(topic, b"x")
    assert producer.flush(30) == 0
clients.__exit__()
with took("stop"):
    broker.close()
with took("again"):
    broker = EphemeralBroker()
broker.close()
print(json.dumps(found))
"""

Found = dict[str, tuple[float, float]]


def environment_of(python: str) -> dict[str, str]:
    """Return the variables of a child: only the developer's finds modules by PYTHONPATH."""
    inherited = dict(os.environ)
    if python != sys.executable:
        inherited.pop("PYTHONPATH", None)
    return inherited


def in_process(python: str) -> Found:
    """Return seconds by the clock and of the processor, by step."""
    argv, env = [python, "-c", _PROGRAM], environment_of(python)
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=env)
    found: Found = json.loads(done.stdout)
    return found


def as_child(python: str) -> float:
    """Return seconds from the start of a process to its address."""
    began = time.perf_counter()
    argv = [python, "-m", "lakelog", "serve", "--ephemeral"]
    env = environment_of(python)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as child:
        assert child.stdout is not None
        assert child.stdout.readline()
        took_s = time.perf_counter() - began
        assert child.stdin is not None
        child.stdin.close()
    return took_s


def measure(pythons: dict[str, str], *, quick: bool) -> dict[str, dict[str, list[float]]]:
    """Return medians by environment and step: seconds by the clock, and of the processor."""
    for python in pythons.values():
        in_process(python)  # What is not compiled yet is compiled now.

    def one_round() -> dict[str, tuple[Found, float]]:
        return {name: (in_process(one), as_child(one)) for name, one in pythons.items()}

    found = undisturbed(one_round, 2 if quick else 9, again=not quick).found
    rows: dict[str, dict[str, list[float]]] = {}
    for name in pythons:
        steps = found[0][name][0]
        rows[name] = {
            step: [
                round(statistics.median(one[name][0][step][side] for one in found), 4)
                for side in (0, 1)
            ]
            for step in steps
        }
        rows[name]["child"] = [round(statistics.median(one[name][1] for one in found), 4)]
    return rows


def main() -> None:
    options = arguments(__doc__)
    with tempfile.TemporaryDirectory(prefix="lakelog-pytest-start-") as place:
        home = Path(place)
        environment = Environment(find_python("3.11"), home / "venv")
        wheel = build(ROOT, home / "dist").wheel
        environment.install("--compile-bytecode", f"{wheel}[server]", "pytest")
        pythons = {"user": str(environment.bin / "python"), "developer": sys.executable}
        rows = measure(pythons, quick=options.quick)
    for name, steps in rows.items():
        for step, seconds in steps.items():
            print(f"{name:10} {step:8}", *(f"{one:8.4f}" for one in seconds))
    ready_s = max(row["ready"][0] for row in rows.values())
    plugin_s = max(row["plugin"][0] for row in rows.values())
    closing_line(
        name="pytest_start",
        value=min(BAR_S / ready_s, PLUGIN_BAR_S / plugin_s),
        bar=1.0,
        unit="allowed over used, the worst of seconds until ready and of the plugin's import",
        ready_s=ready_s,
        ready_s_max=BAR_S,
        plugin_s=plugin_s,
        plugin_s_max=PLUGIN_BAR_S,
        rows=rows,
    )


if __name__ == "__main__":
    main()
