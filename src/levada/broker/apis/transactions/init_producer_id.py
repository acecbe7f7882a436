"""InitProducerId: a producer id and epoch for an idempotent producer or for a transactional id."""

from __future__ import annotations

from levada.acls import AclOperation, ResourceType
from levada.broker.access.permissions import allows_with_any, may
from levada.broker.coordinators.transactions.end_markers import write_end_markers
from levada.broker.coordinators.transactions.transaction import NO_ID, ProducerIdAndEpoch
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_KNOWS_FENCED = 4


def handle(call: Call) -> InitProducerIdResponse:
    """Return a new producer id with epoch 0 or, for a transactional id, the producer id and epoch with which its producer continues. If the
    transactional id has an open transaction, begin to abort it, and answer CONCURRENT_TRANSACTIONS.
    """
    request: InitProducerIdRequest = call.request
    if (request.producer_id == NO_ID) != (request.producer_epoch == NO_ID):
        return refuse(request, call.version, ErrorCode.INVALID_REQUEST)
    if (code := _refusal(call, request.transactional_id)) is not ErrorCode.NONE:
        return refuse(request, call.version, code)
    if request.transactional_id is None:
        return InitProducerIdResponse(producer_id=call.state.cluster.allocate_producer_id(), producer_epoch=0)
    try:
        producer = _initialise(call, request.transactional_id)
    except BrokerError as error:
        return refuse(request, call.version, error.code)
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.epoch)


def _refusal(call: Call, transactional_id: str | None) -> ErrorCode:
    """Return the error code for a client that may not get a producer id, otherwise NONE.

    Without a transactional id, permission to write to at least one topic is sufficient (KIP-679).
    """
    if transactional_id is not None:
        allowed = may(call, ResourceType.TRANSACTIONAL_ID, transactional_id)
        return ErrorCode.NONE if allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    allowed = may(call, ResourceType.CLUSTER) or allows_with_any(call, AclOperation.WRITE, ResourceType.TOPIC)
    return ErrorCode.NONE if allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _initialise(call: Call, transactional_id: str) -> ProducerIdAndEpoch:
    request, cluster = call.request, call.state.cluster
    cluster.transaction_coordinators.check(transactional_id, call.state.node_id)
    given = None if request.producer_id == NO_ID else ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    decision = cluster.transactions.initialise(transactional_id, request.transaction_timeout_ms, given, call.wall_ms)
    if decision.markers is not None:
        write_end_markers(call.state, decision.markers, call.now_ms)
        raise BrokerError(f"the open transaction of {transactional_id!r} is being aborted", code=ErrorCode.CONCURRENT_TRANSACTIONS)
    return decision.producer


def refuse(request: InitProducerIdRequest, version: int, code: ErrorCode) -> InitProducerIdResponse:
    """Return a response with this error. Versions that do not know PRODUCER_FENCED get INVALID_PRODUCER_EPOCH instead."""
    if code is ErrorCode.PRODUCER_FENCED and version < _KNOWS_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    return InitProducerIdResponse(error_code=code, producer_id=NO_ID, producer_epoch=NO_ID)


API = Api(InitProducerIdRequest, 0, 5, handle, refuse, 0)
