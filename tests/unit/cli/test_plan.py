"""`lakelog plan`: the bill, the times and the plot; benchmarks.planned runs brokers beside it."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from lakelog.cli.commands import main
from lakelog.cli.costs import (
    Rates,
    Workload,
    bill,
    expected_ms,
    flushes_s,
    kafka_bill,
    requests_a_day,
)
from lakelog.journal import FlushPolicy
from lakelog.store import FREE

LATENCY, BALANCED, COST = FlushPolicy.LATENCY, FlushPolicy.BALANCED, FlushPolicy.COST


def usd(load: Workload) -> float:
    return sum(line.usd_month for line in bill(load, Rates()) if line.what.startswith("requests"))


def test_a_bill_worked_out_by_hand() -> None:
    """100 kB/s by cost: a put in 5 s of each of four lanes, and three brokers that beat."""
    load = Workload(bytes_s=100_000, request_bytes=25_000, policy=COST)
    assert flushes_s(load) == pytest.approx(0.2)
    found = requests_a_day(load)
    assert found["bundles", "put"] == 4 * 86_400 // 5
    assert (found["members", "put"], found["members", "list"]) == (86_400, 86_400)
    assert found["history", "put"] == 12 * 5 * 144, "a pass in ten minutes"
    assert expected_ms(load) == pytest.approx((60 + 2_500, 200 + 4_950))
    stored = next(line for line in bill(load, Rates()) if line.what == "storage")
    assert stored.usd_month == pytest.approx(0.023 * 100_000 * (7 * 86_400 + 4_200) / 1e9)


def test_a_silent_log_costs_its_heartbeats_and_a_little() -> None:
    load = Workload(bytes_s=0)
    assert 0.86 < usd(load) / 30 < 1.50
    assert not [what for what, kind in requests_a_day(load) if (what, kind) == ("bundles", "put")]


def test_kafka_pays_for_copies_and_their_traffic() -> None:
    load = Workload(bytes_s=1e6)
    lines = {line.what: line.usd_month for line in kafka_bill(load, Rates())[:2]}
    size_gb = 1e6 * 7 * 86_400 / 1e9
    assert lines["disks"] == pytest.approx(3 * size_gb / 0.6 * 0.08)
    assert lines["traffic between zones"] == pytest.approx(2 * 1e6 * 30 * 86_400 / 1e9 * 0.02)
    tiered = kafka_bill(load, Rates(), 6 * 3600.0)
    assert sum(one.usd_month for one in tiered) < sum(
        one.usd_month for one in kafka_bill(load, Rates())
    )


@given(
    st.floats(0, 1e9),
    st.integers(1, 2_000),
    st.integers(1, 64),
    st.integers(1, 20),
    st.integers(100, 1_000_000),
)
def test_who_waits_longer_pays_no_more(
    bytes_s: float, partitions: int, lanes: int, brokers: int, request_bytes: int
) -> None:
    loads = [
        Workload(
            bytes_s=bytes_s,
            partitions=partitions,
            lanes=lanes,
            brokers=brokers,
            request_bytes=request_bytes,
            policy=policy,
        )
        for policy in (LATENCY, BALANCED, COST)
    ]
    quick, middle, slow = loads
    assert usd(quick) >= usd(middle) >= usd(slow) > 0
    assert expected_ms(quick)[0] <= expected_ms(middle)[0] <= expected_ms(slow)[0]
    assert usd(Workload(bytes_s=bytes_s, prices=FREE)) == 0


@pytest.mark.parametrize("bytes_s", [5e-324, 2.2250738585e-313, 1e-9])
def test_next_to_nothing_costs_next_to_nothing(bytes_s: float) -> None:
    assert usd(Workload(bytes_s=bytes_s)) == pytest.approx(usd(Workload(bytes_s=1e-6)), rel=0.01)


def told(*words: str) -> Any:
    return CliRunner().invoke(main, ["plan", *words])


def test_the_command_tells_each_line_with_its_reason_and_draws(tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    shown = told("--rate", "10", "--plot", str(picture))
    assert shown.exit_code == 0, shown.output
    assert "requests: bundles" in shown.output
    assert "An acknowledgement by balanced: p50 " in shown.output
    assert "no budget" in shown.output
    drawn = picture.read_text()
    assert drawn.startswith("<svg")
    assert all(f"{policy}: " in drawn for policy in FlushPolicy)
    rows = [json.loads(line) for line in told("--rate", "10", "--json").output.splitlines()]
    assert {row["system"] for row in rows} == {"lakelog", "kafka", "kafka, tiered"}
    assert rows[-1]["p99_ms"] > rows[-1]["p50_ms"] > 60


def test_prices_that_are_none_are_refused() -> None:
    refused = told("--rate", "1", "--prices", "gold")
    assert refused.exit_code == 2
    assert "put:5,list:5,get:0.4" in refused.output
