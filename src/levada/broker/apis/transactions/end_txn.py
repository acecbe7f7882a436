"""EndTxn: commit or abort a transaction. Since version 5 the producer gets a new epoch with each transaction (KIP-890)."""

from __future__ import annotations

from levada.broker.coordinators.transactions.end_markers import write_end_markers
from levada.broker.coordinators.transactions.transaction import NO_ID, ProducerIdAndEpoch
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

FIRST_BUMPING_VERSION = 5
_KNOWS_FENCED = 2


def handle(call: Call) -> EndTxnResponse:
    """Decide to commit or abort the transaction, and begin to write its markers. The response does not wait for the markers."""
    request: EndTxnRequest = call.request
    cluster = call.state.cluster
    try:
        cluster.transaction_coordinators.check(request.transactional_id, call.state.node_id)
        decision = cluster.transactions.end(
            request.transactional_id,
            ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
            committed=request.committed,
            bumps=call.version >= FIRST_BUMPING_VERSION,
            now_ms=call.wall_ms,
        )
    except BrokerError as error:
        return refuse(request, call.version, error.code)
    if decision.markers is not None:
        write_end_markers(call.state, decision.markers, call.now_ms)
    return EndTxnResponse(producer_id=decision.producer.producer_id, producer_epoch=decision.producer.epoch)


def refuse(request: EndTxnRequest, version: int, code: ErrorCode) -> EndTxnResponse:
    """Return a response with this error. Versions that do not know PRODUCER_FENCED get INVALID_PRODUCER_EPOCH instead."""
    if code is ErrorCode.PRODUCER_FENCED and version < _KNOWS_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return EndTxnResponse(error_code=code, producer_id=NO_ID, producer_epoch=NO_ID)


API = Api(EndTxnRequest, 0, 5, handle, refuse, 0)
