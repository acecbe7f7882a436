"""CreatePartitions: add partitions to topics (KIP-195)."""

from __future__ import annotations

from collections import Counter

from levada.acls import ResourceType
from levada.broker.access.permissions import find_topic, may
from levada.broker.cluster.replica_assignment import check_new_partitions
from levada.broker.cluster.topic import Topic
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from levada.protocol.schema import ZERO_UUID

_STRICT_SINCE = 3


def handle(call: Call) -> CreatePartitionsResponse:
    """Handle each topic separately. A topic that occurs twice is refused.

    No topic is changed if they would get too many new partitions together.
    """
    request: CreatePartitionsRequest = call.request
    counts = Counter(wanted.name for wanted in request.topics)
    unique = {wanted.name: wanted for wanted in request.topics}
    try:
        check_new_partitions(sum(_growth(call, wanted) for name, wanted in unique.items() if counts[name] == 1))
    except BrokerError as error:
        return CreatePartitionsResponse(results=[_result(name, error.code, error.reason) for name in unique])
    return CreatePartitionsResponse(results=[_create(call, wanted, repeated=counts[name] > 1) for name, wanted in unique.items()])


def refuse(request: CreatePartitionsRequest, version: int, code: ErrorCode) -> CreatePartitionsResponse:
    """Answer with an error for every topic."""
    return CreatePartitionsResponse(results=[_result(wanted.name, code) for wanted in request.topics])


def _growth(call: Call, wanted: CreatePartitionsTopic) -> int:
    """Return the number of partitions by which a topic would grow."""
    topic = call.state.cluster.topic(wanted.name) if may(call, ResourceType.TOPIC, wanted.name) else None
    return 0 if topic is None else max(wanted.count - len(topic.partitions), 0)


def _create(call: Call, wanted: CreatePartitionsTopic, *, repeated: bool) -> CreatePartitionsTopicResult:
    try:
        if repeated:
            raise BrokerError("Duplicate topic name.", code=ErrorCode.INVALID_REQUEST)
        topic = find_topic(call, wanted.name, ZERO_UUID, by_id=False)
        _check_count(topic, wanted)
        placed = None if wanted.assignments is None else [tuple(one.broker_ids) for one in wanted.assignments]
        planned = call.state.cluster.plan_partitions(topic, wanted.count, placed)
        call.mutate(len(planned), strict_since=_STRICT_SINCE)
        if not call.request.validate_only:
            call.state.cluster.add_partitions(topic, planned)
    except BrokerError as error:
        return _result(wanted.name, error.code, error.reason)
    return _result(wanted.name, ErrorCode.NONE)


def _check_count(topic: Topic, wanted: CreatePartitionsTopic) -> None:
    """Raise an error if the new partition count is not higher than the present one, or does not match the assignments. The message is
    Kafka's, because tests may expect it.
    """
    now, total = len(topic.partitions), wanted.count
    if total == now:
        raise BrokerError(f"Topic already has {now} partition(s).", code=ErrorCode.INVALID_PARTITIONS)
    if total < now:
        fault = f"The topic {topic.name} currently has {now} partition(s); {total} would not be an increase."
        raise BrokerError(fault, code=ErrorCode.INVALID_PARTITIONS)
    if wanted.assignments is not None and len(wanted.assignments) != total - now:
        given = len(wanted.assignments)
        fault = f"Attempted to add {total - now} additional partition(s), but only {given} assignment(s) were specified."
        raise BrokerError(fault, code=ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def _result(name: str, code: ErrorCode, message: str | None = None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)


API = Api(CreatePartitionsRequest, 0, 3, handle, refuse, 0)
