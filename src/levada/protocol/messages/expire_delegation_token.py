"""ExpireDelegationToken (key 40): expire a delegation token earlier.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, bytestring, int16, int32, int64


class ExpireDelegationTokenRequest(Request["ExpireDelegationTokenResponse"], key=40, versions="0-2", flexible="2+"):
    """The token, by its hmac. A negative period expires it at once."""

    hmac: bytes = bytestring(secret=True)
    expiry_time_period_ms: int = int64()


class ExpireDelegationTokenResponse(Response, request=ExpireDelegationTokenRequest):
    """The new time at which the token expires."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
