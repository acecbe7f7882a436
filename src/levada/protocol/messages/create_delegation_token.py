"""CreateDelegationToken (key 38): create a delegation token, which others can authenticate with (KIP-48).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, bytestring, int16, int32, int64, string


class CreatableRenewers(Struct):
    """A principal that may renew the token."""

    principal_type: str = string()
    principal_name: str = string()


class CreateDelegationTokenRequest(Request["CreateDelegationTokenResponse"], key=38, versions="0-3", flexible="2+"):
    """Without an owner (3+) the requester owns the token. max_lifetime_ms: -1 for the broker's maximum."""

    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


class CreateDelegationTokenResponse(Response, request=CreateDelegationTokenRequest):
    """For SCRAM, token_id is the user name and hmac the password."""

    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = bytestring(secret=True)
    throttle_time_ms: int = int32()
