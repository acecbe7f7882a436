"""AddOffsetsToTxn (key 25): add a group's offsets to a transaction.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, int16, int32, int64, string


class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"], key=25, versions="0-4", flexible="3+"):
    """The group whose offsets will be committed."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Response, request=AddOffsetsToTxnRequest):
    """It says whether the request succeeded."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
