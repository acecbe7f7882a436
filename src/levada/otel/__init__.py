"""Clients in OpenTelemetry: their metrics, and traces that follow a record from its producer to the work on it. Needs the extra `otel`.

observe_metrics() gives a meter the metrics of clients. ProducerTracing and ConsumerTracing are interceptors; processing() and traced() make
the span of the work on one record. Contexts travel in headers as the propagators of the process write them, by default those of W3C:
traceparent, tracestate and baggage. Nothing of this is loaded, and nothing paid, by programs that do not import it.
"""

from __future__ import annotations

try:
    import opentelemetry.trace  # noqa: F401
except ImportError as missing:
    raise ImportError("levada.otel needs opentelemetry-api: pip install 'levada[otel]'") from missing

from levada.otel.metrics import observe_metrics
from levada.otel.tracing import ConsumerTracing, ProducerTracing, processing, traced

__all__ = ["ConsumerTracing", "ProducerTracing", "observe_metrics", "processing", "traced"]
