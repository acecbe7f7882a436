"""DescribeUserScramCredentials (key 50): list the SCRAM credentials of users (KIP-554). Passwords are never returned.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, int8, int16, int32, string


class UserName(Struct):
    """A user."""

    name: str = string()


class DescribeUserScramCredentialsRequest(Request["DescribeUserScramCredentialsResponse"], key=50, versions="0", flexible="0+"):
    """Null or empty users ask for all users."""

    users: list[UserName] | None = array(UserName, nullable="0+")


class CredentialInfo(Struct):
    """A mechanism (1 SCRAM-SHA-256, 2 SCRAM-SHA-512) and its iterations."""

    mechanism: int = int8()
    iterations: int = int32()


class DescribeUserScramCredentialsResult(Struct):
    """The credentials of one user."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


class DescribeUserScramCredentialsResponse(Response, request=DescribeUserScramCredentialsRequest):
    """One result for each user."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)
