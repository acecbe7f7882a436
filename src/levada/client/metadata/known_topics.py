"""Whether what the caller named exists, as far as metadata can tell.

A broker that was just told of a new topic may not know it yet, and a topic that is created by being asked for is unknown at first. So "does
not exist" is said only after some time of asking.
"""

from __future__ import annotations

from levada.client.metadata.snapshot import ClusterSnapshot
from levada.client.metadata.topic_errors import FINAL_TOPIC_ERRORS, topic_error
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, UnknownTopicOrPartitionError
from levada.types import TopicPartition

UNKNOWN_GRACE_MS = 2_000


def check_exists(tp: TopicPartition, snapshot: ClusterSnapshot, waited_ms: int, grace_ms: int = UNKNOWN_GRACE_MS) -> None:
    """Raise what metadata holds against a partition, having asked for `waited_ms`; nothing while it may yet appear."""
    fault = trouble_with(tp, snapshot)
    if fault is not None and (waited_ms >= grace_ms or fault.code in FINAL_TOPIC_ERRORS):
        raise fault


def trouble_with(tp: TopicPartition, snapshot: ClusterSnapshot) -> BrokerError | None:
    """Return what metadata holds against a partition, None when it exists or nothing is known of its topic yet."""
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
