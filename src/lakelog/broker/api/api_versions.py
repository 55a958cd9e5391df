"""ApiVersions (key 18, versions 0 to 4).

Behaviour
    Answers with the table of ``lakelog.wire``. A version that is not known is answered in version 0
    with UNSUPPORTED_VERSION and the same table, so that a newer client can choose.
"""

from kio.schema.api_versions.v4.request import ApiVersionsRequest

from lakelog.broker.services import Call, Services
from lakelog.wire import ADVERTISED, Fields

__all__ = ["api_versions", "api_versions_fields"]


async def api_versions(services: Services, call: Call, request: ApiVersionsRequest) -> Fields:
    """Say what is offered."""
    return api_versions_fields()


def api_versions_fields() -> Fields:
    """Return what is offered."""
    return {
        "api_keys": [
            {"api_key": key, "min_version": lowest, "max_version": highest}
            for key, lowest, highest in ADVERTISED
        ]
    }
