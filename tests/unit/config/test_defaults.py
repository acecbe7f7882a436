"""Defaults that are a decision, as docs/requirements names them."""

from __future__ import annotations

from levada.config import ConsumerConfig, ProducerConfig

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
