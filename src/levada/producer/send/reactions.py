"""The Sender's reaction to each error code of a Produce response: one table for all codes.

`persisted` concerns this attempt only. It is NO only for codes that brokers send before they append the batch. Other codes may follow an
append: a leader that has appended a batch and waits for its followers may end the wait with REQUEST_TIMED_OUT,
NOT_ENOUGH_REPLICAS_AFTER_APPEND, NOT_LEADER_OR_FOLLOWER or KAFKA_STORAGE_ERROR. Then the records may stay in the log. The same is true if
there is no response.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from levada.error_codes import ErrorCode
from levada.errors import Persisted


class Action(Enum):
    """The Sender's action for a batch. ASK_SEQUENCES: Idempotence decides between RETRY and FAIL."""

    COMPLETE = "complete"
    RETRY = "retry"
    SPLIT = "split"
    FAIL = "fail"
    FAIL_PRODUCER = "fail producer"
    ASK_SEQUENCES = "ask sequences"


class ProduceReaction(NamedTuple):
    """A row of the table. refresh_metadata: whether to request new metadata. persisted: whether this attempt may have been written."""

    action: Action
    refresh_metadata: bool
    persisted: Persisted


_SPECIAL: Mapping[ErrorCode, Action] = {
    ErrorCode.NONE: Action.COMPLETE,
    # An earlier attempt has written the batch, and its response was lost. The broker does not remember the offset any more.
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Action.COMPLETE,
    ErrorCode.MESSAGE_TOO_LARGE: Action.SPLIT,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Action.ASK_SEQUENCES,
    ErrorCode.UNKNOWN_PRODUCER_ID: Action.ASK_SEQUENCES,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Action.FAIL_PRODUCER,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Action.FAIL_PRODUCER,
    ErrorCode.PRODUCER_FENCED: Action.FAIL_PRODUCER,
    ErrorCode.UNSUPPORTED_VERSION: Action.FAIL_PRODUCER,
}

_REFUSED_BEFORE_APPEND = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)


def _row(code: ErrorCode) -> ProduceReaction:
    action = _SPECIAL.get(code, Action.RETRY if code.retriable else Action.FAIL)
    return ProduceReaction(action, code.stale_metadata, Persisted.NO if code in _REFUSED_BEFORE_APPEND else Persisted.UNKNOWN)


ON_PRODUCE_ERROR: Mapping[ErrorCode, ProduceReaction] = {code: _row(code) for code in ErrorCode}
