"""ApiVersions (key 18): return the versions that the broker supports. The response always has the oldest header version.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, boolean, int16, int32, int64, string


class ApiVersionsRequest(Request["ApiVersionsResponse"], key=18, versions="0-5", flexible="3+"):
    """cluster_id and node_id: the broker that the client expects to talk to."""

    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)
    cluster_id: str | None = string("5+", nullable="5+", ignorable=True)
    node_id: int = int32("5+", default=-1, ignorable=True)


class ApiVersion(Struct):
    """The versions of one API, from min_version to max_version inclusive."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Struct):
    """The levels of a feature that this broker supports."""

    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


class FinalizedFeatureKey(Struct):
    """The finalized levels of a feature in the cluster."""

    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


class ApiVersionsResponse(Response, request=ApiVersionsRequest):
    """With UNSUPPORTED_VERSION, api_keys may have the version range of ApiVersions itself."""

    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tagged="3+", tag=0, ignorable=True)
    finalized_features_epoch: int = int64("3+", default=-1, tagged="3+", tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tagged="3+", tag=2, ignorable=True)
    zk_migration_ready: bool = boolean("3+", tagged="3+", tag=3, ignorable=True)
