"""ListConfigResources (key 74): list the resources that have settings.

Version 0 lists only client metrics, and was called ListClientMetricsResources.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, int8, int16, int32, string


class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"], key=74, versions="0-1", flexible="0+"):
    """resource_types: numbers like in DescribeConfigs; empty for all."""

    resource_types: list[int] = array(int8, "1+")


class ConfigResource(Struct):
    """One resource. resource_type: a number like in DescribeConfigs, 16 for client metrics."""

    resource_name: str = string()
    resource_type: int = int8("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Response, request=ListConfigResourcesRequest):
    """The resources."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
