"""SaslAuthenticate (key 36, versions 0 to 2): on a listener whose clients do not log in.

Behaviour
    ILLEGAL_SASL_STATE. Where clients log in it is answered by their connection's machine
    (``logins``).
"""

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest

from lakelog.broker.services import Call, Services
from lakelog.wire import Fields

__all__ = ["sasl_authenticate"]


async def sasl_authenticate(
    services: Services, call: Call, request: SaslAuthenticateRequest
) -> Fields:
    """Say that nobody logs in here."""
    return {
        "error_code": ErrorCode.illegal_sasl_state,
        "error_message": "clients of this listener do not log in",
        "auth_bytes": b"",
    }
