"""Every attack of the table, on one broker, one after the other; what counts is in ``arena``.

LAKELOG_HOSTILE_SECONDS says how long each attack takes; `make hostile` lets each take long, and
prints the table.
"""

import os
from collections.abc import Iterator

import pytest

from tests.e2e.hostile.arena import ATTEMPTS, Arena, Result, running_arena, table
from tests.e2e.hostile.rows import ROWS, Row

ATTACK_S = float(os.environ.get("LAKELOG_HOSTILE_SECONDS", "1.2"))  # noqa: TID251
QUIET_S = max(ATTACK_S / 4, 0.6)


@pytest.fixture(scope="module")
def results() -> Iterator[list[Result]]:
    """What came of the attacks so far; shown at the end."""
    found: list[Result] = []
    yield found
    print("\n" + table(found))  # noqa: T201 (what -s shows)


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    with running_arena(tmp_path_factory.mktemp("arena")) as running:
        yield running


@pytest.mark.alone
@pytest.mark.sample(10)
@pytest.mark.timeout(60 + ATTEMPTS * (ATTACK_S + QUIET_S + 60))
@pytest.mark.parametrize("row", ROWS, ids=[row.name.replace(" ", "_") for row in ROWS])
def test_honest_clients_do_not_suffer_when(arena: Arena, results: list[Result], row: Row) -> None:
    best: Result | None = None
    for _ in range(ATTEMPTS):
        arena.settle()
        result = arena.attack(row, QUIET_S, ATTACK_S)
        if best is None or _badness(result) < _badness(best):
            best = result
        if not best.harms() or result.errors:
            break
    assert best is not None
    results.append(best)
    assert not best.harms(), "; ".join(best.harms())


def _badness(result: Result) -> tuple[int, float]:
    return len(result.harms()), max(result.during.acked_ms, result.during.seen_ms)
