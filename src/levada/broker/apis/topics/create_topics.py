"""CreateTopics: create topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from levada.acls import AclOperation, ResourceType
from levada.broker.access.permissions import allows, check, may
from levada.broker.cluster.cluster import DEFAULT
from levada.broker.cluster.replica_assignment import check_new_partitions
from levada.broker.cluster.topic import Topic
from levada.broker.config.broker_config import DEFAULT_SOURCE
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, ConfigError
from levada.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_STRICT_SINCE = 6


def handle(call: Call) -> CreateTopicsResponse:
    """Create each topic separately. A topic that occurs twice is refused.

    No topic is created if they would have too many partitions together.
    """
    request: CreateTopicsRequest = call.request
    counts = Counter(wanted.name for wanted in request.topics)
    unique = {wanted.name: wanted for wanted in request.topics}
    try:
        check_new_partitions(sum(_size(call, wanted) for name, wanted in unique.items() if counts[name] == 1))
    except BrokerError as error:
        return CreateTopicsResponse(topics=[_failure(name, error.code, error.reason) for name in unique])
    checked = [_checked(call, wanted, repeated=counts[wanted.name] > 1) for wanted in unique.values()]
    planned = [topic for topic in checked if isinstance(topic, Topic)]
    # All together: a disk stores a thousand topics in the time of one.
    refused = {} if request.validate_only else call.state.cluster.add_all(planned)
    return CreateTopicsResponse(topics=[_result(call, topic, refused) for topic in checked])


def refuse(request: CreateTopicsRequest, version: int, code: ErrorCode) -> CreateTopicsResponse:
    """Answer with an error for every topic."""
    return CreateTopicsResponse(topics=[_failure(wanted.name, code, None) for wanted in request.topics])


def _size(call: Call, wanted: CreatableTopic) -> int:
    """Return the number of partitions that a topic would have."""
    if not may(call, ResourceType.TOPIC, wanted.name):
        return 0
    if wanted.assignments:
        return len(wanted.assignments)
    return call.state.cluster.settings.num_partitions if wanted.num_partitions == DEFAULT else max(wanted.num_partitions, 0)


def _checked(call: Call, wanted: CreatableTopic, *, repeated: bool) -> Topic | CreatableTopicResult:
    """Return the topic to create, or the result for the response if it cannot be created. repeated: whether the request names the topic
    twice.
    """
    if repeated:
        return _failure(wanted.name, ErrorCode.INVALID_REQUEST, "the request names this topic more than once")
    try:
        check(call, ResourceType.TOPIC, wanted.name)
        topic = _plan(call, wanted)
        call.mutate(len(topic.partitions), strict_since=_STRICT_SINCE)
    except BrokerError as error:
        return _failure(wanted.name, error.code, error.reason)
    except ConfigError as error:
        return _failure(wanted.name, ErrorCode.INVALID_CONFIG, str(error))
    return topic


def _result(call: Call, topic: Topic | CreatableTopicResult, refused: Mapping[str, BrokerError]) -> CreatableTopicResult:
    if isinstance(topic, CreatableTopicResult):
        return topic
    if topic.name in refused:
        return _failure(topic.name, refused[topic.name].code, refused[topic.name].reason)
    shows_config = allows(call, AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name)
    return _success(topic) if shows_config else _unseen(topic)


def _plan(call: Call, wanted: CreatableTopic) -> Topic:
    assignment = {placed.partition_index: tuple(placed.broker_ids) for placed in wanted.assignments}
    if assignment and (wanted.num_partitions, wanted.replication_factor) != (DEFAULT, DEFAULT):
        raise BrokerError("give either assignments, or numbers of partitions and replicas", code=ErrorCode.INVALID_REQUEST)
    config = {setting.name: setting.value for setting in wanted.configs}
    return call.state.cluster.plan(wanted.name, wanted.num_partitions, wanted.replication_factor, config, assignment)


def _success(topic: Topic) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.id,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=[
            CreatableTopicConfigs(name=name, value=text, config_source=topic.config.SOURCE if overridden else DEFAULT_SOURCE)
            for name, text, overridden in topic.config.effective()
        ],
    )


def _unseen(topic: Topic) -> CreatableTopicResult:
    """Return the result for a created topic whose settings the client may not read."""
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return CreatableTopicResult(name=topic.name, topic_id=topic.id, topic_config_error_code=code, configs=[])


def _failure(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=message, configs=[])


API = Api(CreateTopicsRequest, 2, 7, handle, refuse, 2)
