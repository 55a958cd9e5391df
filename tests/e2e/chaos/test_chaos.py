"""Four short runs of the campaign.

Beats come every 300 ms, so that more happens in 20 seconds. For longer, with beats as they come,
and with a ledger: ``make chaos``. That it finds what is there: ``make chaos-planted``.
"""

from pathlib import Path

import pytest

from tests.chaos.campaign import chaos_run
from tests.chaos.plan import Run
from tests.parts.seaweedfs import SeaweedFS
from tests.patience import in_time

pytestmark = pytest.mark.seaweedfs

SECONDS, BEATS_MS = 20.0, 300
SHARE_MIN = 0.5
FAULTS_MIN = 4


@pytest.mark.parametrize(
    ("workload", "faults", "members"),
    [
        ("group", "mixed", "etcd"),
        ("idempotent", "cuts", "bucket"),
        ("multi-writer", "store", "bucket"),
        ("queue", "one-way", "bucket"),
    ],
)
def test_whatever_befalls_brokers_nothing_is_lost_twice_or_unseen(
    seaweedfs: SeaweedFS, tmp_path: Path, workload: str, faults: str, members: str
) -> None:
    run = Run(
        seed=1,
        workload=workload,
        faults=faults,
        seconds=SECONDS,
        heartbeat_ms=BEATS_MS,
        members=members,
    )
    outcome = chaos_run(seaweedfs, tmp_path, run)
    assert not outcome.anomalies(), outcome.findings.shown()
    in_time(not outcome.late(), outcome.findings.shown())
    in_time(outcome.share >= SHARE_MIN, outcome.history.error_kinds())
    in_time(sum(outcome.fired.values()) >= FAULTS_MIN, outcome.fired)
