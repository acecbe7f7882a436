"""The client core's suspicious corners in virtual time: pauses, and brokers that are there and of no use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from levada.base.promise import Promise
from levada.error_codes import ErrorCode
from levada.errors import DisconnectError
from levada.protocol.frame import RequestFrame, encode_response
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse
from levada.protocol.messages.produce import ProduceRequest, ProduceResponse
from levada.testing import Simulation
from sim_kit import HOST, PORT, SPOKEN, ScriptedServer, SimClient, one_node, server, versions_reply

PRODUCE = ProduceRequest(acks=1, timeout_ms=1000)


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=5) as sim:
        yield sim


def ready(client: SimClient) -> SimClient:
    """Have a client know the cluster and be connected to node 1."""
    assert client.updated()
    assert not client.network.ready(1, client.sim.now_ms)
    client.sim.advance(50)
    assert client.network.ready(1, client.sim.now_ms)
    return client


def asked_thrice(sim: Simulation, kafka: ScriptedServer, client: SimClient) -> tuple[list[Promise[object]], list[RequestFrame]]:
    """Send three requests that the server keeps."""
    kept: list[RequestFrame] = []
    kafka.handlers[ProduceRequest] = kept.append
    promises = []
    for _ in range(3):
        promises.append(client.network.send(1, PRODUCE, sim.now_ms))
        sim.advance(10)
    assert len(kept) == 3
    return promises, kept


def stop_the_process(sim: Simulation, ms: int) -> None:
    """Let time pass for everybody but the client."""
    for _ in range(ms):
        sim.now_ms += 1
        sim.network.deliver_due()


@pytest.mark.parametrize("answered", [3, 2])
def test_N13_answers_that_came_while_the_process_stood_still_count(sim: Simulation, answered: int) -> None:
    kafka = server(sim)
    client = ready(SimClient(sim, request_timeout_ms=1000))
    promises, kept = asked_thrice(sim, kafka, client)
    for frame in kept[:answered]:
        kafka.push(kafka.connected[-1], encode_response(ProduceResponse(), frame.version, frame.correlation_id))
    sim.network.advance_servers()
    stop_the_process(sim, 5000)
    sim.advance(10)
    assert [promise.result() for promise in promises[:answered]] == [ProduceResponse()] * answered
    for promise in promises[answered:]:
        assert isinstance(promise.error, DisconnectError), "what nobody answered is late"


@pytest.mark.parametrize("rebootstrap", [True, False])
def test_D19_nodes_that_answer_everything_but_metadata_are_given_up_in_time(sim: Simulation, rebootstrap: bool) -> None:
    where = {"host": "old"}
    server(sim, {MetadataRequest: lambda frame: one_node(where["host"])})
    old = ScriptedServer({MetadataRequest: lambda frame: None})
    sim.network.add_server(old, "old", PORT)
    client = ready(SimClient(sim, request_timeout_ms=1000, rebootstrap=rebootstrap, rebootstrap_trigger_ms=5000))
    where["host"] = "new"
    client.metadata.request_update()
    assert not client.updated(4900)
    assert old.count(MetadataRequest) > 1
    assert client.network.has_usable_node(), "only time tells that it is of no use"
    assert client.updated(4000) is rebootstrap
    assert (client.metadata.snapshot.nodes[1].host == "new") is rebootstrap


@pytest.mark.parametrize("rebootstrap", [True, False])
def test_D19_a_broker_that_asks_for_it_is_left_for_the_bootstrap_addresses(sim: Simulation, rebootstrap: bool) -> None:
    where = {"host": "old"}
    server(sim, {MetadataRequest: lambda frame: one_node(where["host"])})
    refuses = MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    versions = versions_reply({**SPOKEN, 3: (0, 13)})
    old = ScriptedServer({MetadataRequest: lambda frame: refuses, ApiVersionsRequest: lambda frame: versions})
    sim.network.add_server(old, "old", PORT)
    client = ready(SimClient(sim, rebootstrap=rebootstrap))
    where["host"] = "new"
    client.metadata.request_update()
    assert client.updated(4000) is rebootstrap
    assert (client.metadata.snapshot.nodes[1].host == "new") is rebootstrap


def test_D19_how_long_they_are_given_is_a_setting(sim: Simulation) -> None:
    where = {"host": "old"}
    server(sim, {MetadataRequest: lambda frame: one_node(where["host"])})
    sim.network.add_server(ScriptedServer({MetadataRequest: lambda frame: None}), "old", PORT)
    client = sim.client(
        bootstrap_servers=f"{HOST}:{PORT}",
        request_timeout_ms=1000,
        metadata_max_age_ms=1000,
        metadata_recovery_rebootstrap_trigger_ms=5000,
    )
    client.api_versions()
    where["host"] = "new"
    sim.advance(20_000)
    assert client._engine.metadata.snapshot.nodes[1].host == "new"
