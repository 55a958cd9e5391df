"""The panels of the dashboard, read from the file that Grafana reads."""

import json
from typing import NamedTuple

from tests.parts.prometheus import ROOT

DASHBOARD = ROOT / "deploy" / "grafana" / "lakelog.json"


class Panel(NamedTuple):
    """One picture of the dashboard."""

    row: str
    title: str
    unit: str
    query: str
    legend: str


def read_panels(rate_interval: str) -> list[Panel]:
    """Return every panel, with an interval in place of Grafana's variable."""
    found: list[Panel] = []
    row = ""
    for one in json.loads(DASHBOARD.read_text())["panels"]:
        if one["type"] == "row":
            row = one["title"]
            continue
        (target,) = one["targets"]
        query = target["expr"].replace("$__rate_interval", rate_interval)
        unit = one["fieldConfig"]["defaults"]["unit"]
        found.append(Panel(row, one["title"], unit, query, target["legendFormat"]))
    return found
