"""The embedded broker asks for metrics and takes them as Kafka's does (KIP-714)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from broker_kit import Bench
from levada.broker.cluster.telemetry import NO_ID
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from levada.protocol.messages.push_telemetry import PushTelemetryRequest
from levada.protocol.otlp import Payload, Point, encode
from levada.record.compression import Codec, compress

METRICS = encode(Payload([Point("org.apache.kafka.x", 1.0)], 5))


class Asking:
    """A client without levada's client. bench: a node of its own."""

    def __init__(self, **settings: Any) -> None:
        self.bench = Bench(client_telemetry=True, **settings)
        self.telemetry = self.bench.node.cluster.telemetry
        self.telemetry.subscribe(["org.apache.kafka."], 1_000, delta=True)
        self.client = self.bench.client()

    def ask(self, known: UUID = NO_ID) -> Any:
        return self.client.ask(GetTelemetrySubscriptionsRequest(client_instance_id=known), 0)

    def push(self, told: Any, metrics: bytes = METRICS, **fields: Any) -> int:
        request = PushTelemetryRequest(
            client_instance_id=told.client_instance_id, subscription_id=told.subscription_id, metrics=metrics, **fields
        )
        code: int = self.client.ask(request, 0).error_code
        return code


@pytest.fixture
def asking() -> Asking:
    return Asking()


def test_a_broker_without_a_plugin_does_not_offer_telemetry() -> None:
    offered = {True: {71, 72}, False: set()}
    for has_plugin, keys in offered.items():
        answer = (
            Bench(client_telemetry=has_plugin).client().ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
        )
        assert {entry.api_key for entry in answer.api_keys} & {71, 72} == keys


def test_a_client_is_given_an_id_and_keeps_it(asking: Asking) -> None:
    told = asking.ask()
    assert told.client_instance_id != NO_ID
    assert (told.requested_metrics, told.push_interval_ms, told.delta_temporality) == (["org.apache.kafka."], 1_000, True)
    assert (told.accepted_compression_types, told.telemetry_max_bytes) == ([4, 3, 1, 2], 1_048_576)
    asking.bench.advance(1_000)
    again = asking.ask(told.client_instance_id)
    assert (again.client_instance_id, again.subscription_id) == (told.client_instance_id, told.subscription_id)
    assert asking.ask().client_instance_id != told.client_instance_id


@pytest.mark.parametrize("codec", list(Codec))
def test_what_is_pushed_is_kept_uncompressed(asking: Asking, codec: Codec) -> None:
    assert asking.push(asking.ask(), bytes(compress(codec, METRICS)), compression_type=codec) == 0
    (pushed,) = asking.telemetry.pushed
    assert (pushed.metrics, pushed.codec, pushed.terminating) == (METRICS, codec, False)


def test_asking_and_pushing_too_often_is_throttled(asking: Asking) -> None:
    told = asking.ask()
    assert asking.ask(told.client_instance_id).error_code == 89
    assert asking.push(told) == 0
    assert asking.push(told) == 89
    assert asking.push(told, terminating=True) == 0
    assert asking.push(told, terminating=True) == 42
    assert len(asking.telemetry.pushed) == 2


def test_a_subscription_that_has_changed_is_asked_for_at_once(asking: Asking) -> None:
    told = asking.ask()
    asking.telemetry.subscribe([], 1_000, delta=True)
    assert asking.push(told) == 117
    assert asking.ask(told.client_instance_id).requested_metrics == []


def test_what_cannot_be_taken_is_refused(asking: Asking) -> None:
    told = asking.ask()
    for code, metrics, codec in ((76, METRICS, 9), (87, METRICS, 4), (118, bytes(1_048_577), 0)):
        asking.bench.advance(1_000)
        assert asking.push(told, metrics, compression_type=codec) == code
    told.client_instance_id = NO_ID
    assert asking.push(told) == 42
    assert asking.telemetry.pushed == []
