"""What a broker says of itself on /metrics, and what the kernel says of it."""

from pathlib import Path

from tests.parts.lakelog import Lakelog

__all__ = ["metric", "metrics", "rss_bytes"]


def metrics(broker: Lakelog) -> dict[str, float]:
    """Return all metrics, by name and labels as they are written."""
    status, text = broker.get("/metrics")
    assert status == 200, text
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {what: float(value) for what, _, value in lines}


def metric(broker: Lakelog, name: str) -> float:
    """Return a metric, over all its labels."""
    found = [value for what, value in metrics(broker).items() if what.partition("{")[0] == name]
    assert found, f"there is no {name}"
    return sum(found)


def rss_bytes(broker: Lakelog) -> int:
    """Return the memory that its process has, without those that it started."""
    lines = Path(f"/proc/{broker.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))
