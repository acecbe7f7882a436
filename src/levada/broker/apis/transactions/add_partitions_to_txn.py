"""AddPartitionsToTxn: add partitions to a transaction. Since version 4 brokers send it, for several transactions, or only to verify."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from levada.acls import ResourceType
from levada.broker.access.permissions import may
from levada.broker.coordinators.transactions.transaction import ProducerIdAndEpoch
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from levada.types import TopicPartition

_FIRST_BATCHED_VERSION = 4
_KNOWS_FENCED = 2


def handle(call: Call) -> AddPartitionsToTxnResponse:
    """Add partitions to transactions, or verify that they were added. In each transaction, either all partitions or none are added."""
    request: AddPartitionsToTxnRequest = call.request
    if call.version < _FIRST_BATCHED_VERSION:
        only = _transaction_of(request)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(only.topics, _handle_transaction(call, only)))
    if not may(call, ResourceType.CLUSTER):
        return refuse(request, call.version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    results = [
        AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id,
            topic_results=_results(transaction.topics, _handle_transaction(call, transaction)),
        )
        for transaction in request.transactions
    ]
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _transaction_of(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _handle_transaction(call: Call, transaction: AddPartitionsToTxnTransaction) -> Mapping[TopicPartition, ErrorCode]:
    names = list(_names(transaction.topics))
    if call.version < _FIRST_BATCHED_VERSION and not may(call, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id):
        return dict.fromkeys(names, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    faulty = {name: code for name in names if (code := _fault_of(call, name))}
    if faulty:
        return dict.fromkeys(names, ErrorCode.OPERATION_NOT_ATTEMPTED) | faulty
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    cluster = call.state.cluster
    try:
        cluster.transaction_coordinators.check(transaction.transactional_id, call.state.node_id)
        if transaction.verify_only:
            return cluster.transactions.verify(transaction.transactional_id, producer, names)
        cluster.transactions.add(transaction.transactional_id, producer, names, call.wall_ms)
    except BrokerError as error:
        return dict.fromkeys(names, _in_words_of(call.version, error.code))
    return dict.fromkeys(names, ErrorCode.NONE)


def _fault_of(call: Call, name: TopicPartition) -> ErrorCode:
    # Later versions are sent by brokers, which have checked this already.
    if call.version < _FIRST_BATCHED_VERSION and not may(call, ResourceType.TOPIC, name.topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = call.state.cluster.topic(name.topic)
    if topic is not None and topic.is_internal and call.version < _FIRST_BATCHED_VERSION:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic is None or not 0 <= name.partition < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return call.state.faults.partition_error(AddPartitionsToTxnRequest.NAME, name)


def _in_words_of(version: int, code: ErrorCode) -> ErrorCode:
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED and version < _KNOWS_FENCED else code


def _names(topics: Iterable[AddPartitionsToTxnTopic]) -> Iterable[TopicPartition]:
    return (TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)


def _results(topics: Iterable[AddPartitionsToTxnTopic], codes: Mapping[TopicPartition, ErrorCode]) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=codes[TopicPartition(topic.name, index)])
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def refuse(request: AddPartitionsToTxnRequest, version: int, code: ErrorCode) -> AddPartitionsToTxnResponse:
    """Answer with an error: since version 4 for the whole request, in earlier versions for every partition. Versions that do not know
    PRODUCER_FENCED get INVALID_PRODUCER_EPOCH instead.
    """
    told = _in_words_of(version, code)
    if version >= _FIRST_BATCHED_VERSION:
        return AddPartitionsToTxnResponse(error_code=told)
    topics = request.v3_and_below_topics
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(topics, dict.fromkeys(_names(topics), told)))


API = Api(AddPartitionsToTxnRequest, 0, 5, handle, refuse, 0)
