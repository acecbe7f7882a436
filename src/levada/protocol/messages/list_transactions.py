"""ListTransactions (key 66): list the transactions that a broker coordinates (KIP-664). A full list needs all brokers.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, Struct, array, int16, int32, int64, string


class ListTransactionsRequest(Request["ListTransactionsResponse"], key=66, versions="0-2", flexible="0+"):
    """Empty filters match all. duration_filter: open for at least this many milliseconds, -1 for any (KIP-994)."""

    state_filters: list[str] = array(string)
    producer_id_filters: list[int] = array(int64)
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+")


class TransactionState(Struct):
    """One transaction."""

    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Response, request=ListTransactionsRequest):
    """The transactions of this broker. unknown_state_filters: states that the broker does not know."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string)
    transaction_states: list[TransactionState] = array(TransactionState)
