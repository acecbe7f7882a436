"""SaslHandshake: client and broker choose a SASL mechanism."""

from __future__ import annotations

from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

# After version 0 a client sends SASL tokens without request headers. All clients since Kafka 1.0 use version 1.
_OLDEST = 1


def handle(call: Call) -> SaslHandshakeResponse:
    """Set the SASL mechanism of the connection. The response lists the enabled mechanisms. If the mechanism is not among them or cannot be
    chosen now, the response has an error, and the connection is closed after it.
    """
    request: SaslHandshakeRequest = call.request
    login = call.session.login
    if login is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    try:
        login.agree(request.mechanism)
    except BrokerError as error:
        call.session.is_refused = True
        return SaslHandshakeResponse(error_code=error.code, mechanisms=login.logins.mechanisms)
    return SaslHandshakeResponse(mechanisms=login.logins.mechanisms)


def refuse(request: SaslHandshakeRequest, version: int, code: ErrorCode) -> SaslHandshakeResponse:
    """Answer with an error."""
    return SaslHandshakeResponse(error_code=code)


API = Api(SaslHandshakeRequest, _OLDEST, 1, handle, refuse, 0)
