"""The protocols hold, and each of their steps is needed: every row of the models' table.

The searches run two at a time, started together by the first test; each test waits for its own. Run
by itself, a test starts its own search only.
"""

import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.architecture.house import ROOT
from tests.model.check import JOBS, MODELS, Outcome, missing_tools, run
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


@pytest.mark.parametrize("model", MODELS)
def test_every_mistake_that_a_model_knows_is_in_the_table(model: str) -> None:
    """A step that no row leaves out is a step that nobody has shown to be needed."""
    words = MODELS[model].read_text().replace("(", " ").replace(")", " ").split()
    known = {word for word in words if word.startswith("MUTANT_")}
    rows = [row for row in ROWS if row.model == model and row.breaks]
    assert known == {one for row in rows for one in row.defines if one.startswith("MUTANT_")}


@pytest.mark.parametrize("model", MODELS)
def test_every_law_is_broken_by_a_mistake_that_names_it(model: str) -> None:
    """A law that nothing breaks may be one that cannot be broken."""
    laws = set(re.findall(r"^bool ([JH]\d)_", MODELS[model].read_text(), re.MULTILINE))
    rows = [row for row in ROWS if row.model == model and row.breaks]
    assert laws - {row.breaks[:2] for row in rows if row.breaks} == set()


@pytest.mark.parametrize(
    ("model", "path"),
    [("lane", "docs/explanation/append-protocol.md"), ("history", "tests/model/history.pml")],
)
def test_every_mistake_is_explained(model: str, path: str) -> None:
    page = " ".join((ROOT / path).read_text().split())
    rows = [row for row in ROWS if row.model == model and row.breaks]
    assert [row.name for row in rows if f"*{row.name}*" not in page] == []


def test_names_of_rows_are_unique() -> None:
    names = [row.name for row in (*ROWS, *LONG_ROWS)]
    assert len(set(names)) == len(names)
