"""Telemetry (KIP-714) on sockets, through both APIs: the embedded broker, and real ones without a plugin for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import levada as lv
from levada import aio
from levada.errors import IllegalStateError, KafkaError
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.testing import EmbeddedKafka

PATIENCE_S = 30
SENT = "org.apache.kafka.producer.record.send.total"


@pytest.fixture(scope="module")
def wanting() -> Iterator[EmbeddedKafka]:
    """A broker that wants all metrics, often."""
    with EmbeddedKafka(client_telemetry=True) as kafka:
        kafka.subscribe_metrics("", interval_ms=100)
        yield kafka


def pushed_by(kafka: EmbeddedKafka, client_id: str) -> list[Any]:
    return [push for push in kafka.pushed_metrics() if push.client_id == client_id]


def test_K25_a_blocking_producer_pushes_by_itself_and_at_its_end(wanting: EmbeddedKafka) -> None:
    settings: dict[str, Any] = {"bootstrap_servers": wanting.bootstrap_servers, "enable_metrics_push": True}
    with lv.KafkaProducer(client_id="blocking", **settings) as producer:
        instance_id = producer.client_instance_id()
        producer.send("t", b"v").result(timeout=PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while not pushed_by(wanting, "blocking") and time.monotonic() < deadline:
            producer.partitions_for("t")
    pushed = pushed_by(wanting, "blocking")
    assert sum(push.value(SENT) for push in pushed) == 1
    assert [push.terminating for push in pushed] == [False] * (len(pushed) - 1) + [True]
    assert len(pushed) > 1
    assert {push.client_instance_id for push in pushed} == {instance_id}
    assert pushed[-1].point("org.apache.kafka.producer.select.total").is_sum


@pytest.mark.parametrize("kind", ["KafkaProducer", "KafkaConsumer", "KafkaAdmin", "KafkaClient"])
def test_K25_every_client_of_both_apis_has_an_id_and_tells_its_end(wanting: EmbeddedKafka, kind: str) -> None:
    settings = {"bootstrap_servers": wanting.bootstrap_servers, "enable_metrics_push": True}
    with getattr(lv, kind)(client_id=f"sync-{kind}", **settings) as client:
        given = {client.client_instance_id(timeout=PATIENCE_S)}

    async def on_asyncio() -> None:
        async with getattr(aio, kind)(client_id=f"aio-{kind}", **settings) as client:
            given.add(await client.client_instance_id(timeout=PATIENCE_S))

    asyncio.run(on_asyncio())
    ended = [pushed_by(wanting, f"{api}-{kind}")[-1] for api in ("sync", "aio")]
    assert all(push.terminating for push in ended)
    assert {push.client_instance_id for push in ended} == given
    assert len(given) == 2


def test_K25_a_cluster_without_a_plugin_gives_no_id_and_is_left_alone(any_kafka: Any) -> None:
    with lv.KafkaClient(bootstrap_servers=any_kafka.bootstrap_servers) as client:
        offered = client.request(ApiVersionsRequest(client_software_name="levada", client_software_version="1"))
        assert {entry.api_key for entry in offered.api_keys} & {71, 72} == set()
    with lv.KafkaAdmin(bootstrap_servers=any_kafka.bootstrap_servers, enable_metrics_push=True) as admin:
        with pytest.raises(TimeoutError, match=r"within 0\.5 s: .*GetTelemetrySubscriptions"):
            admin.client_instance_id(timeout=0.5)
        admin.list_topics(timeout=PATIENCE_S)


def test_K25_without_the_option_there_is_no_id(any_kafka: Any) -> None:
    with (
        lv.KafkaConsumer(bootstrap_servers=any_kafka.bootstrap_servers) as consumer,
        pytest.raises(IllegalStateError, match=r"telemetry is off; set enable\.metrics\.push=true"),
    ):
        consumer.client_instance_id(timeout=1)


@pytest.mark.parametrize("wrong", [-1, float("nan")])
def test_a_wrong_timeout_is_refused(wanting: EmbeddedKafka, wrong: float) -> None:
    with (
        lv.KafkaAdmin(bootstrap_servers=wanting.bootstrap_servers, enable_metrics_push=True) as admin,
        pytest.raises(ValueError, match="timeout"),
    ):
        admin.client_instance_id(timeout=wrong)


def test_a_broker_that_does_not_offer_telemetry_cannot_be_subscribed(embedded: Any) -> None:
    with pytest.raises(IllegalStateError, match="client_telemetry=True"):
        embedded.subscribe_metrics("")
    assert embedded.pushed_metrics() == []


def test_K25_drivers_count_how_long_they_wait_and_work(wanting: EmbeddedKafka) -> None:
    def check(read: Callable[[], lv.Metrics]) -> None:
        metrics = read()
        assert metrics.value("select-total") > 0
        assert metrics.value("io-time-ns-total") > metrics.value("io-time-ns-avg") > 0
        assert metrics.value("io-wait-time-ns-total") >= metrics.value("io-wait-time-ns-avg") > 0
        assert 0 < metrics.value("io-ratio") < 1
        assert 0 < metrics.value("io-wait-ratio") < 1

    with lv.KafkaAdmin(bootstrap_servers=wanting.bootstrap_servers) as admin:
        admin.list_topics()
        check(admin.metrics)

    async def on_asyncio() -> None:
        async with aio.KafkaAdmin(bootstrap_servers=wanting.bootstrap_servers) as admin:
            await admin.list_topics()
            check(admin.metrics)

    asyncio.run(on_asyncio())


def test_a_client_whose_broker_has_gone_ends_without_waiting_for_its_last_push() -> None:
    with EmbeddedKafka(client_telemetry=True) as kafka:
        kafka.subscribe_metrics("")
        admin = lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers, enable_metrics_push=True)
        admin.client_instance_id(timeout=PATIENCE_S)
    began = time.monotonic()
    admin.close()
    assert time.monotonic() - began < 5
    with pytest.raises(KafkaError):
        admin.client_instance_id(timeout=1)
