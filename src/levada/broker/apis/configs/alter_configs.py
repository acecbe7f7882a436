"""AlterConfigs: replace all settings of a resource (KIP-133), as clients did before IncrementalAlterConfigs."""

from __future__ import annotations

from typing import TypeVar

from levada.broker.apis.configs import incremental_alter_configs as single
from levada.broker.config.resource_config import ResourceConfig
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

C = TypeVar("C", bound=ResourceConfig)


def handle(call: Call) -> AlterConfigsResponse:
    """Replace the settings of each resource separately. If one setting of a resource is invalid, none of that resource is changed."""
    outcomes = single.alter_each(call, call.request.resources, _replaced)
    return AlterConfigsResponse(responses=[_answer(wanted, *outcome) for wanted, outcome in outcomes])


def refuse(request: AlterConfigsRequest, version: int, code: ErrorCode) -> AlterConfigsResponse:
    """Answer with an error for every resource."""
    return AlterConfigsResponse(responses=[_answer(wanted, code) for wanted in request.resources])


def _replaced(config: C, wanted: AlterConfigsResource, /) -> C:
    for setting in wanted.configs:
        if setting.value is None:
            raise BrokerError(f"null is not allowed for {config.WHAT} config {setting.name}", code=ErrorCode.INVALID_REQUEST)
    return config.with_overrides({setting.name: setting.value for setting in wanted.configs})


def _answer(wanted: AlterConfigsResource, code: ErrorCode, message: str | None = None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code, error_message=message, resource_type=wanted.resource_type, resource_name=wanted.resource_name
    )


API = Api(AlterConfigsRequest, 0, 2, handle, refuse, 0)
