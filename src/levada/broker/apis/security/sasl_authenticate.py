"""SaslAuthenticate: one step of a login (KIP-152), or of a re-authentication on the same connection (KIP-368)."""

from __future__ import annotations

from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

_NO_LOGIN = "SaslAuthenticate request received after successful authentication"


def handle(call: Call) -> SaslAuthenticateResponse:
    """Pass the client's SASL message to the login and return its answer. When the login is complete, the session gets the user's principal;
    if it fails, the connection is closed after the response.
    """
    request: SaslAuthenticateRequest = call.request
    login = call.session.login
    if login is None:
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_NO_LOGIN)
    try:
        answer = login.take(bytes(request.auth_bytes), call.wall_ms)
    except BrokerError as error:
        call.session.is_refused = True
        return SaslAuthenticateResponse(error_code=error.code, error_message=error.reason)
    if not login.user:
        return SaslAuthenticateResponse(auth_bytes=answer)
    call.session.principal, call.session.is_by_token = login.principal, login.is_by_token
    lifetime_ms = login.begin_session(call.state.settings.connections_max_reauth_ms, call.now_ms, call.wall_ms)
    return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms)


def refuse(request: SaslAuthenticateRequest, version: int, code: ErrorCode) -> SaslAuthenticateResponse:
    """Answer with an error."""
    return SaslAuthenticateResponse(error_code=code)


API = Api(SaslAuthenticateRequest, 0, 2, handle, refuse, 0)
