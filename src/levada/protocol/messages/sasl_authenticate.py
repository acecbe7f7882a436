"""SaslAuthenticate (key 36): exchange one step of SASL authentication.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, bytestring, int16, int64, string


class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"], key=36, versions="0-2", flexible="2+"):
    """The client's data, in the format of the mechanism."""

    auth_bytes: bytes = bytestring(secret=True)


class SaslAuthenticateResponse(Response, request=SaslAuthenticateRequest):
    """The broker's data. session_lifetime_ms: authenticate again before it is over; 0 for never (KIP-368)."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = bytestring(secret=True)
    session_lifetime_ms: int = int64("1+", ignorable=True)
