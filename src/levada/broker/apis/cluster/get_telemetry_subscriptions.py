"""GetTelemetrySubscriptions: the client metrics that the cluster subscribes to, and the client's instance id (KIP-714)."""

from __future__ import annotations

from levada.broker.cluster.telemetry import ACCEPTED
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse


def handle(call: Call) -> GetTelemetrySubscriptionsResponse:
    """Return the metrics that the client is to push, the push interval, and the client's instance id."""
    request: GetTelemetrySubscriptionsRequest = call.request
    telemetry = call.state.cluster.telemetry
    try:
        client_instance_id, subscription_id = telemetry.ask(request.client_instance_id, call.now_ms)
    except BrokerError as error:
        return refuse(request, call.version, error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client_instance_id,
        subscription_id=subscription_id,
        accepted_compression_types=list(ACCEPTED),
        push_interval_ms=telemetry.wanted.interval_ms,
        telemetry_max_bytes=telemetry.max_bytes,
        delta_temporality=telemetry.wanted.delta,
        requested_metrics=list(telemetry.wanted.metrics),
    )


def refuse(request: GetTelemetrySubscriptionsRequest, version: int, code: ErrorCode) -> GetTelemetrySubscriptionsResponse:
    """Answer with an error."""
    return GetTelemetrySubscriptionsResponse(error_code=code)


API = Api(GetTelemetrySubscriptionsRequest, 0, 0, handle, refuse, 0)
