"""PushTelemetry: accept metrics of a client (KIP-714)."""

from __future__ import annotations

from levada.broker.cluster.telemetry import Pushed
from levada.broker.node.state import Api, Call
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from levada.record.compression import Codec


def handle(call: Call) -> PushTelemetryResponse:
    """Store the pushed metrics, for EmbeddedKafka.pushed_metrics()."""
    request: PushTelemetryRequest = call.request
    pushed = Pushed(
        request.client_instance_id, call.client_id, request.subscription_id, request.terminating, Codec.NONE, bytes(request.metrics)
    )
    try:
        call.state.cluster.telemetry.push(pushed, request.compression_type, call.now_ms)
    except BrokerError as error:
        return refuse(request, call.version, error.code)
    return PushTelemetryResponse()


def refuse(request: PushTelemetryRequest, version: int, code: ErrorCode) -> PushTelemetryResponse:
    """Answer with an error."""
    return PushTelemetryResponse(error_code=code)


API = Api(PushTelemetryRequest, 0, 0, handle, refuse, 0)
