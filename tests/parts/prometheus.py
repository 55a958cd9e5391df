"""A real Prometheus on loopback, from Debian's package, that scrapes every second."""

import contextlib
import http.client
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.parts.process import LOOPBACK, START_S, MissingPartError, Process, free_ports

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "lakelog.rules.yml"


def prometheus_command(name: str = "prometheus") -> str:
    """The path of `prometheus` or `promtool`."""
    command = shutil.which(name)
    if command is None:
        what = f"`{name}` is missing: install it (Debian: apt-get install prometheus)"
        raise MissingPartError(what)
    return command


class Prometheus:
    """One that runs."""

    def __init__(self, port: int) -> None:
        self._port = port

    def get(self, path: str, **query: str | float) -> Any:
        """Ask its API, and return the data of the answer."""
        link = http.client.HTTPConnection(LOOPBACK, self._port, timeout=10)
        with contextlib.closing(link):
            link.request("GET", f"/api/v1/{path}?{urlencode(query)}")
            told = json.loads(link.getresponse().read())
        assert told["status"] == "success", told
        return told["data"]

    def is_ready(self) -> bool:
        """Say whether it answers."""
        try:
            return bool(self.get("query", query="1"))
        except (OSError, ValueError, http.client.HTTPException):
            return False


@contextlib.contextmanager
def running_prometheus(target: str, scraping: str = "") -> Iterator[Prometheus]:
    """One that scrapes an HTTP address, or as ``scraping`` says, with our rules."""
    (port,) = free_ports(1)
    plainly = {"job_name": "lakelog", "static_configs": [{"targets": [target]}]}
    with tempfile.TemporaryDirectory(prefix="lakelog-prometheus-") as home:
        config = Path(home) / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
            f"rule_files: [{RULES}]\n{scraping or f'scrape_configs: {json.dumps([plainly])}'}\n"
        )
        argv = [
            prometheus_command(),
            f"--config.file={config}",
            f"--storage.tsdb.path={home}/data",
            f"--web.listen-address={LOOPBACK}:{port}",
        ]
        process = Process(argv, Path(home) / "prometheus.log")
        try:
            found = Prometheus(port)
            process.wait_until(found.is_ready, within_s=START_S)
            yield found
        finally:
            process.stop()
