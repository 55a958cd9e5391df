"""What a log costs, on paper: requests, storage, traffic and machines, and how long records take.

    Workload  -> requests_a_day    by what they are for and by kind, as brokers count them
              -> bill              dollars a month, line by line
              -> expected_ms       p50 and p99 of an acknowledgement
              -> kafka_bill        the same on Kafka: disks in three zones, or tiered storage

Pure arithmetic. How often brokers ask for what is taken from the settings that they run with; what
a pass of maintenance asks for was counted (``benchmarks.counted``), and ``benchmarks.planned``
compares all of it with brokers that run. A month has thirty days, a gigabyte 10^9 bytes.
"""

from collections import Counter
from dataclasses import dataclass, field
from math import ceil, floor

from lakelog.broker import (
    COMPARE_MS,
    HEARTBEAT_MS,
    NAMESPACE_LOOK_S,
    BrokerSettings,
    MaintenanceSettings,
    maintain_by_prices,
    spend_by_prices,
)
from lakelog.coordination import SHARDS
from lakelog.journal import FlushPolicy, FlushSettings
from lakelog.model import Rules
from lakelog.store import S3_PRICES, Prices, Usage

__all__ = [
    "Line",
    "Rates",
    "Workload",
    "bill",
    "expected_ms",
    "flushes_s",
    "kafka_bill",
    "pass_s",
    "requests_a_day",
]

DAY_S, MONTH_DAYS, GB = 86_400, 30, 1e9
COMMIT_S = 5
"""auto.commit.interval.ms of most clients."""
ZONES = 3
JOURNAL_S = 4_200
"""For so long bundles are there beside the segments: a grace of an hour, and a pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Published prices of AWS in us-east-1 (2025), in dollars."""

    s3_gb_month: float = 0.023
    """S3 Standard, the first 50 TB."""
    disk_gb_month: float = 0.08
    """EBS gp3, with what throughput is included."""
    zone_gb: float = 0.02
    """From one zone to another: 0.01 at either end."""
    machine_hour: float = 0.0816
    """m7g.large on demand; brokers of both kinds run on it."""
    disk_fill: float = 0.6
    """How full disks are that may not run full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is to be planned."""

    bytes_s: float
    partitions: int = 12
    lanes: int = 4
    brokers: int = 3
    retention_s: float = 7.0 * DAY_S
    readers: int = 1
    """Consumer groups that read everything, and keep up."""
    request_bytes: int = 16_384
    """Of each produce request: batches of a client, which linger.ms and batch.size decide."""
    put_ms: float = 60.0
    put_p99_ms: float = 200.0
    policy: FlushPolicy | None = None
    prices: Prices = field(default_factory=lambda: S3_PRICES)
    cell_ms: int | None = None
    """A budget between those of the policies, for a plot."""

    @property
    def settings(self) -> BrokerSettings:
        """How its brokers run."""
        return spend_by_prices(BrokerSettings(flush=FlushSettings(policy=self.policy)), self.prices)

    @property
    def cell_s(self) -> float:
        """How long one put of a lane has to last; 0: there is no budget."""
        cell_ms = self.settings.flush.cell_ms if self.cell_ms is None else self.cell_ms
        return cell_ms / 1000

    @property
    def busy_lanes(self) -> int:
        return min(self.partitions, self.lanes) if self.bytes_s else 0


def _busy_s(load: Workload) -> float:
    """Return the time from one flush of a lane to the next, when something always waits."""
    put_s = load.put_ms / 1000
    return max(put_s + max(put_s / 4, 0.001), load.cell_s)


def flushes_s(load: Workload) -> float:
    """Return how often one busy lane is flushed in a second."""
    if not load.busy_lanes:
        return 0.0
    flush = load.settings.flush
    bytes_s = load.bytes_s / load.busy_lanes
    requests_s = bytes_s / load.request_bytes
    full_s = max(bytes_s / flush.size_bytes_goal, requests_s / flush.requests_max)
    return max(min(requests_s, 1 / _busy_s(load)), full_s)


def expected_ms(load: Workload) -> tuple[float, float]:
    """Return p50 and p99 of an acknowledgement.

    In a busy lane a request waits for anything up to a cycle, then for its put. In one with less to
    do than it may, it waits for its put alone, and seldom for another.
    """
    if not load.busy_lanes:
        return load.put_ms, load.put_p99_ms
    requests_s = load.bytes_s / load.busy_lanes / load.request_bytes
    busy_s = 1 / flushes_s(load) if requests_s * _busy_s(load) > 1 else 0.0
    if not busy_s:
        return load.put_ms, load.put_p99_ms + load.put_ms * min(1.0, requests_s * _busy_s(load))
    return load.put_ms + 500 * busy_s, load.put_p99_ms + 990 * busy_s


def pass_s(load: Workload) -> float:
    """Return how long after one pass of maintenance the next one comes."""
    settings = maintain_by_prices(MaintenanceSettings(), load.prices)
    wait_s = settings.every_s
    for _ in range(8):  # It settles.
        wait_s = settings.next_s(wait_s, int(load.bytes_s / load.brokers * wait_s))
    return wait_s


def requests_a_day(load: Workload) -> Counter[tuple[str, str]]:
    """Return requests of all brokers in a day, by what they are for and by kind."""
    settings = load.settings
    watches, passes = DAY_S * 1000 / settings.topics_refresh_ms, DAY_S / pass_s(load)
    beats = load.brokers * DAY_S * 1000 / HEARTBEAT_MS
    bundles = load.busy_lanes * flushes_s(load) * DAY_S
    busy = 1 if load.bytes_s else 0
    clock = load.brokers * DAY_S * 1000 / COMPARE_MS + passes * (
        2 * load.brokers + 2 + busy * load.busy_lanes
    )
    commits_s = min(load.readers * busy / COMMIT_S, SHARDS * 1000 / _commit_ms(settings))
    found: Counter[tuple[str, str]] = Counter()
    for what, kind, count in (
        ("bundles", "put", bundles),
        ("bundles", "get", (2 + _ranges(load)) * bundles),
        ("bundles", "get", load.lanes * (watches + busy * 96 * passes)),
        ("bundles", "get", _probes_s(load) * DAY_S),
        ("checkpoints", "put", 2 * bundles / Rules().checkpoint_every + busy * load.lanes * passes),
        ("checkpoints", "get", bundles / Rules().checkpoint_every + busy * 4 * load.lanes * passes),
        ("heads", "get", load.lanes * (watches + (3 + busy) * passes)),
        ("heads", "put", busy * load.lanes * passes),
        ("history", "put", busy * 5 * load.partitions * passes),
        ("history", "get", load.partitions * ((1 + 5 * busy) * passes + watches * _reads(load))),
        ("history", "list", load.partitions * passes),
        ("members", "put", beats),
        ("members", "list", beats),
        ("topics", "list", load.brokers * (watches + passes)),
        ("topics", "get", load.brokers * (DAY_S / NAMESPACE_LOOK_S + 3 * passes)),
        ("groups", "head", SHARDS * DAY_S * 1000 / settings.groups.look_interval_ms),
        ("groups", "put", commits_s * DAY_S),
        ("clock", "put", clock),
        ("clock", "head", clock),
        ("clock", "list", passes),
        ("bulk writes", "list", 2 * passes),
    ):
        found[what, kind] += round(count)
    return +found


def _ranges(load: Workload) -> float:
    """Return how many ranges of a bundle are read when it is sealed: one for each group of
    partitions that are sealed together, if the bundle has something of it.
    """
    if not load.busy_lanes:
        return 0.0
    partitions = max(load.partitions / load.busy_lanes, 1.0)
    bytes_s = load.bytes_s / load.busy_lanes
    group_bytes, sealed_bytes = MaintenanceSettings().seal.group_bytes, bytes_s * pass_s(load)
    if sealed_bytes <= group_bytes:
        return 1.0
    groups = ceil(partitions / max(floor(group_bytes * partitions / sealed_bytes), 1))
    requests = max(bytes_s / load.request_bytes / flushes_s(load), 1.0)
    return float(groups * (1 - (1 - 1 / groups) ** requests))


def _commit_ms(settings: BrokerSettings) -> int:
    return max(settings.groups.commit_interval_ms, 1)


def _reads(load: Workload) -> int:
    return 1 if load.readers else 0


def _probes_s(load: Workload) -> float:
    """Return how often lanes are probed because fetches wait for them."""
    every_s = load.settings.probe_ms_max / 1000
    idle = max(0.0, 1 / every_s - (flushes_s(load) if load.bytes_s else 0.0))
    return load.lanes * idle * _reads(load)


# ---------------------------------------------------------------------------- dollars


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a bill."""

    what: str
    usd_month: float
    why: str = ""


def bill(load: Workload, rates: Rates) -> list[Line]:
    """Return what a month costs, line by line."""
    lines: list[Line] = []
    by_purpose: dict[str, Counter[str]] = {}
    for (what, kind), n in requests_a_day(load).items():
        by_purpose.setdefault(what, Counter())[kind] += n
    for what, kinds in by_purpose.items():
        usd = Usage(requests=kinds).cost_usd(load.prices) * MONTH_DAYS
        asked = ", ".join(f"{n:,} {kind.upper()}" for kind, n in kinds.items())
        lines.append(Line(f"requests: {what}", usd, f"{asked} a day"))
    stored_gb = load.bytes_s * (load.retention_s + JOURNAL_S) / GB
    lines += [
        Line("storage", stored_gb * rates.s3_gb_month, f"{stored_gb:,.0f} GB in the bucket"),
        _crossing(load, rates, (ZONES - 1) / ZONES, "two of three producers are in another zone"),
        _machines(load.brokers, rates),
    ]
    return lines


def kafka_bill(load: Workload, rates: Rates, local_s: float | None = None) -> list[Line]:
    """Return what a month costs on Kafka: three copies on disks in three zones; with tiered storage
    what is older than ``local_s`` is in the bucket.
    """
    kept_s = load.retention_s if local_s is None else min(local_s, load.retention_s)
    disk_gb = ZONES * load.bytes_s * kept_s / GB / rates.disk_fill
    why = f"{disk_gb:,.0f} GB: three copies, {rates.disk_fill:.0%} full"
    lines = [Line("disks", disk_gb * rates.disk_gb_month, why)]
    if local_s is not None:
        stored_gb = load.bytes_s * load.retention_s / GB
        lines.append(Line("storage", stored_gb * rates.s3_gb_month, f"{stored_gb:,.0f} GB"))
    lines += [
        _crossing(load, rates, ZONES - 1.0, "two copies go to other zones"),
        _crossing(load, rates, (ZONES - 1) / ZONES, "two of three producers are in another zone"),
        _machines(max(load.brokers, ZONES), rates),
    ]
    return lines


def _crossing(load: Workload, rates: Rates, times: float, why: str) -> Line:
    size_gb = load.bytes_s * times * DAY_S * MONTH_DAYS / GB
    return Line("traffic between zones", size_gb * rates.zone_gb, f"{size_gb:,.0f} GB: {why}")


def _machines(count: int, rates: Rates) -> Line:
    usd = count * rates.machine_hour * 24 * MONTH_DAYS
    return Line("machines", usd, f"{count} at ${rates.machine_hour} an hour")
