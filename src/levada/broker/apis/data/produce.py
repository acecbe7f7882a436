"""Produce: append one record batch to each partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from levada.acls import ResourceType
from levada.base.promise import Promise
from levada.broker.access.permissions import find_topic, may
from levada.broker.cluster.topic import Topic
from levada.broker.coordinators.transactions.verification import unverified
from levada.broker.log.validation import RefusedRecordsError, is_transactional
from levada.broker.node.state import Answer, Api, Call, Unanswered
from levada.broker.quotas.client_quotas import PRODUCER_BYTE_RATE
from levada.broker.replication.partition import Partition
from levada.broker.replication.waiting import PendingAppend, when_replicated
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from levada.protocol.schema import Response
from levada.types import TopicPartition

ALL_IN_SYNC = -1
_USES_TOPIC_IDS = 13
_KNOWS_ZSTD = 7
_NAMES_LEADERS = 10
UNKNOWN = -1

# Kafka finds these errors only after it has looked up the log, so the response has a log start offset.
_FOUND_AT_THE_LOG = (
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
)


def handle(call: Call) -> Answer:
    """Append the batch of each partition. An error in one partition does not affect the others. With acks=all, answer when all appended
    batches are replicated, or after the request's timeout; with acks=0, do not answer.
    """
    request: ProduceRequest = call.request
    if request.acks not in (0, 1, ALL_IN_SYNC):
        return refuse(request, call.version, ErrorCode.INVALID_REQUIRED_ACKS)
    if _has_transactional(request) and not (
        request.transactional_id and may(call, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    ):
        return _refused_whole(call, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    try:
        writer = _Writer(call, unverified(call))
    except BrokerError as error:
        return _refused_whole(call, error.code)
    if not call.state.throttles.are_off:
        call.throttle(call.state.throttles.record(PRODUCER_BYTE_RATE, call.quoted, call.size_bytes, call.now_ms))
    response = ProduceResponse(responses=[writer.append_topic(topic) for topic in request.topic_data])
    response.node_endpoints = _leaders_named(call, response)
    for written, _ in writer.appended:
        call.state.cluster.replicate(written.partition)
        call.state.purgatory.wake(written.partition.name, call.now_ms)
    if is_silent(request):
        return Unanswered(close=_has_failure(response))
    return _when_replicated(call, writer, response) if request.acks == ALL_IN_SYNC and writer.appended else response


def _when_replicated(call: Call, writer: _Writer, response: ProduceResponse) -> Answer:
    promise: Promise[Response] = Promise()

    def finish(codes: Sequence[ErrorCode]) -> None:
        for (_, answer), code in zip(writer.appended, codes, strict=True):
            answer.error_code = code
        promise.resolve(response)

    waited_for = [written for written, _ in writer.appended]
    when_replicated(call.state, waited_for, call.connection_id, call.now_ms, call.request.timeout_ms, finish)
    return promise


def _refused_whole(call: Call, code: ErrorCode) -> Answer:
    return Unanswered(close=True) if is_silent(call.request) else refuse(call.request, call.version, code)


def _has_transactional(request: ProduceRequest) -> bool:
    return any(is_transactional(data.records or b"") for topic in request.topic_data for data in topic.partition_data)


def is_silent(request: ProduceRequest) -> bool:
    """Return whether the request gets no response, because it has acks=0."""
    return request.acks == 0


def refuse(request: ProduceRequest, version: int, code: ErrorCode) -> ProduceResponse:
    """Answer with an error in every partition."""
    return ProduceResponse(
        responses=[_topic_response(topic, [_failure(data.index, code) for data in topic.partition_data]) for topic in request.topic_data]
    )


class _Writer:
    """Appends the batches of one Produce request.

    refused: the errors of partitions to which the request must not write. appended: the appended batches, each with its entry in the
    response.
    """

    def __init__(self, call: Call, refused: Mapping[TopicPartition, BrokerError]) -> None:
        self._call = call
        self._refused = refused
        self.appended: list[tuple[PendingAppend, PartitionProduceResponse]] = []

    def append_topic(self, data: TopicProduceData) -> TopicProduceResponse:
        """Append the batches of one topic's partitions; return the topic's part of the response."""
        try:
            topic = find_topic(self._call, data.name, data.topic_id, by_id=self._call.version >= _USES_TOPIC_IDS)
        except BrokerError as error:
            return _topic_response(data, [_failure(partition.index, error.code) for partition in data.partition_data])
        return _topic_response(data, [self._append(topic, partition) for partition in data.partition_data])

    def _append(self, topic: Topic, data: PartitionProduceData) -> PartitionProduceResponse:
        try:
            partition = self._writable(topic, data.index)
        except BrokerError as error:
            return _refused(self._call, topic, data.index, error)
        try:
            place = partition.append(data.records or b"", self._call.wall_ms, allow_zstd=self._call.version >= _KNOWS_ZSTD)
        except BrokerError as error:
            failure = _refused(self._call, topic, data.index, error)
            if error.code in _FOUND_AT_THE_LOG:
                failure.log_start_offset = partition.log.start_offset
            return failure
        answer = PartitionProduceResponse(
            index=data.index,
            base_offset=place.base_offset,
            log_append_time_ms=place.log_append_time_ms,
            log_start_offset=partition.log.start_offset,
        )
        self.appended.append((PendingAppend.of(partition, place), answer))
        return answer

    def _writable(self, topic: Topic, index: int) -> Partition:
        state = self._call.state
        partition = state.lead_partition(topic, index)
        state.raise_planned_fault("Produce", partition.name)
        if partition.name in self._refused:
            raise self._refused[partition.name]
        self._call.check_writable(topic)
        if self._call.request.acks == ALL_IN_SYNC:
            partition.check_in_sync()
        return partition


def _refused(call: Call, topic: Topic, index: int, error: BrokerError) -> PartitionProduceResponse:
    failure = _failure(index, error.code, error.reason)
    if isinstance(error, RefusedRecordsError):
        failure.record_errors = [BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=error.reason) for at in error.indexes]
    moved = call.state.new_leader(topic, index, error.code)
    if moved is not None and call.version >= _NAMES_LEADERS:
        failure.current_leader = LeaderIdAndEpoch(leader_id=moved.leader, leader_epoch=moved.leader_epoch)
    return failure


def _failure(index: int, code: ErrorCode, message: str | None = None) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=code, base_offset=UNKNOWN, error_message=message)


def _topic_response(data: TopicProduceData, partitions: list[PartitionProduceResponse]) -> TopicProduceResponse:
    return TopicProduceResponse(name=data.name, topic_id=data.topic_id, partition_responses=partitions)


def _leaders_named(call: Call, response: ProduceResponse) -> list[NodeEndpoint]:
    leaders = {partition.current_leader.leader_id for topic in response.responses for partition in topic.partition_responses} - {UNKNOWN}
    nodes = call.nodes if leaders else {}
    named = [nodes[leader] for leader in sorted(leaders) if leader in nodes]
    return [NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack) for node in named]


def _has_failure(response: ProduceResponse) -> bool:
    return any(partition.error_code for topic in response.responses for partition in topic.partition_responses)


# As in Kafka 4, versions 0 to 2 are advertised but not served: older librdkafka does not use record batches without them.
API = Api(ProduceRequest, 3, 13, handle, refuse, 0, is_silent)
