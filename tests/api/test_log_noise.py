"""What a program that configures no logging finds on stderr: each warning once, and nothing that is none."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import pytest

import levada as lv
from invalid_peers import closed_port
from levada.testing import EmbeddedKafka
from log_lines import said

NETWORK = "levada.client.network.network_client"


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_closed_idle_connection_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "levada")
    with EmbeddedKafka() as kafka:
        admin = lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers, reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000)
        admin.list_topics()
    wait_for(lambda: "the broker closed the connection" in caplog.text or "the broker reset the connection" in caplog.text)
    admin.close()
    closed = [record for record in caplog.records if record.name == NETWORK and "the connection" in record.getMessage()]
    # On a busy machine there are two connections: to the bootstrap address (node -1), and to node 1.
    assert [record.levelname for record in closed] in (["INFO"], ["INFO", "INFO"])


def test_a_listener_that_wants_a_login_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """Its connections are set up each time, and end at the first request."""
    with EmbeddedKafka(users={"ana": "p"}) as kafka:
        admin = lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers, reconnect_backoff_ms=10, reconnect_backoff_max_ms=20)
        with admin, pytest.raises(lv.errors.TimeoutError, match="does this listener want a login"):
            admin.list_topics(timeout=0.5)
    (warning,) = said(caplog.records, logging.WARNING)
    assert "does this listener want a login (SASL_PLAINTEXT)?" in warning


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_client_that_does_not_wait_says_in_its_error_what_a_warning_would(caplog: pytest.LogCaptureFixture, is_idempotent: bool) -> None:
    address = closed_port()
    with lv.KafkaProducer(bootstrap_servers=address, bootstrap_wait=False, enable_idempotence=is_idempotent) as producer:
        for _ in range(2):
            with pytest.raises(lv.errors.BootstrapError, match=f"no broker could be reached\n  {address}  connection refused"):
                producer.partitions_for("orders")
    assert said(caplog.records, logging.WARNING) == []


def test_a_client_that_does_not_wait_warns_of_dead_addresses_once_another_one_answers(caplog: pytest.LogCaptureFixture) -> None:
    dead = [closed_port() for _ in range(9)]
    with EmbeddedKafka() as kafka, lv.KafkaAdmin(bootstrap_servers=[*dead, kafka.bootstrap_servers], bootstrap_wait=False) as admin:
        admin.list_topics()
    refused = ": connection refused: nothing listens there; is the broker up, and is the port right?"
    # The first address is chosen at random, and one in ten works.
    assert {text.partition(refused)[0] for text in said(caplog.records, logging.WARNING)} <= set(dead)


def test_a_dead_broker_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    address = closed_port()
    with lv.KafkaConsumer(bootstrap_servers=address, reconnect_backoff_ms=10, reconnect_backoff_max_ms=20) as consumer:
        consumer.assign([lv.TopicPartition("orders", 0)])
        for _ in range(3):
            with pytest.raises(lv.errors.BootstrapError):
                consumer.end_offsets([lv.TopicPartition("orders", 0)], timeout=0.3)
    warnings = said(caplog.records, logging.WARNING)
    assert warnings == [f"{address}: connection refused: nothing listens there; is the broker up, and is the port right?"]
