"""InitProducerId (key 22, versions 0 to 6).

Behaviour
    A new producer id and epoch 0, always: ids are random numbers of 62 bits, so there is no counter
    to lose, and a producer that wants its epoch raised gets a new id instead, which does as well.

Not done
    Transactions: a transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which no
    client retries.
"""

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest

from lakelog.broker.services import Call, Services
from lakelog.security import Operation
from lakelog.wire import Fields

__all__ = ["init_producer_id"]

_BITS = (1 << 62) - 1


async def init_producer_id(
    services: Services, call: Call, request: InitProducerIdRequest
) -> Fields:
    """Give an id."""
    if request.transactional_id is not None:
        code = ErrorCode.transactional_id_authorization_failed
        return {"error_code": code, "producer_id": -1, "producer_epoch": -1}
    may_write = call.may_any_topic(Operation.WRITE)
    if not may_write and not call.may_cluster(Operation.IDEMPOTENT_WRITE):
        code = ErrorCode.cluster_authorization_failed
        return {"error_code": code, "producer_id": -1, "producer_epoch": -1}
    id_ = int.from_bytes(services.ids()[:8], "big") & _BITS
    return {"producer_id": id_, "producer_epoch": 0}
