"""UnregisterBroker: unregister a broker that is down (KIP-500)."""

from __future__ import annotations

from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def handle(call: Call) -> UnregisterBrokerResponse:
    """Unregister a broker that is down, until it is started again."""
    try:
        call.state.cluster.unregister(call.request.broker_id)
    except BrokerError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.reason)
    return UnregisterBrokerResponse()


def refuse(request: UnregisterBrokerRequest, version: int, code: ErrorCode) -> UnregisterBrokerResponse:
    """Answer with an error."""
    return UnregisterBrokerResponse(error_code=code)


API = Api(UnregisterBrokerRequest, 0, 0, handle, refuse, 0)
