"""IncrementalAlterConfigs (key 44): change single settings (KIP-339).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string


class AlterableConfig(Struct):
    """One change. config_operation: 0 set, 1 delete, 2 append to a list, 3 subtract from it."""

    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+", secret=True)


class AlterConfigsResource(Struct):
    """The changes of one resource. Either all or none are made."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class IncrementalAlterConfigsRequest(Request["IncrementalAlterConfigsResponse"], key=44, versions="0-1", flexible="1+"):
    """validate_only: only check whether the changes are possible."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Struct):
    """The result for one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


class IncrementalAlterConfigsResponse(Response, request=IncrementalAlterConfigsRequest):
    """One result for each resource."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
