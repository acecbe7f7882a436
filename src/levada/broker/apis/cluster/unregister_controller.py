"""UnregisterController: forget a controller that is down. Here the controller is one of the brokers, and none is registered for itself."""

from __future__ import annotations

from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse


def handle(call: Call) -> UnregisterControllerResponse:
    """Say that there is none of that id."""
    return UnregisterControllerResponse(error_code=ErrorCode.CONTROLLER_ID_NOT_REGISTERED)


def refuse(request: UnregisterControllerRequest, version: int, code: ErrorCode) -> UnregisterControllerResponse:
    """Answer with an error."""
    return UnregisterControllerResponse(error_code=code)


API = Api(UnregisterControllerRequest, 0, 0, handle, refuse, 0)
