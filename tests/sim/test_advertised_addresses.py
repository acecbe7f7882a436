"""Brokers that advertise addresses which the client cannot reach, as behind a tunnel: only the bootstrap address works."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest

from levada.broker.node.node import BrokerNode
from levada.errors import TimeoutError
from levada.protocol.messages.metadata import MetadataRequest
from levada.testing import Simulation
from levada.types import NewTopic, TopicPartition
from log_lines import said
from sim_kit import HOST, PORT, SimClient, broker, one_node, server

HINT = f"(advertised by {HOST}:{PORT}; check advertised.listeners)"


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=5) as sim:
        yield sim


def warnings(caplog: pytest.LogCaptureFixture, address: str) -> list[str]:
    found = said(caplog.records, logging.WARNING)
    return [text for text in found if text.startswith(f"{address}: ")]


def insist_on(client: SimClient, node: int, for_ms: int) -> None:
    """Want a connection to a node all the time, as a producer with records for it does."""
    for _ in range(for_ms // 10):
        client.network.ready(node, client.sim.now_ms)
        client.sim.advance(10)


def test_N20_an_advertised_address_that_refuses_is_tried_with_the_whole_back_off(sim: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    kafka = server(sim, {MetadataRequest: lambda frame: one_node(host="inside")})
    client = SimClient(sim, reconnect_backoff_ms=50, reconnect_backoff_max_ms=1000)
    assert client.updated()
    with caplog.at_level(logging.DEBUG, "levada.client"):
        insist_on(client, 1, for_ms=20_000)
    attempts = [line for line in said(caplog.records) if line.startswith("inside:9092: ")]
    assert 18 <= len(attempts) <= 30, "the back-off does not grow to a second"
    assert kafka.count(MetadataRequest) <= len(attempts), "more metadata requests than failures"


def test_an_advertised_address_that_refuses_is_written_once_with_who_advertised_it(
    sim: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    server(sim, {MetadataRequest: lambda frame: one_node(host="inside")})
    client = SimClient(sim)
    insist_on(client, 1, for_ms=20_000)
    (line,) = warnings(caplog, "inside:9092")
    assert line.endswith(HINT)
    assert client.network.failures()["inside:9092"].endswith(HINT)


def test_it_is_written_again_once_it_has_worked_and_no_longer_blames_the_listeners(
    sim: Simulation, caplog: pytest.LogCaptureFixture
) -> None:
    server(sim, {MetadataRequest: lambda frame: one_node(host="inside")})
    client = SimClient(sim)
    insist_on(client, 1, for_ms=5_000)
    inside = BrokerNode(host="inside", port=PORT, random=sim.random)
    sim.network.add_server(inside, "inside", PORT)
    insist_on(client, 1, for_ms=5_000)
    assert len(warnings(caplog, "inside:9092")) == 1
    sim.network.stop("inside", PORT)
    insist_on(client, 1, for_ms=5_000)
    again = warnings(caplog, "inside:9092")[1:]
    assert again
    assert len(again) == len(set(again))
    assert not any("advertised" in line for line in again)


def test_two_causes_by_turns_are_written_once_each(sim: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    client = SimClient(sim, ("first", PORT), ("second", PORT))
    sim.advance(60_000)
    assert client.network.failures()
    assert len(warnings(caplog, "first:9092")) == len(warnings(caplog, "second:9092")) == 1


def test_the_error_of_a_call_says_who_advertised_the_address(sim: Simulation) -> None:
    node = broker(sim)
    servers = f"{HOST}:{PORT}"
    with sim.admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("t")])
    node.advertise("inside", PORT)
    consumer = sim.consumer(bootstrap_servers=servers, default_api_timeout_ms=3000)
    with consumer, pytest.raises(TimeoutError, match=re.escape(HINT)):
        consumer.end_offsets([TopicPartition("t", 0)])
