"""Metrics of several workers are one page, as if a broker had written it."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from lakelog.broker.metrics.counters import Gauge
from lakelog.broker.metrics.merging import merge_pages
from lakelog.broker.metrics.prometheus import encode_workers

ACCEPTS = {"prometheus": "", "openmetrics": "application/openmetrics-text"}
PARSERS: dict[str, Callable[[str], Iterable[Any]]] = {
    "prometheus": text_string_to_metric_families,
    "openmetrics": openmetrics.text_string_to_metric_families,
}

Rows = Mapping[tuple[str, str], float]
"""Values by name and label."""

NAMES = ("bytes_in", "connections", "lag")
words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
rows = st.dictionaries(
    st.tuples(st.sampled_from(NAMES), words), st.integers(0, 1 << 50).map(float), max_size=8
)
each_format = pytest.mark.parametrize("format_", ACCEPTS)


def page(values: Rows, accept: str) -> str:
    """Return what a worker writes."""
    families: list[Metric] = []
    for name in NAMES:
        kind = CounterMetricFamily if name == "bytes_in" else GaugeMetricFamily
        family = kind(name, f"What {name} is.", labels=("of",))
        for (one, label), value in values.items():
            if one == name:
                family.add_metric((label,), value)
        families.append(family)
    families.append(GaugeMetricFamily("members", "Without a label.", value=float(len(values))))
    encoder, _ = choose_encoder(accept)

    class Registry:
        def collect(self) -> list[Metric]:
            return families

    return encoder(Registry()).decode()


@each_format
@given(pages=st.dictionaries(st.integers(0, 9), rows, min_size=1, max_size=4))
def test_every_row_is_there_with_its_worker_and_every_family_once(
    format_: str, pages: dict[int, Rows]
) -> None:
    accept = ACCEPTS[format_]
    merged = merge_pages({worker: page(one, accept) for worker, one in pages.items()})
    found: dict[tuple[int, str, str], float] = {}
    families: Counter[str] = Counter()
    for family in PARSERS[format_](merged):
        families[family.name] += 1
        for row in family.samples:
            name = row.name.removesuffix("_total")
            found[int(row.labels["worker"]), name, row.labels.get("of", "")] = row.value
    assert max(families.values()) == 1
    assert set(families) == {*NAMES, "members"}
    expected = {
        (worker, name, label): value
        for worker, one in pages.items()
        for (name, label), value in one.items()
    }
    expected |= {(worker, "members", ""): float(len(one)) for worker, one in pages.items()}
    assert found == expected


@each_format
@given(one=rows)
def test_the_supervisors_own_come_first_and_nothing_is_lost_when_a_worker_is_silent(
    format_: str, one: Rows
) -> None:
    accept = ACCEPTS[format_]
    own, _ = encode_workers({0: True, 1: False}, {0: 1, 1: 5}, accept)
    merged = merge_pages({0: page(one, accept)}, own.decode())
    first, second, *others = PARSERS[format_](merged)
    assert [(row.labels["worker"], row.value) for row in first.samples] == [("0", 1), ("1", 0)]
    assert [(row.labels["worker"], row.value) for row in second.samples] == [("0", 1), ("1", 5)]
    assert len(others) == len(NAMES) + 1


def test_what_is_a_setting_of_all_has_no_worker() -> None:
    """The alert for full shards divides by it, and finds one for each instance."""
    text = (
        "# HELP lakelog_group_shard_bytes_max Most.\n"
        "# TYPE lakelog_group_shard_bytes_max gauge\n"
        "lakelog_group_shard_bytes_max 8.0\n"
    )
    assert merge_pages({0: text, 1: text}) == text
    assert merge_pages({1: text}) == text


def test_the_supervisors_gauges_are_in_a_family_with_those_of_workers() -> None:
    """It has the certificate for health and metrics, and workers have those of listeners."""
    gauge = Gauge("lakelog_t", "T.", lambda: [(("HTTP",), 7.0)], ("listener",))
    own = encode_workers({}, {}, gauges=[gauge])[0].decode()
    worker = '# HELP lakelog_t T.\n# TYPE lakelog_t gauge\nlakelog_t{listener="SSL"} 5.0\n'
    assert merge_pages({1: worker}, own).endswith(
        '# TYPE lakelog_t gauge\nlakelog_t{listener="HTTP"} 7.0\n'
        'lakelog_t{worker="1",listener="SSL"} 5.0\n'
    )


def test_without_a_worker_that_answers_there_is_still_a_page() -> None:
    own = encode_workers({0: False}, {0: 3})[0].decode()
    assert merge_pages({}, own) == own
