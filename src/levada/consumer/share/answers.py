"""The meaning of errors in the answers of leaders: tables for acknowledgements, partitions and sessions (KIP-932), and error texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from levada.acls import ResourceType
from levada.base import permissions
from levada.client.requests.retry import Reaction, RetryPolicy
from levada.consumer.group.consumer_heartbeat import Owned
from levada.consumer.share.member import NEEDED
from levada.error_codes import ErrorCode, described
from levada.errors import BrokerError, ConnectError, KafkaError, TimeoutError, broker_error
from levada.protocol.messages.share_acknowledge import PartitionData as AckPartitionData
from levada.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from levada.protocol.messages.share_fetch import PartitionData, ShareFetchRequest, ShareFetchResponse
from levada.types import TopicPartition

_LEADER_HAS_CHANGED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Reaction.REFRESH,
    ErrorCode.FENCED_LEADER_EPOCH: Reaction.REFRESH,
    ErrorCode.UNKNOWN_LEADER_EPOCH: Reaction.REFRESH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Reaction.REFRESH,
    ErrorCode.UNKNOWN_TOPIC_ID: Reaction.REFRESH,
    ErrorCode.INCONSISTENT_TOPIC_ID: Reaction.REFRESH,
}
_RETRIABLE = {code: Reaction.RETRY for code in ErrorCode if code.retriable}

ON_PARTITION_ERROR = RetryPolicy(
    {
        **_RETRIABLE,
        **_LEADER_HAS_CHANGED,
        ErrorCode.KAFKA_STORAGE_ERROR: Reaction.REFRESH,
        ErrorCode.REPLICA_NOT_AVAILABLE: Reaction.REFRESH,
        ErrorCode.UNKNOWN_SERVER_ERROR: Reaction.RETRY,
        # Kafka classifies it as retriable because of producers. A leader with a damaged log would read the same bytes again.
        ErrorCode.CORRUPT_MESSAGE: Reaction.RAISE,
    }
)
"""The error codes of one partition in the answer to a ShareFetch."""

ON_ACKNOWLEDGE_ERROR = RetryPolicy({**_RETRIABLE, **_LEADER_HAS_CHANGED})
"""The error codes of acknowledgements. Locks end when the leader changes, so asking the new leader is useless: the error is reported."""

ON_SESSION_ERROR = RetryPolicy(
    {
        **_RETRIABLE,
        ErrorCode.UNKNOWN_MEMBER_ID: Reaction.RETRY,
        ErrorCode.UNKNOWN_SERVER_ERROR: Reaction.RETRY,
        ErrorCode.SHARE_SESSION_NOT_FOUND: Reaction.AT_ONCE,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH: Reaction.AT_ONCE,
    }
)
"""The error codes of a whole answer. Each ends the session, and with it the locks."""


class AckAnswer(NamedTuple):
    """The answer to the acknowledgements of one partition. leader_id: the current leader; -1 if the answer does not name one."""

    code: int
    message: str | None
    leader_id: int
    leader_epoch: int


def acks_of_fetch(answer: ShareFetchResponse) -> Mapping[Owned, AckAnswer]:
    """Return the answers to the acknowledgements in a ShareFetch response, by partition."""
    return {
        owned: AckAnswer(
            data.acknowledge_error_code, data.acknowledge_error_message, data.current_leader.leader_id, data.current_leader.leader_epoch
        )
        for owned, data in partitions_of(answer)
    }


def acks_alone(answer: ShareAcknowledgeResponse) -> Mapping[Owned, AckAnswer]:
    """Return the answers to the acknowledgements in a ShareAcknowledge response, by partition."""
    return {Owned(topic.topic_id, data.partition_index): _ack_alone(data) for topic in answer.responses for data in topic.partitions}


def _ack_alone(data: AckPartitionData) -> AckAnswer:
    return AckAnswer(data.error_code, data.error_message, data.current_leader.leader_id, data.current_leader.leader_epoch)


def partitions_of(answer: ShareFetchResponse) -> Iterator[tuple[Owned, PartitionData]]:
    """Yield each partition of a ShareFetch response, with its data."""
    for topic in answer.responses:
        for data in topic.partitions:
            yield Owned(topic.topic_id, data.partition_index), data


# Error texts: what happened, to which partition, at which broker, and whether the acknowledgement may have been accepted.


def refused(tp: TopicPartition, node_id: int, code: int, message: str | None) -> BrokerError:
    """Return the error for acknowledgements that a leader has refused. code, message: from the response."""
    known = ErrorCode.of(code)
    text = f"{tp}: node {node_id} has not taken the acknowledgement{f' ({message})' if message else ''}"
    if known is ErrorCode.INVALID_RECORD_STATE:
        text += "; the lock had ended, or the records went to another member: work on less at once, or renew the locks in time"
    elif known in _LEADER_HAS_CHANGED:
        text += "; locks end with the leader that gave them"
    return permissions.refused(ShareAcknowledgeRequest.NAME, code, text, {ResourceType.TOPIC: tp.topic})


def not_said(tp: TopicPartition, node_id: int) -> KafkaError:
    """Return the error for acknowledgements of a partition that is missing in the answer."""
    return ConnectError(f"{tp}: the answer of node {node_id} does not say whether it has taken the acknowledgement")


def unanswered(tp: TopicPartition, node_id: int, why: BaseException) -> KafkaError:
    """Return the error for acknowledgements that were sent but not answered. why: the error of the request."""
    return ConnectError(f"{tp}: node {node_id} did not answer the acknowledgement, which it may have taken: {why}")


def session_lost(tp: TopicPartition, node_id: int, code: int, message: str | None) -> BrokerError:
    """Return the error for acknowledgements in a request that was refused as a whole. code, message: from the response."""
    text = f"{tp}: node {node_id} has not taken the acknowledgement{f' ({message})' if message else ''}; locks end with the session"
    return broker_error(code, text)


def no_session(tp: TopicPartition, node_id: int) -> BrokerError:
    """Return the error for acknowledgements of records from a session that has ended."""
    text = f"{tp}: not sent: the session with node {node_id} has ended since, and the locks on these records with it"
    return broker_error(ErrorCode.SHARE_SESSION_NOT_FOUND, text)


def out_of_time(tp: TopicPartition, node_id: int) -> TimeoutError:
    """Return the error for acknowledgements that could not be sent in time."""
    return TimeoutError(f"{tp}: not sent in time: node {node_id}, which the records came from, could not be reached")


def closed_before(tp: TopicPartition) -> KafkaError:
    """Return the error for acknowledgements that were not answered before the consumer was closed."""
    return ConnectError(f"{tp}: the consumer was closed before the acknowledgement was answered; it may have been taken")


def session_refused(group_id: str, node_id: int, code: int, message: str | None) -> BrokerError:
    """Return the error for a fetch that a broker has refused as a whole. code, message: from the response."""
    text = f"share fetch from node {node_id}: {message or described(code)}"
    text += f"; {NEEDED}" if code == ErrorCode.UNSUPPORTED_VERSION else ""
    return permissions.refused(ShareFetchRequest.NAME, code, text, {ResourceType.GROUP: group_id})
