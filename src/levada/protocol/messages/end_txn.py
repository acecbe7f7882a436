"""EndTxn (key 26): commit or abort a transaction.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, boolean, int16, int32, int64, string


class EndTxnRequest(Request["EndTxnResponse"], key=26, versions="0-5", flexible="3+"):
    """committed: true to commit, false to abort."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Response, request=EndTxnRequest):
    """Since version 5: the producer id and epoch for the next transaction (KIP-890)."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)
