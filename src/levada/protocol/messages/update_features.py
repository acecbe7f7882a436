"""UpdateFeatures (key 57): raise or lower the finalized levels of features (KIP-584).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string


class FeatureUpdateKey(Struct):
    """The new level. upgrade_type: 1 only up, 2 down without data loss, 3 down with data loss. Level 0 removes the feature."""

    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean("0")
    upgrade_type: int = int8("1+", default=1)


class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"], key=57, versions="0-2", flexible="0+"):
    """validate_only: only check whether the changes are possible."""

    timeout_ms: int = int32(default=60_000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean("1+")


class UpdatableFeatureResult(Struct):
    """The result for one feature (before version 2)."""

    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class UpdateFeaturesResponse(Response, request=UpdateFeaturesRequest):
    """error_code applies to all features."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1", ignorable=True)
