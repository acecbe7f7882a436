"""AlterConfigs (key 33): replace all settings of a resource. IncrementalAlterConfigs changes single settings.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string


class AlterableConfig(Struct):
    """One setting."""

    name: str = string()
    value: str | None = string(nullable="0+", secret=True)


class AlterConfigsResource(Struct):
    """All settings of one resource. Settings that are not named are reset to their defaults."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class AlterConfigsRequest(Request["AlterConfigsResponse"], key=33, versions="0-2", flexible="2+"):
    """validate_only: only check whether the changes are possible."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Struct):
    """The result for one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


class AlterConfigsResponse(Response, request=AlterConfigsRequest):
    """One result for each resource."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
