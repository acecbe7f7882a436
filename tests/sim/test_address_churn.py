"""What is remembered of addresses goes when they leave the cluster."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from levada.base.flow import Call, Flow
from levada.client.network.connection_key import ConnectionKey, Purpose
from levada.client.setup.states import ConnectionState
from levada.errors import DisconnectError
from levada.protocol.frame import RequestFrame
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from levada.protocol.messages.produce import ProduceRequest
from levada.testing import Simulation
from levada.types import Node
from settings_kit import new_selector
from sim_kit import HOST, PORT, ScriptedServer, SimClient, one_node, server

ADDRESSES = 3000


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=1) as sim:
        yield sim


def kept(client: SimClient) -> dict[str, int]:
    network = client.network
    return {
        "connections": len(network.states),
        "failures": len(network._failures),
        "endpoints": len(network._endpoints),
        "in flight": len(network.in_flight._queues),
        "links": len(client.selectable._links),
    }


@pytest.mark.parametrize("same_id", [True, False])
def test_brokers_that_come_and_go_leave_nothing_behind(sim: Simulation, same_id: bool) -> None:
    """Each broker lives at an address where nothing listens, until the next one takes its place."""
    turn = 0

    def cluster(frame: RequestFrame) -> MetadataResponse:
        gone = MetadataResponseBroker(node_id=2 if same_id else 2 + turn, host=f"pod-{turn}", port=9092)
        return one_node(brokers=[MetadataResponseBroker(node_id=1, host=HOST, port=PORT), gone])

    server(sim, {MetadataRequest: cluster})
    client = SimClient(sim, retry_backoff_ms=1, retry_backoff_max_ms=1)
    assert client.updated()
    most: dict[str, int] = {}
    for turn in range(ADDRESSES // 10):  # noqa: B007
        client.metadata.request_update(sim.now_ms)
        assert client.updated()
        node_id = max(client.metadata.snapshot.nodes)
        for peer in (node_id, ConnectionKey(node_id, Purpose.COORDINATOR)):
            client.network.ready(peer, sim.now_ms)
        sim.advance(10)
        most = {name: max(count, most.get(name, 0)) for name, count in kept(client).items()}
    assert max(most.values()) <= 10, most
    assert set(client.network.failures()) <= {f"pod-{turn}:9092", f"pod-{turn - 1}:9092"}


@pytest.mark.parametrize("max_in_flight", [1, 5])
def test_N23_a_connection_that_works_is_used_until_it_ends_although_its_node_has_moved(sim: Simulation, max_in_flight: int) -> None:
    """Cutting it would have what is in flight sent again, and without idempotence written twice."""
    host = HOST
    silent: list[RequestFrame] = []
    old = server(sim, {MetadataRequest: lambda frame: one_node(host=host), ProduceRequest: silent.append})
    new = ScriptedServer({MetadataRequest: lambda frame: one_node(host=host)})
    sim.network.add_server(new, "kafka-new", PORT)
    client = SimClient(sim, max_in_flight=max_in_flight)
    assert client.updated()
    client.ask(MetadataRequest(), node=1)
    host = "kafka-new"
    client.metadata.request_update(sim.now_ms)
    assert client.updated()
    assert client.metadata.snapshot.nodes[1].host == host
    sent = []
    while client.network.ready(1, sim.now_ms):
        sent.append(client.network.send(1, ProduceRequest(acks=1), sim.now_ms))
        sim.advance(10)
    sim.advance(5_000)
    assert len(silent) == len(sent) == max_in_flight
    assert not any(promise.done for promise in sent)
    assert not new.connected
    for conn_id in old.connected:
        old.hang_up(conn_id)
    sim.advance(5_000)
    assert all(isinstance(promise.error, DisconnectError) for promise in sent)
    client.ask(MetadataRequest(), node=1)
    assert new.count(MetadataRequest)


def test_N23_a_connection_that_is_not_set_up_yet_is_given_up_when_its_node_has_moved(sim: Simulation) -> None:
    host = "kafka-gone"
    server(sim, {MetadataRequest: lambda frame: one_node(host=host)})
    stuck = ScriptedServer({ApiVersionsRequest: lambda frame: None})
    sim.network.add_server(stuck, host, PORT)
    client = SimClient(sim)
    assert client.updated()
    assert not client.network.ready(1, sim.now_ms)
    sim.advance(50)
    assert client.network.state(1) is ConnectionState.CHECKING_API_VERSIONS
    host = HOST
    client.metadata.rebootstrap()
    assert client.updated()
    client.ask(MetadataRequest(), node=1, timeout_s=1)
    assert len(stuck.disconnected) == 1


def test_coordinators_at_thousands_of_addresses_leave_nothing_behind(sim: Simulation) -> None:
    server(sim)
    client = SimClient(sim, retry_backoff_ms=1, retry_backoff_max_ms=1)
    assert client.updated()
    for number in range(ADDRESSES):
        key = ConnectionKey(100 + number, Purpose.COORDINATOR)
        client.network.learn_endpoint(key, Node(100 + number, f"pod-{number}", 9092))
        client.network.ready(key, sim.now_ms)
        if number % 100 == 99:
            sim.advance(10)
            client.metadata.request_update(sim.now_ms)
            assert client.updated()
    assert max(kept(client).values()) <= 10, kept(client)


def test_the_selector_keeps_no_route_to_what_is_forgotten() -> None:
    selector = new_selector(max_frame_bytes=1000)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        try:
            for conn_id in range(50):
                selector.connect(conn_id, "127.0.0.1", listener.getsockname()[1], 0)
                selector.process(selector.select(1000), 0)
                selector.forget(conn_id)
            assert not selector._routes
            assert not selector._channels
        finally:
            selector.shutdown()


def test_a_wait_for_a_node_that_left_ends_with_a_connect_error(sim: Simulation) -> None:
    server(sim)
    client = SimClient(sim)

    def asking() -> Flow[Any]:
        return (yield Call(MetadataRequest(), 9))

    promise = client.start(asking())
    sim.run_until(promise, 1000)
    assert "node 9 is not among the cluster's nodes" in str(promise.error)
