"""RenewDelegationToken (key 39): extend the lifetime of a delegation token.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, bytestring, int16, int32, int64


class RenewDelegationTokenRequest(Request["RenewDelegationTokenResponse"], key=39, versions="0-2", flexible="2+"):
    """The token, by its hmac, and the period to renew it for, in milliseconds."""

    hmac: bytes = bytestring(secret=True)
    renew_period_ms: int = int64()


class RenewDelegationTokenResponse(Response, request=RenewDelegationTokenRequest):
    """The new time at which the token expires."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
