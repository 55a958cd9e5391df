"""The protocol of a lane holds, and each of its steps is needed: every row of the model's table.

The searches run two at a time, started together by the first test; each test waits for its own. Run
by itself, a test starts its own search only.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.architecture.house import ROOT
from tests.model.check import JOBS, MODEL, Outcome, missing_tools, run
from tests.model.rows import LONG_ROWS, ROWS, Row


@pytest.fixture(scope="module")
def searches(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Outcome]]]:
    """The searches of all rows that this run asks for."""
    missing = missing_tools()
    assert missing is None, missing
    items = (item for item in request.session.items if isinstance(item, pytest.Function))
    specs = (item.callspec for item in items if hasattr(item, "callspec"))
    rows = (spec.params.get("row") for spec in specs)
    wanted = [row for row in rows if isinstance(row, Row)]
    with ThreadPoolExecutor(JOBS) as pool:
        yield {row.name: pool.submit(run, row) for row in wanted}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name.replace(" ", "-"))
def test_a_row_comes_out_as_expected(row: Row, searches: dict[str, Future[Outcome]]) -> None:
    outcome = searches[row.name].result()
    assert outcome.expected, f"{outcome.line()}\n{outcome.log[-3000:]}"


def test_every_mistake_that_the_model_knows_is_in_the_table() -> None:
    """A step that no row leaves out is a step that nobody has shown to be needed."""
    words = MODEL.read_text().replace("(", " ").replace(")", " ").split()
    known = {word for word in words if word.startswith("MUTANT_")}
    assert known == {one for row in ROWS for one in row.defines if one.startswith("MUTANT_")}


def test_every_mistake_is_explained() -> None:
    page = " ".join((ROOT / "docs/explanation/append-protocol.md").read_text().split())
    assert [row.name for row in ROWS if row.breaks and f"*{row.name}*" not in page] == []


def test_names_of_rows_are_unique() -> None:
    names = [row.name for row in (*ROWS, *LONG_ROWS)]
    assert len(set(names)) == len(names)
