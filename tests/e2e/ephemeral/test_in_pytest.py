"""The plugin of pytest as a user has it: the wheel in an environment of its own, and every block of
docs/how-to/kafka-in-tests.md run in it.
"""

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from release.build import build
from release.versions import ROOT
from tests.parts.process import mortal
from tests.parts.pythons import Environment, find_python
from tests.patience import HANGS_S, in_time

PAGE = ROOT / "docs" / "how-to" / "kafka-in-tests.md"
PLUGIN_MS_MAX = 20

PASSING = """
def test_it(kafka_broker, kafka_topic, kafka_producer):
    producer = kafka_producer()
    producer.produce(kafka_topic, b"x")
    assert producer.flush(30) == 0
    assert len(kafka_broker.records(kafka_topic)) == 1
    print(kafka_broker.bootstrap_servers)
"""
MANY = """
import pytest

@pytest.mark.parametrize("number", range(6))
def test_its_worker_has_a_broker(kafka_bootstrap_servers, worker_id, tmp_path_factory, number):
    shared = tmp_path_factory.getbasetemp().parent / f"of-{worker_id}"
    with shared.open("a") as lines:
        lines.write(f"{kafka_bootstrap_servers}\\n")
"""
HANGING = """
import time

def test_it(kafka_topic, kafka_producer):
    kafka_producer().produce(kafka_topic, b"x")
    print("waiting", flush=True)
    time.sleep(600)
"""


@dataclass(frozen=True)
class Home:
    """Where one user tests."""

    environment: Environment
    place: Path

    def env(self) -> dict[str, str]:
        path = f"{self.environment.bin}:/usr/bin:/bin"
        return {"PATH": path, "TMPDIR": str(self.place / "tmp"), "HOME": str(self.place)}

    def write(self, name: str, text: str) -> None:
        (self.place / name).write_text(text)

    def run(self, *argv: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            mortal([str(self.environment.bin / argv[0]), *argv[1:]]),
            cwd=self.place,
            env=self.env(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * HANGS_S,
        )

    def test(self, *options: str) -> str:
        """Run pytest, which must pass, and leave nothing behind."""
        done = self.run("pytest", "-q", "-p", "no:cacheprovider", *options)
        assert done.returncode == 0, done.stdout + done.stderr
        assert self.left() == []
        return done.stdout

    def left(self) -> list[Path]:
        return [path for path in (self.place / "tmp").iterdir() if "pytest-of" not in path.name]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    place = tmp_path_factory.mktemp("installed")
    wheel = build(ROOT, place / "dist").wheel
    environment = Environment(find_python("3.11"), place / "venv")
    clients = ("aiokafka", "kafka-python")
    environment.install(f"{wheel}[server]", "pytest", "pytest-asyncio", "pytest-xdist", *clients)
    environment.check()
    return environment


@pytest.fixture
def home(environment: Environment, tmp_path: Path) -> Iterator[Home]:
    (tmp_path / "tmp").mkdir()
    yield Home(environment, tmp_path)
    shutil.rmtree(tmp_path, ignore_errors=True)


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.S)


# ---------------------------------------------------------------------------- the page


def test_the_first_test_of_the_page_passes_as_it_says(home: Home) -> None:
    install, run, _ = blocks("console")
    assert install == "$ pip install 'lakelog[server]' pytest\n"
    home.write("test_orders.py", blocks("python")[0])
    command, printed = run.splitlines()
    assert command == "$ pytest -q"
    assert f"{printed} in " in home.test()


def test_every_other_test_of_the_page_passes(home: Home) -> None:
    tests = [block for block in blocks("python") if "def test_" in block]
    assert len(tests) == 5
    tests += re.findall(r"```python\n(def test_.*?)```", (ROOT / "README.md").read_text(), re.S)
    for number, block in enumerate(tests[1:]):
        if "async def" not in block:
            home.write(f"test_{number}.py", block)
    assert "5 passed" in home.test()


def test_the_tests_of_aiokafka_pass(home: Home) -> None:
    (block,) = (one for one in blocks("python") if "async def" in one)
    home.write("test_orders.py", block)
    assert "1 passed" in home.test("-o", "lakelog_client=aiokafka")


def test_the_settings_of_the_page_are_obeyed(home: Home) -> None:
    (ini,) = blocks("ini")
    home.write("pytest.ini", ini)
    home.write(
        "test_settings.py",
        """
import pytest

seen = set()

@pytest.mark.parametrize("number", range(2))
def test_each_has_a_broker(kafka_broker, kafka_producer, kafka_consumer, number):
    assert id(kafka_broker) not in seen
    seen.add(id(kafka_broker))
    assert type(kafka_producer()).__module__.startswith("kafka.")
    assert kafka_broker._settings.partitions == 3
    topic = kafka_broker.create_topic()
    kafka_producer().send(topic, b"x").get(timeout=30)
    assert next(iter(kafka_consumer(topic))).value == b"x"
""",
    )
    assert "2 passed" in home.test()


def test_it_does_without_pytest(home: Home) -> None:
    (block,) = (one for one in blocks("python") if "def test_" not in one)
    home.write("example.py", block)
    done = home.run("python", "example.py")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", done.stdout)
    assert home.left() == []


def test_it_serves_other_languages(home: Home) -> None:
    command, printed = blocks("console")[2].splitlines()
    home.write("typed", command.removeprefix("$ "))
    argv = mortal(["bash", "typed"])
    done = subprocess.run(
        argv, cwd=home.place, env=home.env(), capture_output=True, text=True, timeout=HANGS_S
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout).keys() == json.loads(printed).keys()
    assert home.left() == []


# ---------------------------------------------------------------------------- pytest


def test_each_worker_of_xdist_has_its_own(home: Home) -> None:
    home.write("test_many.py", MANY)
    assert "6 passed" in home.test("-n", "2", "--basetemp", str(home.place / "tmp" / "pytest-of"))
    seen = [set(path.read_text().split()) for path in home.place.glob("tmp/pytest-of/of-gw*")]
    assert len(seen) == 2
    assert [len(addresses) for addresses in seen] == [1, 1]
    assert seen[0] != seen[1]


def test_whoever_asks_for_no_broker_imports_none(home: Home) -> None:
    home.write(
        "test_nothing.py",
        "import sys\n"
        "def test_it(): assert [n for n in sys.modules if n.startswith('lakelog')] == []\n",
    )
    home.test()
    code = (
        "import pytest, time; began = time.process_time(); import pytest_lakelog;"
        "print(1000 * (time.process_time() - began))"
    )
    home.run("python", "-c", code)  # It may have to be compiled first.
    took_ms = float(home.run("python", "-c", code).stdout)
    in_time(took_ms < PLUGIN_MS_MAX, took_ms)


@pytest.mark.parametrize("with_", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_run_that_is_interrupted(home: Home, with_: signal.Signals) -> None:
    """By SIGTERM pytest dies as by SIGKILL: the next run removes the folder."""
    home.write("test_hanging.py", HANGING)
    child = subprocess.Popen(
        mortal([str(home.environment.bin / "pytest"), "-s", "-q", "-p", "no:cacheprovider"]),
        cwd=home.place,
        env=home.env(),
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert any("waiting" in line for line in child.stdout)
        assert len(home.left()) == 1
        began = time.monotonic()
        child.send_signal(with_)
        child.stdout.read()
        child.wait(HANGS_S)
        in_time(time.monotonic() - began < 10, "an interrupted run takes long to end")
    if with_ is signal.SIGINT:
        assert home.left() == []
    (home.place / "test_hanging.py").unlink()
    home.write("test_passing.py", PASSING)
    home.test()


def test_a_wrong_setting_is_said_in_a_line(home: Home) -> None:
    home.write("test_passing.py", PASSING)
    wrong = {
        "lakelog_scope=forever": "use one of session, package, module, class, function",
        "lakelog_client=sarama": "use one of confluent-kafka, kafka-python, aiokafka",
        "lakelog_properties=log.dirs=/tmp": "log.dirs=/tmp has no effect",
        "lakelog_properties=listeners=PLAINTEXT://:1": "listeners",
    }
    for setting, said in wrong.items():
        done = home.run("pytest", "-q", "-p", "no:cacheprovider", "-o", setting)
        assert done.returncode != 0
        assert said in done.stdout + done.stderr, done.stdout + done.stderr
    assert home.left() == []
