"""OpenTelemetry: the metrics of clients, and traces that follow a record from its producer to its processing. Needs the extra `otel`.

observe_metrics() exports the metrics of clients through a meter. ProducerTracing and ConsumerTracing are interceptors. processing() and
traced() make a span for the processing of one record. The trace context is in the record's headers, in the form of the process's
propagators; by default these are the W3C headers traceparent, tracestate and baggage. Programs that do not import this package have no
cost from it.
"""

from __future__ import annotations

try:
    import opentelemetry.trace  # noqa: F401
except ImportError as missing:
    raise ImportError("levada.otel needs opentelemetry-api: pip install 'levada[otel]'") from missing

from levada.otel.metrics import observe_metrics
from levada.otel.tracing import ConsumerTracing, ProducerTracing, processing, traced

__all__ = ["ConsumerTracing", "ProducerTracing", "observe_metrics", "processing", "traced"]
