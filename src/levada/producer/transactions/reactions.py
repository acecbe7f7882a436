"""The reaction of a transactional producer to each error code: one table per API, with all codes (KIP-1050).

Codes that are not listed below are retried if Kafka classifies them as retriable. Other codes that are not listed are fatal, because the
state of the transaction is unknown then. Api.FIND_COORDINATOR has the reactions to errors of the coordinator look-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from levada.error_codes import ErrorCode


class TransactionReaction(Enum):
    """The reaction to an error code."""

    DONE = "it worked"
    RETRY = "retry after a backoff"
    FIND_COORDINATOR = "look up the coordinator and retry"
    ABORT = "the transaction has to be aborted"
    ABORT_AND_INITIALIZE = "it has to be aborted, and the producer initialized again"
    REFUSED = "the call fails; it may be repeated later"
    FENCED = "another producer took over, or the coordinator aborted the transaction"
    FATAL = "the producer cannot go on"


class Api(Enum):
    """The APIs that a transactional producer uses."""

    FIND_COORDINATOR = "FindCoordinator"
    INIT_PRODUCER_ID = "InitProducerId"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    TXN_OFFSET_COMMIT = "TxnOffsetCommit"
    END_TXN = "EndTxn"
    DESCRIBE_TRANSACTIONS = "DescribeTransactions"


_R, _C = TransactionReaction, ErrorCode

_EVERYWHERE: Mapping[ErrorCode, TransactionReaction] = {
    _C.NONE: _R.DONE,
    _C.COORDINATOR_NOT_AVAILABLE: _R.FIND_COORDINATOR,
    _C.NOT_COORDINATOR: _R.FIND_COORDINATOR,
    _C.NETWORK_EXCEPTION: _R.FIND_COORDINATOR,
    _C.INVALID_PRODUCER_EPOCH: _R.FENCED,
    _C.PRODUCER_FENCED: _R.FENCED,
    _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _R.FATAL,
    _C.INVALID_TXN_STATE: _R.FATAL,
    _C.UNKNOWN_PRODUCER_ID: _R.ABORT_AND_INITIALIZE,
    _C.INVALID_PRODUCER_ID_MAPPING: _R.ABORT_AND_INITIALIZE,
    _C.TRANSACTION_ABORTABLE: _R.ABORT,
}

_SPECIAL: Mapping[Api, Mapping[ErrorCode, TransactionReaction]] = {
    Api.FIND_COORDINATOR: {_C.GROUP_AUTHORIZATION_FAILED: _R.ABORT},
    Api.INIT_PRODUCER_ID: {
        _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _R.REFUSED,
        _C.CLUSTER_AUTHORIZATION_FAILED: _R.REFUSED,
        _C.TRANSACTION_ABORTABLE: _R.REFUSED,
    },
    Api.ADD_PARTITIONS: {
        _C.TOPIC_AUTHORIZATION_FAILED: _R.ABORT,
        # The coordinator has not added this partition, because it refused another partition of the request.
        _C.OPERATION_NOT_ATTEMPTED: _R.ABORT,
    },
    Api.ADD_OFFSETS: {_C.GROUP_AUTHORIZATION_FAILED: _R.ABORT},
    Api.TXN_OFFSET_COMMIT: {
        _C.REQUEST_TIMED_OUT: _R.FIND_COORDINATOR,
        _C.GROUP_AUTHORIZATION_FAILED: _R.ABORT,
        _C.TOPIC_AUTHORIZATION_FAILED: _R.ABORT,
        # The consumer is no longer the member that owns these partitions; another member may read them now.
        _C.ILLEGAL_GENERATION: _R.ABORT,
        _C.UNKNOWN_MEMBER_ID: _R.ABORT,
        _C.FENCED_INSTANCE_ID: _R.ABORT,
        _C.STALE_MEMBER_EPOCH: _R.ABORT,
        # These errors concern the offsets or the group, so the producer can be used for another transaction.
        _C.OFFSET_METADATA_TOO_LARGE: _R.ABORT,
        _C.INVALID_COMMIT_OFFSET_SIZE: _R.ABORT,
        _C.INVALID_GROUP_ID: _R.ABORT,
        _C.GROUP_ID_NOT_FOUND: _R.ABORT,
    },
    Api.END_TXN: {
        # The coordinator has aborted the transaction after transaction.timeout.ms, before the commit arrived.
        _C.INVALID_TXN_STATE: _R.ABORT,
    },
}


def _reaction(api: Api, code: ErrorCode) -> TransactionReaction:
    special = _SPECIAL.get(api, {}).get(code) or _EVERYWHERE.get(code)
    return special or (TransactionReaction.RETRY if code.retriable else TransactionReaction.FATAL)


REACTIONS: Mapping[Api, Mapping[ErrorCode, TransactionReaction]] = {api: {code: _reaction(api, code) for code in ErrorCode} for api in Api}

MEANING: Mapping[ErrorCode, str] = {
    _C.INVALID_TRANSACTION_TIMEOUT: (
        "transaction.timeout.ms is more than the brokers' transaction.max.timeout.ms; lower it, or set transaction.timeout.clamp"
    ),
    _C.ILLEGAL_GENERATION: "the group has rebalanced since, and may have given the partitions to another member",
    _C.UNKNOWN_MEMBER_ID: "the group no longer knows the member, and may have given its partitions to another one",
    _C.FENCED_INSTANCE_ID: "another member has taken over the group.instance.id",
    _C.INVALID_TXN_STATE: "the coordinator has aborted it, as it does after transaction.timeout.ms",
    _C.OFFSET_METADATA_TOO_LARGE: "the metadata of an offset is longer than the brokers' offset.metadata.max.bytes",
    _C.INVALID_PRODUCER_ID_MAPPING: "the coordinator has forgotten the id, as it does after transactional.id.expiration.ms without use",
}
"""Explanations of error codes, appended to the error text."""
