"""BrokerHeartbeat (key 63, version 0): another broker has changed, and says so (``peers``).

Behaviour
    The members are listed now, and not with the next beat. However many brokers say so and however
    often, that is one list at a time, and four a second at most. What has changed stands in the
    bucket: nothing that is said here is believed.
"""

from kio.schema.broker_heartbeat.v0.request import BrokerHeartbeatRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.services import Call, Services
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["broker_heartbeat"]


async def broker_heartbeat(
    services: Services, call: Call, request: BrokerHeartbeatRequest
) -> Fields:
    """Look at the members soon."""
    if not call.may_cluster(Operation.CLUSTER_ACTION):
        return {
            "error_code": ErrorCode.cluster_authorization_failed,
            "is_caught_up": False,
            "is_fenced": True,
            "should_shut_down": False,
        }
    services.cluster.hear()
    return {"is_caught_up": True, "is_fenced": False, "should_shut_down": False}
