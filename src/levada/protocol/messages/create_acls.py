"""CreateAcls (key 30): add access rules.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, int8, int16, int32, string


class AclCreation(Struct):
    """A rule. resource_pattern_type: 3 literal name, 4 prefix of names."""

    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class CreateAclsRequest(Request["CreateAclsResponse"], key=30, versions="0-3", flexible="2+"):
    """The rules to add."""

    creations: list[AclCreation] = array(AclCreation)


class AclCreationResult(Struct):
    """The result for one rule."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class CreateAclsResponse(Response, request=CreateAclsRequest):
    """One result for each rule, in the order of the request."""

    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)
