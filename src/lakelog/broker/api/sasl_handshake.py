"""SaslHandshake (key 17, version 1): on a listener whose clients do not log in.

Behaviour
    ILLEGAL_SASL_STATE. Where clients log in it is answered by their connection's machine
    (``logins``). Version 0, after which messages come without headers, is advertised and refused:
    librdkafka looks for it, and uses 1.
"""

from kio.schema.errors import ErrorCode
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from lakelog.broker.services import Call, Services
from lakelog.wire import Fields

__all__ = ["sasl_handshake"]


async def sasl_handshake(services: Services, call: Call, request: SaslHandshakeRequest) -> Fields:
    """Say that nobody logs in here."""
    return {"error_code": ErrorCode.illegal_sasl_state, "mechanisms": []}
