"""Telemetry (KIP-714) between levada and Kafka's own classes: Java's broker takes what we push, and we take what Java's client pushes."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

import java_clients
import levada as lv
from java_kit import SOURCES, JavaProgram, compiled
from kafka_cluster import POMS
from kafka_jars import jars
from levada.broker.cluster.telemetry import NO_ID
from levada.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from levada.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from levada.protocol.messages.push_telemetry import PushTelemetryRequest
from levada.protocol.otlp import Payload, Point, decode, encode
from levada.testing import EmbeddedKafka

PATIENCE_S = 30
INTERVAL_MS = 500
PREFIX = "org.apache.kafka."
CLIENT_METRICS = 16
PLUGIN = "TelemetryPlugin"


class Pushed(NamedTuple):
    """A file of the plugin."""

    client_id: str
    client_instance_id: UUID
    is_last: bool
    payload: Payload


class RealKafka:
    """One node of Kafka 4.4 with a plugin that writes each push into a folder."""

    def __init__(self, bootstrap_servers: str, folder: Path) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._folder = folder

    def subscribe(self) -> None:
        """Want all metrics, and wait until the node knows that."""
        settings = {"metrics": PREFIX, "interval.ms": str(INTERVAL_MS)}
        configs = [AlterableConfig(name=name, value=value) for name, value in settings.items()]
        wanted = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name="all", configs=configs)
        with lv.KafkaClient(bootstrap_servers=self.bootstrap_servers) as client:
            answer = client.request(IncrementalAlterConfigsRequest(resources=[wanted]))
            assert [(one.error_code, one.error_message or "") for one in answer.responses] == [(0, "")]
            deadline = time.monotonic() + PATIENCE_S
            while not client.request(GetTelemetrySubscriptionsRequest()).requested_metrics:
                assert time.monotonic() < deadline

    def pushed(self, client_id: str) -> list[Pushed]:
        files = sorted(path for path in self._folder.iterdir() if not path.name.startswith("."))
        named = [(path.name.split("~"), path.read_bytes()) for path in files]
        return [
            Pushed(name[1], UUID(bytes=base64.urlsafe_b64decode(name[2] + "==")), name[3] == "last", decode(data))
            for name, data in named
            if name[1] == client_id
        ]


@pytest.fixture(scope="module")
def real(
    start_real_kafka: Callable[..., AbstractContextManager[Any]],
    skipped_if_unavailable: Callable[[], AbstractContextManager[None]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RealKafka]:
    folder = tmp_path_factory.mktemp("telemetry")
    with skipped_if_unavailable():
        classes = compiled(SOURCES / f"{PLUGIN}.java", jars(POMS / "pom-4.4.0.xml"))
    properties = {"metric.reporters": PLUGIN, "telemetry.folder": folder}
    with start_real_kafka("4.4.0", properties=properties, class_path=[str(classes)]) as cluster:
        kafka = RealKafka(cluster.bootstrap_servers, folder)
        kafka.subscribe()
        yield kafka


@pytest.mark.matrix
@pytest.mark.kafka
def test_K25_a_real_broker_takes_what_every_client_pushes(real: RealKafka) -> None:
    settings: dict[str, Any] = {"bootstrap_servers": real.bootstrap_servers, "enable_metrics_push": True}
    with lv.KafkaProducer(client_id="producer", **settings) as producer:
        ids = {"producer": producer.client_instance_id(timeout=PATIENCE_S)}
        producer.send("t", b"v").result(timeout=PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while len(real.pushed("producer")) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    with lv.KafkaConsumer(client_id="consumer", **settings) as consumer, lv.KafkaAdmin(client_id="admin", **settings) as admin:
        ids |= {"consumer": consumer.client_instance_id(timeout=PATIENCE_S), "admin": admin.client_instance_id(timeout=PATIENCE_S)}
    for client_id, instance_id in ids.items():
        pushed = real.pushed(client_id)
        assert {push.client_instance_id for push in pushed} == {instance_id}
        assert [push.is_last for push in pushed] == [False] * (len(pushed) - 1) + [True]
    counts = [
        point.value
        for push in real.pushed("producer")
        for point in push.payload.points
        if point.name == f"{PREFIX}producer.record.send.total"
    ]
    assert sum(counts) == 1
    assert max(len(push.payload.points) for push in real.pushed("producer")) > 50


def answers(kafka: Any) -> list[int]:
    """Ask and push rightly and wrongly; return the error codes."""
    metrics = encode(Payload([Point(f"{PREFIX}x", 1.0)], 5))
    codes = []
    with lv.KafkaClient(bootstrap_servers=kafka.bootstrap_servers) as client:
        for pause in (True, False):
            told = client.request(GetTelemetrySubscriptionsRequest())
            assert told.client_instance_id != NO_ID
            pushes: list[dict[str, Any]] = [
                {"metrics": metrics},
                {"metrics": metrics, "subscription_id": told.subscription_id + 1},
                {"metrics": metrics, "compression_type": 9},
                {"metrics": b"\xff" * 50, "compression_type": 4},
                {"metrics": bytes(1_048_577)},
                {"metrics": metrics, "client_instance_id": NO_ID},
                {"metrics": metrics, "terminating": True},
                {"metrics": metrics, "terminating": True},
            ]
            for push in pushes:
                fields = {"client_instance_id": told.client_instance_id, "subscription_id": told.subscription_id, **push}
                codes.append(client.request(PushTelemetryRequest(**fields)).error_code)
                again = client.request(GetTelemetrySubscriptionsRequest(client_instance_id=told.client_instance_id))
                codes.append(again.error_code)
                time.sleep(INTERVAL_MS / 1000 * 1.2 if pause else 0)
    return codes


@pytest.mark.matrix
@pytest.mark.kafka
def test_the_embedded_broker_answers_as_kafka_does(real: RealKafka) -> None:
    with EmbeddedKafka(client_telemetry=True) as embedded:
        embedded.subscribe_metrics(PREFIX, interval_ms=INTERVAL_MS)
        assert answers(embedded) == answers(real)


@pytest.mark.kafka
def test_javas_client_pushes_to_the_embedded_broker_under_the_names_that_ours_uses(
    java_program: Callable[[str, str], JavaProgram],
) -> None:
    with EmbeddedKafka(client_telemetry=True) as kafka:
        kafka.subscribe_metrics("", interval_ms=100)
        program = java_program("Clients", "4.4.0")
        deadline = time.monotonic() + PATIENCE_S
        while not kafka.pushed_metrics():
            assert time.monotonic() < deadline
            java_clients.write(program, kafka.bootstrap_servers, [java_clients.Record("t", 0, None, b"v")])
        of_java = kafka.pushed_metrics()
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, enable_metrics_push=True) as producer:
            producer.client_instance_id(timeout=PATIENCE_S)
            producer.send("t", b"v").result(timeout=PATIENCE_S)
        ours = kafka.pushed_metrics()[len(of_java) :]
    assert all(push.is_delta for push in of_java)
    named, known = ({name for push in pushed for name in push.names} for pushed in (ours, of_java))
    assert len(named) > 60
    assert named - known == set()
