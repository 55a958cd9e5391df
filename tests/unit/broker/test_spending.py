"""What a broker asks of the store less often, where requests have a price."""

from dataclasses import replace

import pytest

from lakelog.broker import (
    BrokerSettings,
    CoordinatorSettings,
    MaintenanceSettings,
    maintain_by_prices,
    spend_by_prices,
)
from lakelog.journal import FlushPolicy, FlushSettings
from lakelog.store import FREE, S3_PRICES, Prices


@pytest.mark.parametrize(
    ("policy", "prices", "cell_ms", "commit_ms", "probe_ms_max"),
    [
        (None, FREE, 0, 1_000, 1_000),
        (FlushPolicy.COST, FREE, 0, 1_000, 1_000),
        (FlushPolicy.LATENCY, S3_PRICES, 0, 1_000, 1_000),
        (None, S3_PRICES, 250, 1_000, 30_000),
        (FlushPolicy.COST, S3_PRICES, 5_000, 4_000, 30_000),
    ],
)
def test_a_price_and_a_policy_say_how_often_a_broker_asks(
    policy: FlushPolicy | None, prices: Prices, cell_ms: int, commit_ms: int, probe_ms_max: int
) -> None:
    told = BrokerSettings(flush=FlushSettings(policy=policy))
    found = spend_by_prices(told, prices)
    assert (found.flush.cell_ms, found.groups.commit_interval_ms) == (cell_ms, commit_ms)
    assert found.probe_ms_max == probe_ms_max


@pytest.mark.parametrize(
    ("groups", "commit_ms"),
    [
        (CoordinatorSettings(commit_interval_ms=0), 0),
        (CoordinatorSettings(patience_ms=2_000), 1_600),
        (CoordinatorSettings(commit_interval_ms=4_500), 4_500),
    ],
)
def test_commits_that_cost_nothing_or_would_come_too_late_are_not_held_back(
    groups: CoordinatorSettings, commit_ms: int
) -> None:
    told = BrokerSettings(flush=FlushSettings(policy=FlushPolicy.COST), groups=groups)
    assert spend_by_prices(told, S3_PRICES).groups.commit_interval_ms == commit_ms


def test_passes_of_maintenance_wait_for_work_where_they_cost_something() -> None:
    told = MaintenanceSettings()
    assert maintain_by_prices(told, FREE) == told
    assert maintain_by_prices(told, S3_PRICES) == replace(told, every_s_max=600)
    assert maintain_by_prices(MaintenanceSettings(every_s=900), S3_PRICES).every_s_max == 900
