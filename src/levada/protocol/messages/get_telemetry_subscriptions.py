"""GetTelemetrySubscriptions (key 71): ask which metrics the cluster wants from this client (KIP-714).

Written by `make messages` from Kafka's schemas. To change it, change tools/messages.py, or the words in tools/messages.toml.
"""

from __future__ import annotations

from uuid import UUID

from levada.protocol.schema import Request, Response, array, boolean, int8, int16, int32, string, uuid


class GetTelemetrySubscriptionsRequest(Request["GetTelemetrySubscriptionsResponse"], key=71, versions="0", flexible="0+"):
    """A client without an instance id sends zero."""

    client_instance_id: UUID = uuid()


class GetTelemetrySubscriptionsResponse(Response, request=GetTelemetrySubscriptionsRequest):
    """Prefixes of the requested metrics. One empty prefix asks for all metrics, an empty list for none."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: UUID = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string)
