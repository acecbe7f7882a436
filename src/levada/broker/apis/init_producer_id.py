"""InitProducerId: a new producer id for an idempotent producer (I19).

There is no transaction coordinator: a transactional id is answered with UNSUPPORTED_VERSION, which no client retries.
"""

from __future__ import annotations

from levada.broker.state import Api, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NONE = -1


def handle(call: Call) -> InitProducerIdResponse:
    """Return a new producer id, with epoch 0."""
    if call.request.transactional_id is not None:
        return refuse(call.request, call.version, ErrorCode.UNSUPPORTED_VERSION)
    return InitProducerIdResponse(producer_id=call.state.cluster.allocate_producer_id(), producer_epoch=0)


def refuse(request: InitProducerIdRequest, version: int, code: ErrorCode) -> InitProducerIdResponse:
    """Answer with an error."""
    return InitProducerIdResponse(error_code=code, producer_id=_NONE, producer_epoch=_NONE)


API = Api(InitProducerIdRequest, 0, 5, handle, refuse, 0)
