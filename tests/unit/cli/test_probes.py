"""What a pipeline that runs for ever tells over HTTP."""

import subprocess
import sys
import urllib.error
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest

from lakelog.cli.probes import Probes
from lakelog.errors import InvalidInputError


def report(*, good: bool = True) -> Any:
    usage = SimpleNamespace(bytes_read=1000)
    return SimpleNamespace(is_good=good, records=7, usage=usage, seconds=1.5)


def get(port: int | None, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_good_pass_is_healthy_and_counted() -> None:
    probes = Probes(stale_s=60)
    with probes.serving("127.0.0.1:0") as port:
        assert get(port, "/health") == (200, "good\n")
        probes.take({"seal": report()}, {})
        probes.take({"seal": report()}, {})
        assert get(port, "/health") == (200, "good\n")
        status, body = get(port, "/metrics")
        assert status == 200
        assert 'lakelog_pipeline_passes_total{verb="seal"} 2.0' in body
        assert 'lakelog_pipeline_records_total{verb="seal"} 14.0' in body
        assert 'lakelog_pipeline_failures_total{verb="seal"} 0.0' in body
        assert get(port, "/elsewhere")[0] == 404


def test_what_failed_is_said_until_it_is_well_again() -> None:
    probes = Probes(stale_s=None)
    with probes.serving("127.0.0.1:0") as port:
        probes.take({"merge": report(good=False)}, {"seal": "no answer: retry"})
        assert get(port, "/health") == (503, "seal: no answer: retry; merge found damage\n")
        assert 'failures_total{verb="seal"} 1.0' in get(port, "/metrics")[1]
        probes.take({"merge": report(), "seal": report()}, {})
        assert get(port, "/health")[0] == 200


def test_silence_is_not_health() -> None:
    assert "no pass has ended" in Probes(stale_s=-1).health()


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:", "127.0.0.1:99999", "300.1.1.1:80"])
def test_a_wrong_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidInputError, match="--http"), Probes(stale_s=1).serving(address):
        pass


def test_without_an_address_nobody_listens() -> None:
    with Probes(stale_s=1).serving(None) as port:
        assert port is None


def test_verbs_of_the_pipeline_need_nothing_of_a_server() -> None:
    blocked = (
        "import sys; sys.modules.update(dict.fromkeys(['prometheus_client', 'kio', 'uvloop']))"
    )
    load = f"{blocked}; import lakelog.cli.pipeline, lakelog.cli.import_"
    subprocess.run([sys.executable, "-c", load], check=True)
