"""Prometheus's text of the metrics of clients: names, labels, kinds, and whose metrics they are."""

from __future__ import annotations

import json
import re
from math import nan
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from levada.api.metric_tables import MEANINGS
from levada.errors import ClosedError
from levada.metrics import MetricName, Metrics
from levada.metrics.prometheus import KafkaCollector, exposition, prometheus_name

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
DASHBOARD = Path(__file__).parents[3] / "examples" / "grafana_dashboard.json"


class Client:
    """A client with one metric of each kind. kind: what its groups begin with."""

    def __init__(self, client_id: str = "c", kind: str = "producer") -> None:
        tags = (("client-id", client_id),)
        self.values = {
            MetricName("record-send-total", f"{kind}-metrics", tags): 7.0,
            MetricName("record-size-avg", f"{kind}-metrics", tags): nan,
            MetricName("request-rate", f"{kind}-node-metrics", (*tags, ("node-id", "node-1"))): 0.5,
        }
        self.asked = 0
        self.closed = False

    def metrics(self) -> Metrics:
        self.asked += 1
        if self.closed:
            raise ClosedError("closed")
        return Metrics(self.values, MEANINGS)


def samples(text: bytes, parse: Any = parse_text) -> dict[str, float]:
    """Return what a scrape brought, as Prometheus reads it."""
    return {
        f"{sample.name}{json.dumps(sample.labels, sort_keys=True)}": sample.value
        for family in parse(text.decode())
        for sample in family.samples
    }


@pytest.mark.parametrize(
    ("group", "name", "expected"),
    [
        ("producer-metrics", "record-send-total", "kafka_producer_producer_metrics_record_send_total"),
        ("consumer-fetch-manager-metrics", "records-lag", "kafka_consumer_consumer_fetch_manager_metrics_records_lag"),
        ("admin-client-metrics", "connection-count", "kafka_admin_client_admin_client_metrics_connection_count"),
        ("client-node-metrics", "request-rate", "kafka_client_client_node_metrics_request_rate"),
    ],
)
def test_names_are_those_that_the_jmx_exporter_gives_to_javas(group: str, name: str, expected: str) -> None:
    assert prometheus_name(MetricName(name, group)) == expected


@pytest.mark.parametrize(("accept", "parse"), [("text/plain", parse_text), (OPENMETRICS, parse_openmetrics)])
def test_both_formats_say_the_same(accept: str, parse: Any) -> None:
    body, content_type = exposition(accept, [Client('c\n"\\')])
    assert content_type.startswith(accept.split(";")[0])
    assert samples(body, parse) == {
        f"kafka_producer_producer_metrics_record_send_total{json.dumps({'client_id': 'c' + chr(10) + chr(34) + chr(92)})}": 7,
        "kafka_producer_producer_node_metrics_request_rate" + json.dumps({"client_id": 'c\n"\\', "node_id": "node-1"}): 0.5,
    }, "an average of nothing is left out"


def test_totals_are_counters_and_everything_has_its_documented_meaning() -> None:
    text = exposition("", [Client()]).body.decode()
    assert "# HELP kafka_producer_producer_metrics_record_send_total Records sent, again if need be, in all\n" in text
    assert "# TYPE kafka_producer_producer_metrics_record_send_total counter\n" in text
    assert "# TYPE kafka_producer_producer_node_metrics_request_rate gauge\n" in text


def test_two_clients_of_one_id_and_kind_do_not_spoil_the_scrape() -> None:
    clients = [Client("c"), Client("c"), Client("c", "consumer")]
    found = samples(exposition("", clients).body)
    ids = sorted((name for name in found if "record_send_total" in name), key=lambda name: name.replace("#", "~"))
    assert ids == [
        'kafka_consumer_consumer_metrics_record_send_total{"client_id": "c"}',
        'kafka_producer_producer_metrics_record_send_total{"client_id": "c"}',
        'kafka_producer_producer_metrics_record_send_total{"client_id": "c#2"}',
    ]


def test_a_client_that_is_closed_or_dropped_disappears() -> None:
    kept, closed, dropped = Client("kept"), Client("closed"), Client("dropped")
    collector = KafkaCollector([kept, closed, dropped])
    closed.closed = True
    del dropped
    ids = {sample.labels["client_id"] for family in collector.collect() for sample in family.samples}
    assert ids == {"kept"}


def test_nothing_is_computed_before_a_scrape() -> None:
    client = Client()
    registry = CollectorRegistry(auto_describe=True)
    registry.register(KafkaCollector([client]))
    assert client.asked == 0
    assert registry.get_sample_value("kafka_producer_producer_metrics_record_send_total", {"client_id": "c"}) == 7
    assert client.asked == 1


def test_no_two_metrics_have_one_name() -> None:
    names = [prometheus_name(MetricName(name, group)) for group, name in MEANINGS]
    assert len(set(names)) == len(names)


def queries() -> list[str]:
    dashboard = json.loads(DASHBOARD.read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]


def test_every_query_of_the_dashboard_names_metrics_that_are_exported() -> None:
    exported = {prometheus_name(MetricName(name, group)) for group, name in MEANINGS}
    asked = {name for query in queries() for name in re.findall(r"\bkafka_\w+", query)}
    assert asked <= exported, asked - exported
    assert all(re.search(r"\bkafka_\w+", query) for query in queries())
    for subject in ("records_lag", "record_send_total", "record_error_total", "latency_avg", "buffer_available_bytes"):
        assert any(subject in name for name in asked), subject


def test_every_rate_of_the_dashboard_is_of_a_counter() -> None:
    for query in queries():
        for name in re.findall(r"(?:rate|increase)\((\w+)", query):
            assert name.endswith("_total"), query
        if re.search(r"_total\b", query):
            assert re.search(r"(?:rate|increase)\(", query), query
