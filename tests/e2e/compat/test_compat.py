"""Every client can do with lakelog what docs/compatibility.md says.

The workers of all clients run side by side, because they mostly wait.
"""

import asyncio
from collections.abc import Iterator

import pytest

from tests.e2e.compat.behaviours import BEHAVIOURS
from tests.e2e.compat.clusters import CLUSTERS
from tests.e2e.compat.page import read_report
from tests.e2e.compat.running import LATE, PATIENCE_S, Result, prepare, run_client
from tests.e2e.compat.workers import CLIENTS
from tests.patience import in_time


async def _run_all(bootstrap: str, clients: list[str]) -> dict[str, dict[str, Result]]:
    plan = await prepare(bootstrap, BEHAVIOURS, PATIENCE_S)
    told = await asyncio.gather(*(run_client(name, plan) for name in clients))
    return {name: results for name, (_, results) in zip(clients, told, strict=True)}


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> Iterator[dict[str, dict[str, Result]]]:
    """What came out for the clients of all selected tests."""
    wanted = {
        item.callspec.params.get("client")
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    }
    with CLUSTERS["lakelog"]() as bootstrap:
        yield asyncio.run(_run_all(bootstrap, [name for name in CLIENTS if name in wanted]))


@pytest.mark.sample(2)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_can_do_what_the_page_says(
    client: str, found: dict[str, dict[str, Result]]
) -> None:
    said = read_report().results["lakelog"][client]
    now = found[client]
    differ = {
        name: (result, f"the page says: {said[name]}")
        for name, result in now.items()
        if result.result != said[name].result
    }
    late = {name for name in differ if now[name].why.startswith(LATE)}
    assert not differ.keys() - late, {name: differ[name] for name in differ.keys() - late}
    in_time(not late, differ)
