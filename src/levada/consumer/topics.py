"""What topics there are, for a consumer that asks (behaviour 17.4). These conversations leave the client's own metadata alone."""

from __future__ import annotations

from levada.client.metadata_update import described_partitions
from levada.client.topic_queries import all_topics, these_topics
from levada.consumer.known_topics import UNKNOWN_GRACE_MS
from levada.error_codes import ErrorCode
from levada.errors import FINAL_TOPIC_ERRORS, BrokerError, TimeoutError, UnknownTopicOrPartitionError, topic_error
from levada.flow import Flow, Sleep
from levada.protocol.messages.metadata import MetadataResponse
from levada.types import PartitionInfo

PAUSE_MS = 100


def partitions_for(topic: str, *, may_create: bool) -> Flow[list[PartitionInfo]]:
    """Describe a topic's partitions. Raises UnknownTopicOrPartitionError, and what the broker holds against the name or the user."""
    waited_ms = 0
    code = ErrorCode.NONE
    try:
        while True:
            response: MetadataResponse = yield from these_topics(topic, may_create=may_create)
            code = ErrorCode.of(response.topics[0].error_code)
            if code is ErrorCode.NONE:
                return list(described_partitions(response.topics[0]))
            if not _may_appear(code, waited_ms):
                raise _refusal(topic, code)
            yield Sleep(PAUSE_MS)
            waited_ms += PAUSE_MS
    except TimeoutError:
        if code is not ErrorCode.NONE:
            raise _refusal(topic, code) from None
        raise


def _may_appear(code: ErrorCode, waited_ms: int) -> bool:
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return waited_ms < UNKNOWN_GRACE_MS
    return code.retriable and code not in FINAL_TOPIC_ERRORS


def _refusal(topic: str, code: ErrorCode) -> BrokerError:
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return UnknownTopicOrPartitionError(f"topic '{topic}' does not exist")
    return topic_error(code, topic)


def list_topics() -> Flow[dict[str, list[PartitionInfo]]]:
    """Describe every topic this user may see."""
    response: MetadataResponse = yield from all_topics()
    return {
        topic.name: list(described_partitions(topic))
        for topic in response.topics
        if topic.name is not None and topic.error_code == ErrorCode.NONE
    }
