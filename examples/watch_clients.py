"""A worker with metrics, logs and traces: python examples/watch_clients.py localhost:9092 orders 9404

It processes every record of a topic, and writes it to orders.done. Prometheus reads its metrics at http://localhost:9404/metrics, and
grafana_dashboard.json shows them. Log lines are JSON, with the client, topic and partition that they concern. The worker continues the
trace of each record. To export spans, set up an OpenTelemetry SDK: `opentelemetry-instrument python examples/watch_clients.py ...`. SIGTERM
and Ctrl-C end the worker.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
from contextlib import suppress
from typing import Any

import levada as lv
from levada.logs import FIELDS
from levada.metrics.prometheus import start_exporter
from levada.otel import ConsumerTracing, ProducerTracing, traced


class AsJson(logging.Formatter):
    """Formats each log record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message and levada's fields as JSON."""
        fields = {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        return json.dumps({"level": record.levelname, "logger": record.name, "message": record.getMessage(), **fields})


def main(bootstrap_servers: str, topic: str, port: str) -> None:
    """Process records until a signal comes."""
    handler = logging.StreamHandler()
    handler.setFormatter(AsJson())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    reading = {"bootstrap.servers": bootstrap_servers, "client.id": "worker-in", "group.id": "workers", "auto.offset.reset": "earliest"}
    writing = {"bootstrap.servers": bootstrap_servers, "client.id": "worker-out"}
    with (
        start_exporter(int(port)) as exporter,
        lv.KafkaProducer(writing, interceptors=[ProducerTracing()]) as producer,
        lv.KafkaConsumer(reading, interceptors=[ConsumerTracing()]) as consumer,
    ):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: consumer.wakeup())

        def work(record: lv.AckRecord[Any, Any]) -> None:
            producer.send(f"{topic}.done", record.value, key=record.key).result()

        consumer.subscribe([topic])
        print(f"metrics at http://localhost:{exporter.port}/metrics", flush=True)
        with suppress(lv.errors.WakeupError):
            consumer.process(traced(work), concurrency=10)


if __name__ == "__main__":
    main(*sys.argv[1:])
