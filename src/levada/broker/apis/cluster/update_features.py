"""UpdateFeatures: change feature levels, all or none (KIP-584)."""

from __future__ import annotations

from levada.broker.cluster.features import LevelChange
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_HAS_UPGRADE_TYPES = 1
_WITHOUT_RESULTS = 2
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


def handle(call: Call) -> UpdateFeaturesResponse:
    """Change feature levels. No level is changed if one of the changes is invalid, or if the request only validates them."""
    request: UpdateFeaturesRequest = call.request
    try:
        changes = {update.feature: _change(update, call.version) for update in request.feature_updates}
        call.state.cluster.features.update(changes, check_only=request.validate_only)
    except BrokerError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.reason)
    features = [] if call.version >= _WITHOUT_RESULTS else request.feature_updates
    return UpdateFeaturesResponse(results=[UpdatableFeatureResult(feature=update.feature) for update in features])


def refuse(request: UpdateFeaturesRequest, version: int, code: ErrorCode) -> UpdateFeaturesResponse:
    """Answer with an error for the request."""
    return UpdateFeaturesResponse(error_code=code)


def _change(update: FeatureUpdateKey, version: int) -> LevelChange:
    if version >= _HAS_UPGRADE_TYPES and update.upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        raise BrokerError(f"there is no upgrade type {update.upgrade_type}", code=ErrorCode.INVALID_UPDATE_VERSION)
    may_lower = update.upgrade_type != _UPGRADE if version >= _HAS_UPGRADE_TYPES else update.allow_downgrade
    return LevelChange(update.max_version_level, may_lower)


API = Api(UpdateFeaturesRequest, 0, 2, handle, refuse, 0)
