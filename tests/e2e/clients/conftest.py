"""The cluster that the stories are told to, and what the clients told.

The programs of all clients run side by side, because they mostly wait for each other's members.
Only those run that a selected test asks for.
"""

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from lakelog.host import SystemClock, new_id
from tests.e2e.clients.clusters import Cluster, KafkaCluster, LakelogCluster
from tests.e2e.clients.plan import Plan, times
from tests.e2e.clients.programs import CODECS, PROGRAMS, Program
from tests.e2e.clients.restarting import RestartedCluster, restarted_cluster
from tests.e2e.clients.telling import Told, run_program

_CLUSTERS = os.environ.get("LAKELOG_CLIENTS_ON", "lakelog").split(",")  # noqa: TID251
# Old enough for a broker's bounds, too young for its retention.
_AGE_MS = 3_600_000


@pytest.fixture(scope="session", params=_CLUSTERS)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A real Kafka, or lakelog on a folder: one broker, or three that are restarted by turns."""
    if request.param == "kafka":
        yield KafkaCluster(request.getfixturevalue("kafka"))
    elif request.param == "three":
        with restarted_cluster() as three:
            yield three
    else:
        from tests.parts.lakelog import running_lakelog

        assert request.param == "lakelog", "LAKELOG_CLIENTS_ON may name kafka, lakelog and three"
        with running_lakelog() as broker:
            yield LakelogCluster(broker)


@pytest.fixture(scope="session")
def tellings(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Told]]]:
    """What the clients of all selected tests tell of this cluster, as soon as they have."""
    wanted = {
        item.callspec.params.get("client")
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    }
    with ThreadPoolExecutor(len(PROGRAMS)) as pool:
        yield {
            name: pool.submit(_tell, cluster, program, _plan(cluster, name))
            for name, program in PROGRAMS.items()
            if name in wanted
        }


def _tell(cluster: Cluster, program: Program, plan: Plan) -> Told:
    before = cluster.restarts if isinstance(cluster, RestartedCluster) else 0
    told = run_program(program, plan)
    if isinstance(cluster, RestartedCluster):
        assert cluster.restarts > before, "no broker was restarted meanwhile"
    return told


def _plan(cluster: Cluster, client: str) -> Plan:
    records, target_ms = times(SystemClock().now_ms() - _AGE_MS)
    return Plan(
        bootstrap=cluster.bootstrap,
        prefix=f"{client}-{new_id().hex()[:8]}",
        codecs=CODECS,
        times=records,
        target_ms=target_ms,
    )


@pytest.fixture(params=PROGRAMS)
def client(request: pytest.FixtureRequest) -> str:
    """The name of a client."""
    name: str = request.param
    return name


@pytest.fixture
def told(tellings: dict[str, Future[Told]], client: str) -> Told:
    """What a client told."""
    return tellings[client].result()
