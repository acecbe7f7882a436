"""AddOffsetsToTxn: add a group's offsets to a transaction."""

from __future__ import annotations

from levada.broker.coordinators.transactions.transaction import ProducerIdAndEpoch
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

_KNOWS_FENCED = 2


def handle(call: Call) -> AddOffsetsToTxnResponse:
    """Add to the transaction the partition of __consumer_offsets to which the group belongs."""
    request: AddOffsetsToTxnRequest = call.request
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    cluster = call.state.cluster
    try:
        cluster.transaction_coordinators.check(request.transactional_id, call.state.node_id)
        cluster.transactions.add_group(request.transactional_id, producer, request.group_id, call.wall_ms)
    except BrokerError as error:
        return refuse(request, call.version, error.code)
    return AddOffsetsToTxnResponse()


def refuse(request: AddOffsetsToTxnRequest, version: int, code: ErrorCode) -> AddOffsetsToTxnResponse:
    """Return a response with this error. Versions that do not know PRODUCER_FENCED get INVALID_PRODUCER_EPOCH instead."""
    if code is ErrorCode.PRODUCER_FENCED and version < _KNOWS_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return AddOffsetsToTxnResponse(error_code=code)


API = Api(AddOffsetsToTxnRequest, 0, 4, handle, refuse, 0)
