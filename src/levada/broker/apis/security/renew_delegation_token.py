"""RenewDelegationToken: let a delegation token live longer (KIP-48)."""

from __future__ import annotations

from levada.broker.access.token_requests import NEVER_MS, new_expiry
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


def handle(call: Call) -> RenewDelegationTokenResponse:
    """Find the token by its hmac, and say when it ends now."""
    request: RenewDelegationTokenRequest = call.request
    tokens = call.state.cluster.access.delegation_tokens
    code, expiry_ms = new_expiry(call, tokens.renew, bytes(request.hmac), request.renew_period_ms)
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=expiry_ms)


def refuse(request: RenewDelegationTokenRequest, version: int, code: ErrorCode) -> RenewDelegationTokenResponse:
    """Answer with an error."""
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NEVER_MS)


API = Api(RenewDelegationTokenRequest, 1, 2, handle, refuse, 1)
