"""The page of compatibility says what was found, of every behaviour and every client.

No broker is needed for this.
"""

import re

import pytest

from tests.e2e.compat.behaviours import BEHAVIOURS
from tests.e2e.compat.known import DIFFERENCES, LIMITS, REMARKS
from tests.e2e.compat.page import PAGE, explanation, read_report, render
from tests.e2e.compat.workers import CLIENTS

REPORT = read_report()


def rows() -> dict[str, list[str]]:
    """The cells of the page by the behaviour of their row."""
    found = re.findall(r"^\| \*\*(.+?)\*\*: (.+) \|$", PAGE.read_text(), re.MULTILINE)
    return {name: rest.split(" | ")[1:] for name, rest in found}


def test_the_page_is_made_of_the_results() -> None:
    assert PAGE.read_text() == render(REPORT), "run make compat"


def test_every_behaviour_has_a_row_and_every_client_a_cell_that_is_not_empty() -> None:
    found = rows()
    assert list(found) == list(BEHAVIOURS)
    for name, cells in found.items():
        assert len(cells) == len(CLIENTS), name
        assert all(re.match(r"(passes|absent|fails|Kafka) ?", cell) for cell in cells), cells


def test_every_table_has_a_column_for_every_client() -> None:
    heads = re.findall(r"^\| behaviour \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    titles = [client.title for client in CLIENTS.values()]
    assert heads
    assert all(head.split(" | ") == titles for head in heads)


@pytest.mark.parametrize("cluster", ["kafka", "lakelog"])
def test_every_behaviour_was_tried(cluster: str) -> None:
    tried = {client: list(some) for client, some in REPORT.results[cluster].items()}
    assert tried == {client: list(BEHAVIOURS) for client in CLIENTS}


def test_whatever_does_not_pass_is_explained() -> None:
    assert [cell for cell in REPORT.cells() if explanation(*cell) is None] == []


def test_every_explanation_is_needed() -> None:
    cells = [(name, client, kafka, ours) for name, client, kafka, ours in REPORT.cells()]
    differ = {name for name, _, kafka, ours in cells if kafka.result == "passes" != ours.result}
    limited = {(name, client) for name, client, kafka, _ in cells if kafka.result == "fails"}
    passing = {(name, client) for name, client, kafka, _ in cells if kafka.result == "passes"}
    assert differ == set(DIFFERENCES)
    assert limited == set(LIMITS)
    assert passing >= set(REMARKS)
