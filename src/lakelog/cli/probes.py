"""Health and metrics of a pipeline that runs for ever, over HTTP.

GET /health     200 if the last pass was good and not long ago, else 503; a line says why
GET /metrics    for Prometheus: passes, failures, seconds, records and bytes by verb
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from lakelog.errors import InvalidInputError

if TYPE_CHECKING:
    from lakelog.pipeline import Report

__all__ = ["Probes"]


class Probes:
    """Health and metrics of the passes so far."""

    def __init__(self, *, stale_s: float | None) -> None:
        self._stale_s = stale_s
        self._last: float = monotonic()
        self._why = ""
        self._registry = CollectorRegistry()
        self._passes = self._counter("passes", "Passes that ended.")
        self._failed = self._counter("failures", "Passes that failed or found damage.")
        self._records = self._counter("records", "Records that were written.")
        self._bytes = self._counter("bytes_read", "Bytes that were read.")
        self._seconds = Gauge(
            "lakelog_pipeline_seconds", "How long the last pass took.", ["verb"],
            registry=self._registry,
        )  # fmt: skip

    def _counter(self, name: str, what: str) -> Counter:
        return Counter(f"lakelog_pipeline_{name}", what, ["verb"], registry=self._registry)

    def take(self, reports: Mapping[str, "Report"], failures: Mapping[str, str]) -> None:
        """Take in what a pass has done."""
        for verb, report in reports.items():
            self._passes.labels(verb).inc()
            self._failed.labels(verb).inc(not report.is_good)
            self._records.labels(verb).inc(report.records)
            self._bytes.labels(verb).inc(report.usage.bytes_read)
            self._seconds.labels(verb).set(report.seconds)
        for verb in failures:
            self._passes.labels(verb).inc()
            self._failed.labels(verb).inc()
        bad = [verb for verb, report in reports.items() if not report.is_good]
        failed = [f"{verb}: {why}" for verb, why in failures.items()]
        self._why = "; ".join([*failed, *(f"{verb} found damage" for verb in bad)])
        self._last = monotonic()

    def health(self) -> str:
        """Return what is wrong; an empty text if all is well."""
        silent_s = monotonic() - self._last
        if self._stale_s is not None and silent_s > self._stale_s:
            return f"no pass has ended for {silent_s:.0f} s"
        return self._why

    @contextmanager
    def serving(self, address: str | None) -> Iterator[int | None]:
        """Answer while the block runs; gives the port.

        Raises:
            InvalidInputError: no such address, or it is taken.
        """
        if address is None:
            yield None
            return
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            raise InvalidInputError(f"--http {address} is not an address: use HOST:PORT")
        try:
            server = ThreadingHTTPServer((host, int(port)), _handler(self))
        except (OSError, OverflowError) as error:
            raise InvalidInputError(f"cannot listen on --http {address}: {error}") from error
        thread = threading.Thread(target=server.serve_forever, name="probes", daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            server.server_close()

    def page(self, path: str) -> tuple[int, bytes]:
        """Return what is answered to a GET."""
        if path == "/metrics":
            return 200, generate_latest(self._registry)
        if path == "/health":
            why = self.health()
            return (503, f"{why}\n".encode()) if why else (200, b"good\n")
        return 404, b"/health or /metrics\n"


def _handler(probes: Probes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            status, body = probes.page(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log nothing: the requests of a monitor are no events."""

    return Handler
