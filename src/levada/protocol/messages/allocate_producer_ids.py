"""AllocateProducerIds (key 67): a broker asks the controller for a block of producer ids.

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from levada.protocol.schema import Request, Response, int16, int32, int64


class AllocateProducerIdsRequest(Request["AllocateProducerIdsResponse"], key=67, versions="0", flexible="0+"):
    """The broker that asks."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


class AllocateProducerIdsResponse(Response, request=AllocateProducerIdsRequest):
    """The first id of the block, and the number of ids."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()
