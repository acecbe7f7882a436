"""AlterUserScramCredentials (key 51): set and delete SCRAM credentials (KIP-554).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, bytestring, int8, int16, int32, string


class ScramCredentialDeletion(Struct):
    """A credential to delete."""

    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Struct):
    """A credential to set. The client salts the password; the broker never sees it."""

    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = bytestring(secret=True)
    salted_password: bytes = bytestring(secret=True)


class AlterUserScramCredentialsRequest(Request["AlterUserScramCredentialsResponse"], key=51, versions="0", flexible="0+"):
    """The credentials to delete, and those to set."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Struct):
    """The result for one user."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class AlterUserScramCredentialsResponse(Response, request=AlterUserScramCredentialsRequest):
    """One result for each user."""

    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
