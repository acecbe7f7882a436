"""ListTransactions: the transactional ids that this node coordinates and that match the filters (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

import re

from levada.acls import ResourceType
from levada.broker.access.permissions import may
from levada.broker.coordinators.transactions.transaction import Transaction
from levada.broker.coordinators.transactions.transaction_states import State
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState

_KNOWN_STATES = frozenset(State)


def handle(call: Call) -> ListTransactionsResponse:
    """Return the transactional ids that match all filters of the request. A pattern has to match a whole id."""
    request: ListTransactionsRequest = call.request
    placement, node_id = call.state.cluster.transaction_coordinators, call.state.node_id
    if placement.is_loading(node_id):
        return refuse(request, call.version, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    try:
        pattern = re.compile(request.transactional_id_pattern) if request.transactional_id_pattern else None
    except re.error:
        return refuse(request, call.version, ErrorCode.INVALID_REGULAR_EXPRESSION)
    found = [
        transaction
        for transaction in call.state.cluster.transactions
        if placement.leader_of(transaction.id) == node_id
        and may(call, ResourceType.TRANSACTIONAL_ID, transaction.id)
        and _is_wanted(transaction, request, pattern, call.wall_ms)
    ]
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in _KNOWN_STATES],
        transaction_states=[
            TransactionState(transactional_id=one.id, producer_id=one.producer.producer_id, transaction_state=one.state) for one in found
        ],
    )


def _is_wanted(found: Transaction, request: ListTransactionsRequest, pattern: re.Pattern[str] | None, now_ms: int) -> bool:
    if request.producer_id_filters and found.producer.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and found.state not in request.state_filters:
        return False
    if request.duration_filter >= 0 and now_ms - found.started_ms <= request.duration_filter:
        return False
    return pattern is None or pattern.fullmatch(found.id) is not None


def refuse(request: ListTransactionsRequest, version: int, code: ErrorCode) -> ListTransactionsResponse:
    """Answer with an error."""
    return ListTransactionsResponse(error_code=code)


API = Api(ListTransactionsRequest, 0, 2, handle, refuse, 0)
