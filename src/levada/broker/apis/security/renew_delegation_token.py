"""RenewDelegationToken: extend the life of a delegation token (KIP-48)."""

from __future__ import annotations

from collections.abc import Callable

from levada.broker.access.delegation_tokens import NEVER_MS
from levada.broker.access.permissions import check_may_use_tokens
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


def handle(call: Call) -> RenewDelegationTokenResponse:
    """Renew the token with this HMAC; return its new expiry time."""
    request: RenewDelegationTokenRequest = call.request
    tokens = call.state.cluster.access.delegation_tokens
    code, expiry_ms = new_expiry(call, tokens.renew, bytes(request.hmac), request.renew_period_ms)
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expiry_ms)


def refuse(request: RenewDelegationTokenRequest, version: int, code: ErrorCode) -> RenewDelegationTokenResponse:
    """Answer with an error."""
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NEVER_MS)


def new_expiry(call: Call, change: Callable[[bytes, int, str, int], int], token_hmac: bytes, period_ms: int) -> tuple[ErrorCode, int]:
    """Renew or expire a token; return the error code and the expiry time for the response.

    change: DelegationTokens.renew or DelegationTokens.expire. period_ms: passed to `change`. If the client may not use tokens at all, the
    time is NEVER_MS; with any other error it is 0.
    """
    try:
        check_may_use_tokens(call.session)
    except BrokerError as error:
        return error.code, NEVER_MS
    try:
        return ErrorCode.NONE, change(token_hmac, period_ms, call.session.principal, call.wall_ms)
    except BrokerError as error:
        return error.code, 0


API = Api(RenewDelegationTokenRequest, 1, 2, handle, refuse, 1)
