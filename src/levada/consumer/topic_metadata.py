"""partitions_for() and list_topics() of a consumer (TopicMetadataFetcher in Java). They do not change the client's own metadata."""

from __future__ import annotations

from itertools import count

from levada.base.clock import Now
from levada.base.flow import Flow
from levada.client.metadata.known_topics import FINAL_TOPIC_ERRORS, UNKNOWN_GRACE_MS, topic_error
from levada.client.metadata.metadata_update import described_partitions
from levada.client.metadata.topic_queries import all_topics, these_topics
from levada.client.requests.retry import Reaction, Retries, RetryPolicy
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, TimeoutError, UnknownTopicOrPartitionError
from levada.protocol.messages.metadata import MetadataResponse
from levada.types import PartitionInfo

ON_DESCRIBED_TOPIC_ERROR = RetryPolicy({code: Reaction.RETRY for code in ErrorCode if code.retriable and code not in FINAL_TOPIC_ERRORS})


def partitions_for(topic: str, retries: Retries, now: Now, *, may_create: bool) -> Flow[list[PartitionInfo]]:
    """Describe the partitions of a topic. Raises UnknownTopicOrPartitionError, and errors for an invalid name or a missing permission.

    may_create: whether the broker may create the topic.
    """
    started_ms, code = now.ms, ErrorCode.NONE
    try:
        for attempts in count():
            response: MetadataResponse = yield from these_topics(topic, may_create=may_create)
            code = ErrorCode.of(response.topics[0].error_code)
            if code is ErrorCode.NONE:
                break
            if not _may_appear(code, now.ms - started_ms):
                raise _refusal(topic, code)
            yield from retries.pause(attempts, refresh=False)
    except TimeoutError:
        if code is not ErrorCode.NONE:
            raise _refusal(topic, code) from None
        raise
    return list(described_partitions(response.topics[0]))


def _may_appear(code: ErrorCode, waited_ms: int) -> bool:
    has_time = code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or waited_ms < UNKNOWN_GRACE_MS
    return has_time and ON_DESCRIBED_TOPIC_ERROR.reaction(code) is Reaction.RETRY


def _refusal(topic: str, code: ErrorCode) -> BrokerError:
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return UnknownTopicOrPartitionError(f"topic '{topic}' does not exist")
    return topic_error(code, topic)


def list_topics() -> Flow[dict[str, list[PartitionInfo]]]:
    """Describe every topic that the user may describe."""
    response: MetadataResponse = yield from all_topics()
    return {
        topic.name: list(described_partitions(topic))
        for topic in response.topics
        if topic.name is not None and topic.error_code == ErrorCode.NONE
    }
