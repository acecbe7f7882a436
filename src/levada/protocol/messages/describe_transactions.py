"""DescribeTransactions (key 65): describe the transactions of transactional ids (KIP-664).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, int64, string


class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"], key=65, versions="0", flexible="0+"):
    """The transactional ids."""

    transactional_ids: list[str] = array(string)


class TopicData(Struct):
    """The partitions of one topic that are in the transaction."""

    topic: str = string()
    partitions: list[int] = array(int32)


class TransactionState(Struct):
    """One transaction. transaction_state is a name such as Ongoing or CompleteCommit."""

    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


class DescribeTransactionsResponse(Response, request=DescribeTransactionsRequest):
    """One description for each transactional id."""

    throttle_time_ms: int = int32()
    transaction_states: list[TransactionState] = array(TransactionState)
