"""Every panel of the dashboard shows something, and nobody is alerted of a broker that is well."""

import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.dashboards.panels import read_panels
from tests.e2e.dashboards.traffic import traffic
from tests.parts.lakelog import running_lakelog
from tests.parts.prometheus import (
    RULES,
    Prometheus,
    prometheus_command,
    running_prometheus,
)
from tests.patience import in_time

PATIENCE_S = 120


GROUPS = {"billing", "search"}


def missing(prometheus: Prometheus) -> list[str]:
    """Return the panels that show nothing, and the groups whose lag is not known."""
    panels = [
        panel.title
        for panel in read_panels("10s")
        if not any(
            row["value"][1] != "NaN" for row in prometheus.get("query", query=panel.query)["result"]
        )
    ]
    lags = prometheus.get("query", query="lakelog_consumergroup_lag_seconds")["result"]
    return [*panels, *(GROUPS - {row["metric"]["consumergroup"] for row in lags})]


@pytest.mark.parametrize("workers", [1, 2])
def test_every_panel_shows_a_running_broker_and_nothing_alerts(workers: int) -> None:
    """Also if it is several workers, whose rows have a label more."""
    arguments = ("--keep-every", "1", "--init")
    with (
        running_lakelog(arguments=arguments, workers=workers) as broker,
        running_prometheus(broker.http) as prometheus,
        traffic(broker.bootstrap),
    ):
        deadline = time.monotonic() + PATIENCE_S
        while (left := missing(prometheus)) and time.monotonic() < deadline:
            time.sleep(0.5)  # noqa: TID251 (nothing to wait on but the next scrape)
        in_time(not left, f"nothing is shown of {left}")
        rules = prometheus.get("rules")["groups"]
        states = {rule["name"]: rule["state"] for group in rules for rule in group["rules"]}
        in_time(states == dict.fromkeys(states, "inactive"), states)
        assert len(states) == 23
        assert all(rule["health"] == "ok" for group in rules for rule in group["rules"])


@pytest.mark.parametrize("words", [("check", "rules"), ("test", "rules")])
@pytest.mark.parametrize("rules", [RULES, RULES.with_name("lakelog-spool.rules.yml")])
def test_the_rules_are_sound_and_alert_when_they_should(
    rules: Path, words: tuple[str, str]
) -> None:
    path: Path = rules if words[0] == "check" else rules.with_suffix(".test.yml")
    argv = [prometheus_command("promtool"), *words, str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
