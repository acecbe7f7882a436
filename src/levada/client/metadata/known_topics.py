"""Checks whether the topics and partitions that a caller named exist, as far as metadata can tell; the errors for those that do not.

A broker may not know a new topic yet, and a topic that is created by being asked for is unknown at first. So a topic is reported as missing
only after it was asked for during UNKNOWN_GRACE_MS.
"""

from __future__ import annotations

from levada.acls import ResourceType
from levada.base.permissions import refused
from levada.client.metadata.snapshot import ClusterSnapshot
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, UnknownTopicOrPartitionError, broker_error
from levada.protocol.messages.metadata import MetadataRequest
from levada.types import TopicPartition

TOPIC_NAME_RULE = "a topic's name is 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', but not '.' or '..'"

FINAL_TOPIC_ERRORS = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
"""Errors about a topic that waiting does not change: the name is invalid, or a permission is missing."""


def topic_error(code: ErrorCode, name: str, advice: str = "") -> BrokerError:
    """Return the exception for an error code of a topic. advice: what to add to the text about an invalid name."""
    if code is ErrorCode.INVALID_TOPIC_EXCEPTION:
        return broker_error(code, f"topic '{name}': {TOPIC_NAME_RULE}{advice}")
    return refused(MetadataRequest.NAME, code, f"the brokers do not describe topic '{name}'", {ResourceType.TOPIC: name})


UNKNOWN_GRACE_MS = 2_000


def check_exists(tp: TopicPartition, snapshot: ClusterSnapshot, waited_ms: int, grace_ms: int = UNKNOWN_GRACE_MS) -> None:
    """Raise the error that metadata has for a partition: FINAL_TOPIC_ERRORS at once, a missing topic or partition only after grace_ms.

    waited_ms: for how long, in ms, metadata of the partition has been requested.
    """
    fault = error_of_partition(tp, snapshot)
    if fault is not None and (waited_ms >= grace_ms or fault.code in FINAL_TOPIC_ERRORS):
        raise fault


def error_of_partition(tp: TopicPartition, snapshot: ClusterSnapshot) -> BrokerError | None:
    """Return the error that metadata has for a partition; None if it exists, or if metadata cannot tell yet."""
    topic = snapshot.topics.get(tp.topic)
    if topic is None:
        return None
    if topic.error in FINAL_TOPIC_ERRORS:
        return topic_error(topic.error, tp.topic)
    if topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return UnknownTopicOrPartitionError(
            f"topic '{tp.topic}' does not exist, and the brokers do not create it by being asked for; create it, or check the name"
        )
    count = len(topic.partitions)
    if topic.error is ErrorCode.NONE and tp.partition >= count:
        has = f"{count} partitions, 0 to {count - 1}" if count > 1 else "one partition, 0"
        return UnknownTopicOrPartitionError(f"{tp} does not exist; topic '{tp.topic}' has {has}")
    return None
