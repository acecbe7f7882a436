"""UnregisterController: refused, because no controllers are registered here: one of the brokers is the controller."""

from __future__ import annotations

from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse


def handle(call: Call) -> UnregisterControllerResponse:
    """Answer that there is no controller with this id."""
    return UnregisterControllerResponse(error_code=ErrorCode.CONTROLLER_ID_NOT_REGISTERED)


def refuse(request: UnregisterControllerRequest, version: int, code: ErrorCode) -> UnregisterControllerResponse:
    """Answer with an error."""
    return UnregisterControllerResponse(error_code=code)


API = Api(UnregisterControllerRequest, 0, 0, handle, refuse, 0)
