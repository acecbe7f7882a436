"""DescribeTransactions: the state of transactional ids (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable

from levada.acls import ResourceType
from levada.broker.access.permissions import check, may
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from levada.types import TopicPartition


def handle(call: Call) -> DescribeTransactionsResponse:
    """Describe each id separately, and only once: a small request may name a large transaction a thousand times."""
    return DescribeTransactionsResponse(transaction_states=[_describe(call, key) for key in dict.fromkeys(call.request.transactional_ids)])


def refuse(request: DescribeTransactionsRequest, version: int, code: ErrorCode) -> DescribeTransactionsResponse:
    """Answer with an error for every id."""
    return DescribeTransactionsResponse(transaction_states=[_failure(key, code) for key in request.transactional_ids])


def _describe(call: Call, transactional_id: str) -> TransactionState:
    cluster = call.state.cluster
    if not transactional_id:
        return _failure(transactional_id, ErrorCode.INVALID_REQUEST)
    try:
        check(call, ResourceType.TRANSACTIONAL_ID, transactional_id)
        cluster.transaction_coordinators.check(transactional_id, call.state.node_id)
    except BrokerError as error:
        return _failure(transactional_id, error.code)
    found = cluster.transactions.find(transactional_id)
    if found is None:
        return _failure(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=found.state,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer.producer_id,
        producer_epoch=found.producer.epoch,
        topics=_by_topic(name for name in found.partitions if may(call, ResourceType.TOPIC, name.topic)),
    )


def _by_topic(partitions: Iterable[TopicPartition]) -> list[TopicData]:
    topics: dict[str, TopicData] = {}
    for name in partitions:
        topics.setdefault(name.topic, TopicData(topic=name.topic)).partitions.append(name.partition)
    return list(topics.values())


def _failure(transactional_id: str, code: ErrorCode) -> TransactionState:
    return TransactionState(error_code=code, transactional_id=transactional_id)


API = Api(DescribeTransactionsRequest, 0, 0, handle, refuse, 0)
