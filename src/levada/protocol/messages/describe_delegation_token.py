"""DescribeDelegationToken (key 41): list the delegation tokens that the requester may see.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, bytestring, int16, int32, int64, string


class DescribeDelegationTokenOwner(Struct):
    """An owner whose tokens are wanted."""

    principal_type: str = string()
    principal_name: str = string()


class DescribeDelegationTokenRequest(Request["DescribeDelegationTokenResponse"], key=41, versions="0-3", flexible="2+"):
    """Null owners ask for the tokens of all owners."""

    owners: list[DescribeDelegationTokenOwner] | None = array(DescribeDelegationTokenOwner, nullable="0+")


class DescribedDelegationTokenRenewer(Struct):
    """A principal that may renew the token."""

    principal_type: str = string()
    principal_name: str = string()


class DescribedDelegationToken(Struct):
    """One token; its hmac is the password."""

    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = bytestring(secret=True)
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


class DescribeDelegationTokenResponse(Response, request=DescribeDelegationTokenRequest):
    """The tokens."""

    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
