"""Defaults that are a decision, as docs/requirements names them."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from levada.api.engine_setup import settings_for_engine
from levada.client.engine import Engine, EngineSettings
from levada.client.metadata.metadata import Metadata
from levada.client.metadata.metadata_updater import MetadataUpdater
from levada.client.network.network_client import NetworkClient
from levada.config import ClientConfig, ConsumerConfig, ProducerConfig
from levada.consumer.fetch.fetch_cursor import ReadOptions
from levada.consumer.fetch.fetch_request import FetchSettings
from levada.consumer.settings import ConsumerSettings
from levada.net.selector import Selector
from levada.producer.append.partitioning import Partitioning
from levada.producer.append.record_accumulator import AccumulatorSettings, RecordAccumulator
from levada.producer.core import ProducerCore
from levada.producer.send.sender import SenderSettings
from levada.producer.settings import ProducerSettings

SERVERS = {"bootstrap.servers": "localhost:9092"}


def test_C22_linger_is_that_of_kafka_4() -> None:
    assert ProducerConfig.parse(SERVERS).linger_ms == 5


def test_C16_the_producer_is_idempotent_waits_for_all_replicas_and_retries() -> None:
    config = ProducerConfig.parse(SERVERS)
    assert (config.enable_idempotence, config.acks, config.retries) == (True, -1, 2_147_483_647)
    assert config.max_in_flight_requests_per_connection == 5


def test_C23_a_client_that_lost_its_cluster_begins_again() -> None:
    assert ProducerConfig.parse(SERVERS).metadata_recovery_strategy == "rebootstrap"
    assert ConsumerConfig.parse(SERVERS).metadata_recovery_strategy == "rebootstrap"


def test_D19_how_long_metadata_may_fail_is_a_setting() -> None:
    assert ProducerConfig.parse(SERVERS).metadata_recovery_rebootstrap_trigger_ms == 300_000
    config = ClientConfig.parse(SERVERS, metadata_recovery_rebootstrap_trigger_ms=5_000)
    assert settings_for_engine(config, "c").rebootstrap_trigger_ms == 5_000


COMPONENTS = [
    *(Engine, EngineSettings, NetworkClient, Metadata, MetadataUpdater, Selector),
    *(ProducerCore, ProducerSettings, RecordAccumulator, AccumulatorSettings, Partitioning, SenderSettings),
    *(ConsumerSettings, FetchSettings, ReadOptions),
]
NO_SETTINGS = {"transport", "lookup", "poll", "waiter", "wake"}


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.__name__)
def test_only_a_configuration_has_defaults(component: Any) -> None:
    parameters = inspect.signature(component).parameters.values()
    assert [p.name for p in parameters if p.default is not p.empty and p.name not in NO_SETTINGS] == []
