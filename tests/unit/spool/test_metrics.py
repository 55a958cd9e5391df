"""What a spool tells Prometheus: names that the alarms know, and numbers that are so."""

import re
from pathlib import Path

from lakelog.spool.counters import Counters
from tests.unit.spool.spools import spool_in

RULES = Path(__file__).parents[3] / "deploy" / "prometheus" / "lakelog-spool.rules.yml"


def test_the_page_says_what_is_so(tmp_path: Path) -> None:
    with spool_in(tmp_path, bytes_max=1 << 20) as spool:
        spool.append_many("t", [b"a", b"b"])
        spool.seal("t")
        page = dict(
            line.split(" ") for line in spool.metrics().splitlines() if not line.startswith("#")
        )
    assert page["lakelog_spool_records_total"] == "2"
    assert page["lakelog_spool_segments"] == "2"
    assert page["lakelog_spool_unshipped_records"] == "2"
    assert page["lakelog_spool_unsynced_records"] == "0"
    assert page["lakelog_spool_size_bytes_max"] == str(1 << 20)
    assert int(page["lakelog_spool_page_faults_total"]) > 0
    assert page["lakelog_spool_sync_seconds_count"] == "1"
    named = set(re.findall(r"lakelog_spool_\w+", RULES.read_text()))
    assert named <= page.keys() | {"lakelog_spool_sync_seconds_bucket"}


def test_waits_are_counted_up_to_each_bound() -> None:
    counters = Counters()
    for took_us in (500, 1000, 1001, 99_000, 2_000_000):
        counters.synced(took_us)
    assert counters.sync_buckets == [2, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1]
    assert counters.syncs == 5
