"""InitProducerId (key 22): get a producer id and epoch, for idempotence and transactions.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, boolean, int16, int32, int64, string


class InitProducerIdRequest(Request["InitProducerIdResponse"], key=22, versions="0-5", unstable="6", flexible="2+"):
    """transactional_id: null for a producer that is only idempotent. producer_id and epoch ask for the next epoch (KIP-360)."""

    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable_2pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


class InitProducerIdResponse(Response, request=InitProducerIdRequest):
    """The producer id and epoch to write with."""

    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
