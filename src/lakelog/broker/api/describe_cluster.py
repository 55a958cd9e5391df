"""DescribeCluster (key 60, versions 0 to 2)."""

from kio.schema.describe_cluster.v2.request import DescribeClusterRequest

from lakelog.broker.services import Call, Services
from lakelog.security import CLUSTER_NAME, Operation, ResourceType
from lakelog.wire import Fields

__all__ = ["describe_cluster"]


async def describe_cluster(
    services: Services, call: Call, request: DescribeClusterRequest
) -> Fields:
    """Say which brokers there are."""
    cluster = services.cluster
    operations: Fields = {}
    if request.include_cluster_authorized_operations:
        may_know = call.quietly.may_cluster(Operation.DESCRIBE)
        found = call.operations(ResourceType.CLUSTER, CLUSTER_NAME) if may_know else 0
        operations = {"cluster_authorized_operations": found}
    return {
        **operations,
        "error_message": None,
        "endpoint_type": request.endpoint_type,
        "cluster_id": cluster.cluster_id,
        "controller_id": cluster.node_id,
        "brokers": [
            {"broker_id": one.node_id, "host": one.host, "port": one.port, "rack": one.rack}
            for one in cluster.brokers(call.listener)
        ],
    }
