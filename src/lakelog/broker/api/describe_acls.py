"""DescribeAcls (key 29, versions 1 to 3).

Behaviour
    SECURITY_DISABLED, as of a Kafka without an authorizer: tools then hide what they have for it.
"""

from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.errors import ErrorCode

from lakelog.broker.services import Call, Services
from lakelog.wire import Fields

__all__ = ["describe_acls"]


async def describe_acls(services: Services, call: Call, request: DescribeAclsRequest) -> Fields:
    """Say that there are none."""
    return {
        "error_code": ErrorCode.security_disabled,
        "error_message": "No Authorizer is configured.",
        "resources": [],
    }
