"""The metrics of clients as OpenTelemetry's instruments."""

from __future__ import annotations

from math import nan
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from levada.api.metric_tables import MEANINGS
from levada.errors import ClosedError
from levada.metrics import MetricName, Metrics
from levada.otel import observe_metrics

TAGS = (("client-id", "c"),)
SENT = "org.apache.kafka.producer.record.send.total"
SENT_TO = "org.apache.kafka.producer.topic.record.send.total"


class Client:
    def __init__(self) -> None:
        self.asked = 0
        self.closed = False

    def metrics(self) -> Metrics:
        self.asked += 1
        if self.closed:
            raise ClosedError("closed")
        return Metrics(
            {
                MetricName("record-send-total", "producer-metrics", TAGS): float(self.asked),
                MetricName("record-send-total", "producer-topic-metrics", (*TAGS, ("topic", "orders"))): 3.0,
                MetricName("record-size-avg", "producer-metrics", TAGS): nan,
                MetricName("request-rate", "producer-node-metrics", (*TAGS, ("node-id", "node-1"))): 0.5,
            },
            MEANINGS,
        )


def collected(reader: InMemoryMetricReader) -> dict[str, Any]:
    data = reader.get_metrics_data()
    return {
        metric.name: metric
        for resource in ([] if data is None else data.resource_metrics)
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_metrics_are_observed_under_the_names_of_kip_714() -> None:
    client, reader = Client(), InMemoryMetricReader()
    observe_metrics(MeterProvider([reader]), [client])
    assert client.asked == 0, "nothing is computed before a collection"
    found = collected(reader)
    assert set(found) == {SENT, SENT_TO, "org.apache.kafka.producer.node.request.rate"}, "an average of nothing is left out"
    (point,) = found[SENT_TO].data.data_points
    assert (point.value, dict(point.attributes)) == (3, {"client_id": "c", "topic": "orders"})
    assert found[SENT].data.is_monotonic
    assert found[SENT].description == "Records sent, again if need be, in all"
    (point,) = found["org.apache.kafka.producer.node.request.rate"].data.data_points
    assert dict(point.attributes) == {"client_id": "c", "node_id": "node-1"}
    assert not hasattr(found["org.apache.kafka.producer.node.request.rate"].data, "is_monotonic")


def test_a_client_is_read_once_per_collection_and_by_every_reader() -> None:
    client, first, second = Client(), InMemoryMetricReader(), InMemoryMetricReader()
    observe_metrics(MeterProvider([first, second]), [client])
    for number, reader in enumerate((first, first, second, first), 1):
        (point,) = collected(reader)[SENT].data.data_points
        assert (client.asked, point.value) == (number, number)


def test_a_client_that_is_closed_disappears() -> None:
    client, reader = Client(), InMemoryMetricReader()
    observe_metrics(MeterProvider([reader]), [client])
    assert collected(reader)
    client.closed = True
    assert not collected(reader)


def test_every_name_is_one_that_opentelemetry_takes_and_stands_for_one_metric() -> None:
    names = [MetricName(name, group).telemetry_name for group, name in MEANINGS]
    assert len(set(names)) == len(names)
    assert all(len(name) < 255 for name in names)
