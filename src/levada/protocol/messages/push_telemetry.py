"""PushTelemetry (key 72): send metrics to the cluster (KIP-714).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, boolean, bytestring, int8, int16, int32, uuid


class PushTelemetryRequest(Request["PushTelemetryResponse"], key=72, versions="0", flexible="0+"):
    """metrics: OTLP, compressed. terminating: whether this is the last push."""

    client_instance_id: UUID = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = bytestring()


class PushTelemetryResponse(Response, request=PushTelemetryRequest):
    """It says whether the metrics were accepted."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
