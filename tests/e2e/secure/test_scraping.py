"""curl and a real Prometheus see metrics behind a certificate, by the words of the page."""

import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

from tests.certificates import Authority
from tests.parts.process import LOOPBACK, Process, free_ports
from tests.parts.prometheus import running_prometheus
from tests.patience import in_time

PAGE = Path("docs/how-to/watch-a-broker.md")


def written(kind: str, containing: str) -> str:
    """Return the block of the page that contains something."""
    blocks = re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (found,) = (block for block in blocks if containing in block)
    return str(found)


def test_metrics_behind_a_certificate_are_scraped_as_the_page_says(tmp_path: Path) -> None:
    ours = Authority("ours")
    (port,) = free_ports(1)
    (kafka,) = free_ports(1)
    here = {
        "s3://bucket/logs": f"file://{tmp_path}/log",
        "0.0.0.0": LOOPBACK,
        "broker1.example.com": "localhost",
        "9404": str(port),
        "/etc/lakelog/http.pem": str(ours.sign("CN=broker").write(tmp_path / "http.pem")),
        "/etc/lakelog/clients.pem": str(ours.write_certificate(tmp_path / "ca.pem")),
        "/etc/prometheus/ca.pem": str(tmp_path / "ca.pem"),
        "/etc/prometheus/prometheus.pem": str(ours.sign("CN=p").write(tmp_path / "client.pem")),
    }

    def as_here(text: str) -> str:
        for word, other in here.items():
            text = text.replace(word, other)
        return text

    block = as_here(written("console", "--http-client-ca")).replace("\\\n", " ")
    serving, asking = (shlex.split(line.removeprefix("$ ")) for line in block.splitlines())
    argv = [sys.executable, "-m", *serving, "--listen", f"{LOOPBACK}:{kafka}", "--no-keep"]
    log = tmp_path / "lakelog.log"
    process = Process(argv, log)
    try:
        process.wait_until(lambda: " ready" in log.read_text(), 60)
        curl = [asking[0], "-s", *asking[1:]]
        text = subprocess.run(curl, check=True, capture_output=True, text=True).stdout
        assert 'lakelog_certificate_expiry_seconds{listener="HTTP"}' in text
        at = curl.index("--cert")
        without = [*curl[:at], *curl[at + 2 :]]
        found = subprocess.run(without, check=True, capture_output=True, text=True).stdout
        assert found == "show a certificate\n"
        with running_prometheus("", as_here(written("yaml", "tls_config"))) as prometheus:
            begun_s = time.monotonic()
            while not (rows := prometheus.get("query", query="up")["result"]) or (
                rows[0]["value"][1] != "1"
            ):
                in_time(time.monotonic() - begun_s < 60, rows)
                time.sleep(0.2)  # noqa: TID251 (nothing to wait on but the next scrape)
    finally:
        process.stop()
