"""What is built installs, with each extra, on each Python, and does what the README says.

The files that would be published are installed into environments that have nothing else. CI takes
another pair with each commit; ``make packages`` takes all, and prints how large they are and how
long each took with everything downloaded.
"""

import filecmp
import shutil
import subprocess
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lakelog
from lakelog_kafka_tools.running import KAFKA_VERSION
from release.build import Built, build
from release.versions import ROOT
from tests.e2e.packages.screen import first_screen, type_commands
from tests.parts.archives import quick_environment
from tests.parts.jars import cache
from tests.parts.pythons import SUPPORTED, Environment, find_python

GOLDEN = ROOT / "tests" / "golden" / "kafkalog"
PATIENCE_S = 180.0


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that is not below /tmp, which the first screen has for itself."""
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache(), prefix="installed-") as place:
        yield Path(place)


def run(environment: Environment, *argv: str) -> str:
    """Return what a command of an environment prints."""
    env = quick_environment()
    env["PATH"] = f"{environment.bin}:{env['PATH']}"  # As after `. venv/bin/activate`.
    command = [str(environment.bin / argv[0]), *argv[1:]]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, env=env
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---------------------------------------------------------------------------- files


def test_two_builds_are_the_same_byte_for_byte(built: Built, tmp_path: Path) -> None:
    """One of the checkout, one of a copy elsewhere, of another day and with other rights."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().rstrip("\0").split("\0"):
        copy = tmp_path / "elsewhere" / name
        if (ROOT / name).is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy)
            copy.chmod(0o600)
    again = build(tmp_path / "elsewhere", tmp_path / "dist")
    for one, other in zip(built, again, strict=True):
        assert one.name == other.name
        assert filecmp.cmp(one, other, shallow=False), one.name


def test_the_wheel_comes_out_of_the_sdist_as_well(built: Built, tmp_path: Path) -> None:
    with tarfile.open(built.sdist) as tar:
        tar.extractall(tmp_path, filter="data")
    again = build(tmp_path / f"lakelog-{lakelog.__version__}", tmp_path / "dist")
    assert filecmp.cmp(built.wheel, again.wheel, shallow=False)


def test_a_wheel_has_the_packages_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = wheel.namelist()
    dist_info = f"lakelog-{lakelog.__version__}.dist-info"
    tops = {"lakelog", "lakelog_kafka_tools", "pyspark_lakelog", "pytest_lakelog", dist_info}
    assert {name.split("/")[0] for name in names} == tops
    assert "lakelog/py.typed" in names
    assert not [name for name in names if name.endswith((".nbi", ".nbc", ".pyc"))]


# ---------------------------------------------------------------------------- extras


def try_base(environment: Environment, home: Path) -> None:
    assert run(environment, "lakelog", "--version") == f"lakelog, version {lakelog.__version__}\n"
    dumped = run(environment, "lakelog", "dump", "--limit", "2", str(GOLDEN / "cars-0"))
    assert "payload: BMW" in dumped
    run(environment, "python", "examples/log_in_a_folder.py", str(home / "log"))


def try_arrow(environment: Environment, home: Path) -> None:
    program = (
        "import lakelog\n"
        f"reader = lakelog.scan({str(GOLDEN)!r}, layout='kafka', columns=['topic', 'offset'])\n"
        "print(reader.read_all().num_rows)\n"
    )
    assert run(environment, "python", "-c", program) == "39\n"


def try_spark(environment: Environment, home: Path) -> None:
    program = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').getOrCreate()\n"
        "read = spark.read.format('lakelog').option('layout', 'kafka')\n"
        f"print(read.load({str(GOLDEN)!r}).count())\n"
    )
    assert run(environment, "python", "-c", program) == "39\n"


def try_kafka(environment: Environment, home: Path) -> None:
    program = (
        "from lakelog.pipeline.kafka_reader import KafkaReader; KafkaReader('kafka://127.0.0.1:1')"
    )
    run(environment, "python", "-c", program)


def try_tools(environment: Environment, home: Path) -> None:
    run(environment, "python", "-c", "import lakelog_kafka_tools.producer, confluent_kafka")
    assert run(environment, "lakelog", "kafka-topics", "--version") == f"{KAFKA_VERSION}\n"


def try_etcd(environment: Environment, home: Path) -> None:
    program = (
        "from lakelog.errors import UnavailableError\n"
        "from lakelog.store import EtcdStore, Get\n"
        "try: EtcdStore('etcd://127.0.0.1:1/nobody/listens').perform(Get('here'))\n"
        "except UnavailableError as error: print('outcome unknown' in str(error))"
    )
    assert run(environment, "python", "-c", program) == "True\n"


def try_server(environment: Environment, home: Path) -> None:
    commands, printed = first_screen((ROOT / "README.md").read_text())
    assert commands[0] == "python3 -m venv venv && venv/bin/pip install '.[server]'"
    assert environment.place == home / "venv"
    # The console tools, too, which the README names beneath.
    tool, server = "venv/bin/lakelog kafka-console", "--bootstrap-server 127.0.0.1:9092"
    write = f"echo from the console | {tool}-producer {server} --topic greetings"
    read = f"{tool}-consumer {server} --topic greetings --from-beginning --max-messages 2"
    shown = type_commands([*commands[1:], write, f"{read} 2>/dev/null"], home, PATIENCE_S)
    # Other lines are those of the broker, and of a client that came before it was there.
    lines = [one for one in shown.splitlines() if one in {*printed.splitlines(), *TYPED}]
    assert lines == [*printed.splitlines(), *TYPED], shown


TYPED = ("hello, lake", "from the console")

EXTRAS: dict[str, Callable[[Environment, Path], None]] = {
    "": try_base,
    "arrow": try_arrow,
    "etcd": try_etcd,
    "kafka": try_kafka,
    "server": try_server,
    "spark": try_spark,
    "tools": try_tools,
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("python", SUPPORTED)
@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_what_it_is_for(built: Built, home: Path, python: str, extra: str) -> None:
    environment = Environment(find_python(python), home / "venv")
    began = time.monotonic()
    environment.install(f"{built.wheel}[{extra}]" if extra else str(built.wheel))
    took_s = time.monotonic() - began
    environment.check()
    size_bytes = environment.size_bytes()
    print(f"\n{python} {extra or '(none)':7} {size_bytes / 1e6:6.0f} MB {took_s:5.1f} s")  # noqa: T201
    EXTRAS[extra](environment, home)


def test_every_extra_is_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS) - {""} == set(project["optional-dependencies"])


def test_the_locked_set_has_all_that_a_server_needs(built: Built, home: Path) -> None:
    environment = Environment(find_python("3.11"), home / "venv")
    locked = ROOT / "requirements" / "server.txt"
    environment.install("--require-hashes", "-r", str(locked))
    environment.install("--no-index", f"{built.wheel}[server]")
    environment.check()
    assert "Usage" in run(environment, "lakelog", "serve", "--help")


def test_an_sdist_installs_as_well(built: Built, home: Path) -> None:
    environment = Environment(find_python("3.11"), home / "venv")
    environment.install(str(built.sdist))
    try_base(environment, home)
