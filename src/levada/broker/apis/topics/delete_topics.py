"""DeleteTopics: delete topics, by name or by id."""

from __future__ import annotations

from levada.acls import AclOperation, ResourceType
from levada.broker.access.permissions import allows, check, denied
from levada.broker.cluster.topic import Topic
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from levada.protocol.schema import ZERO_UUID

_HAS_TOPIC_STATES = 6
_STRICT_SINCE = 5


def handle(call: Call) -> DeleteTopicsResponse:
    """Delete each topic separately."""
    return DeleteTopicsResponse(responses=[_delete(call, wanted) for wanted in _wanted(call.request, call.version)])


def refuse(request: DeleteTopicsRequest, version: int, code: ErrorCode) -> DeleteTopicsResponse:
    """Answer with an error for every topic."""
    return DeleteTopicsResponse(responses=[_failure(wanted, code, None, version) for wanted in _wanted(request, version)])


def _wanted(request: DeleteTopicsRequest, version: int) -> list[DeleteTopicState]:
    return request.topics if version >= _HAS_TOPIC_STATES else [DeleteTopicState(name=name) for name in request.topic_names]


def _delete(call: Call, wanted: DeleteTopicState) -> DeletableTopicResult:
    try:
        topic = _find(call, wanted)
        call.mutate(len(topic.partitions), strict_since=_STRICT_SINCE)
        call.state.cluster.remove(topic)
    except BrokerError as error:
        return _failure(wanted, error.code, error.reason, call.version)
    return DeletableTopicResult(name=topic.name, topic_id=topic.id)


def _find(call: Call, wanted: DeleteTopicState) -> Topic:
    if not call.state.settings.delete_topic_enable:
        raise BrokerError("delete.topic.enable=false", code=ErrorCode.TOPIC_DELETION_DISABLED)
    by_id = wanted.name is None
    if by_id == (wanted.topic_id == ZERO_UUID):
        raise BrokerError("name the topic either by its name or by its id", code=ErrorCode.INVALID_REQUEST)
    if not by_id and not _may_see(call, wanted.name or ""):
        raise denied(ResourceType.TOPIC)
    topic = call.state.find_topic(wanted.name or "", wanted.topic_id, by_id=by_id)
    if not _may_see(call, topic.name):
        raise denied(ResourceType.TOPIC)
    check(call, ResourceType.TOPIC, topic.name)
    return topic


def _may_see(call: Call, name: str) -> bool:
    """Return whether the client may know that a topic exists: it must be allowed to describe this topic, or to delete on the cluster. That
    it may delete the topic is not enough.
    """
    return allows(call, AclOperation.DELETE, ResourceType.CLUSTER) or allows(call, AclOperation.DESCRIBE, ResourceType.TOPIC, name)


def _failure(wanted: DeleteTopicState, code: ErrorCode, message: str | None, version: int) -> DeletableTopicResult:
    name = wanted.name if version >= _HAS_TOPIC_STATES else wanted.name or ""
    return DeletableTopicResult(name=name, topic_id=wanted.topic_id, error_code=code, error_message=message)


API = Api(DeleteTopicsRequest, 1, 6, handle, refuse, 1)
