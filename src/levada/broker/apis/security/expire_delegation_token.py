"""ExpireDelegationToken: set when a delegation token expires, or remove it at once (KIP-48)."""

from __future__ import annotations

from levada.broker.access.delegation_tokens import NEVER_MS
from levada.broker.apis.security.renew_delegation_token import new_expiry
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


def handle(call: Call) -> ExpireDelegationTokenResponse:
    """Set when the token with this HMAC expires, or remove it if the period is negative; return its new expiry time."""
    request: ExpireDelegationTokenRequest = call.request
    tokens = call.state.cluster.access.delegation_tokens
    code, expiry_ms = new_expiry(call, tokens.expire, bytes(request.hmac), request.expiry_time_period_ms)
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expiry_ms)


def refuse(request: ExpireDelegationTokenRequest, version: int, code: ErrorCode) -> ExpireDelegationTokenResponse:
    """Answer with an error."""
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NEVER_MS)


API = Api(ExpireDelegationTokenRequest, 1, 2, handle, refuse, 1)
