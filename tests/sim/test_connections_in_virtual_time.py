"""The network client against scripted servers and the embedded broker's node, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from levada.client.setup.states import ConnectionState
from levada.error_codes import ErrorCode
from levada.errors import (
    BootstrapError,
    ConnectError,
    DisconnectError,
    IllegalStateError,
    ProtocolError,
    TimeoutError,
    UnsupportedVersionError,
)
from levada.net.selectable import Ending
from levada.protocol.frame import RequestFrame, encode_response
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.fetch import FetchRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from levada.protocol.messages.produce import ProduceRequest, ProduceResponse
from levada.protocol.schema import Response
from levada.testing import Simulation
from levada.testing.sim_network import SimSelectable
from sim_kit import HOST, PORT, ScriptedServer, SimClient, asking, broker, one_node, server, versions_reply

PRODUCE = ProduceRequest(acks=1, timeout_ms=1000)


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=7) as sim:
        yield sim


def ready(client: SimClient, node_id: int = 1) -> SimClient:
    """Have a client know the cluster and be connected to a node."""
    assert client.updated()
    assert not client.network.ready(node_id, client.sim.now_ms)
    client.sim.advance(50)
    assert client.network.ready(node_id, client.sim.now_ms)
    return client


def send(client: SimClient, request: Any = PRODUCE, node_id: int = 1, **options: Any) -> Any:
    return client.network.send(node_id, request, client.sim.now_ms, **options)


# Handshake


def test_H8_ApiVersions_comes_first_on_every_connection(sim: Simulation) -> None:
    kafka = server(sim)
    ready(SimClient(sim))
    apis = [frame.request.NAME for frame in kafka.asked]
    assert apis == ["ApiVersions", "Metadata", "ApiVersions"]
    first = kafka.asked[0].request
    assert isinstance(first, ApiVersionsRequest)
    assert first.client_software_name == "levada"


def test_M_B11_a_broker_of_the_first_kind_is_asked_again_with_version_0(sim: Simulation) -> None:
    def old(frame: RequestFrame) -> Response | bytes:
        if frame.version:
            return encode_response(versions_reply({}, error_code=35), 0, frame.correlation_id)
        return versions_reply({3: (0, 1), 18: (0, 0)})

    kafka = server(sim, {ApiVersionsRequest: old})
    client = ready(SimClient(sim))
    assert [frame.version for frame in kafka.asked] == [ApiVersionsRequest.MAX_VERSION, 0, 1, ApiVersionsRequest.MAX_VERSION, 0]
    assert client.network.version_for(1, MetadataRequest) == 1


def test_TR24_a_broker_that_never_answers_ApiVersions_is_given_up_in_time(sim: Simulation) -> None:
    server(sim, {ApiVersionsRequest: lambda frame: None})
    client = SimClient(sim, request_timeout_ms=5000)
    with pytest.raises(BootstrapError, match="accepts connections but does not answer ApiVersions") as raised:
        client.ask(MetadataRequest(), timeout_s=4)
    assert "security.protocol=PLAINTEXT" in str(raised.value)
    sim.advance(2000)
    assert client.network.state(-1) is not ConnectionState.READY
    assert client.network.losses(-1) == 1


def test_H9_a_broker_that_refuses_ApiVersions_for_good_is_named(sim: Simulation) -> None:
    server(sim, {ApiVersionsRequest: lambda frame: versions_reply({}, error_code=31)})
    with pytest.raises(BootstrapError, match="refused ApiVersions: CLUSTER_AUTHORIZATION_FAILED"):
        SimClient(sim).ask(MetadataRequest(), timeout_s=3)


def test_H11_a_request_without_a_shared_version_fails_without_being_sent(sim: Simulation) -> None:
    kafka = server(sim)
    client = ready(SimClient(sim))
    promise = send(client, PRODUCE, min_version=13)
    assert not promise.done
    sim.advance(0)
    assert isinstance(promise.error, UnsupportedVersionError)
    assert "kafka:9092" in str(promise.error)
    assert kafka.count(ProduceRequest) == 0
    with pytest.raises(UnsupportedVersionError, match="does not know Fetch"):
        client.network.version_for(1, FetchRequest)


# In flight


def quiet(frame: RequestFrame) -> None:
    return None


def test_N2_no_more_requests_than_allowed_are_in_flight(sim: Simulation) -> None:
    server(sim, {ProduceRequest: quiet})
    client = ready(SimClient(sim, max_in_flight=3))
    for _ in range(3):
        send(client)
        sim.advance(1)
    with pytest.raises(IllegalStateError, match="not ready"):
        send(client)
    assert client.network.in_flight_count(1) == 3
    assert not client.network.ready(1, sim.now_ms)


def test_N2_nothing_is_sent_while_a_request_is_not_written_out(sim: Simulation) -> None:
    server(sim, {ProduceRequest: quiet})
    client = ready(SimClient(sim, max_in_flight=100))
    for _ in range(4):  # One in four does not fit into the simulated socket at once.
        if not client.network.ready(1, sim.now_ms):
            break
        send(client)
    with pytest.raises(IllegalStateError, match="not ready"):
        send(client)
    sim.advance(0)
    assert client.network.ready(1, sim.now_ms)


def test_N6_a_request_without_answer_is_done_when_it_is_written(sim: Simulation) -> None:
    kafka = server(sim, {ProduceRequest: quiet})
    client = ready(SimClient(sim))
    waiting = send(client)
    sim.advance(1)
    done = send(client, expect_response=False)
    sim.advance(0)
    assert (done.done, done.result(), waiting.done) == (True, None, False)
    sim.advance(10)
    assert kafka.count(ProduceRequest) == 2


def test_N13_one_late_answer_ends_the_connection_and_all_its_requests(sim: Simulation) -> None:
    server(sim, {ProduceRequest: quiet})
    client = ready(SimClient(sim, request_timeout_ms=30_000))
    short = send(client, timeout_ms=2000)
    sim.advance(1)
    long = send(client)
    sim.advance(1998)
    assert not short.done
    sim.advance(1)
    for promise in (short, long):
        assert isinstance(promise.error, DisconnectError)
        assert promise.error.timed_out
        assert "Produce v12 was not answered within 2000 ms" in str(promise.error)
        assert "kafka:9092 (node 1)" in str(promise.error)


def test_M_B8_throttled_time_does_not_count_and_nothing_is_sent_meanwhile(sim: Simulation) -> None:
    answers = iter([ProduceResponse(throttle_time_ms=5000)])
    server(sim, {ProduceRequest: lambda frame: next(answers, None)})
    client = ready(SimClient(sim))
    first = send(client, timeout_ms=3000)
    sim.advance(1)
    second = send(client, timeout_ms=3000)
    sim.advance(20)
    assert first.done
    assert not client.network.ready(1, sim.now_ms)
    assert 4900 < client.network.poll_delay_ms(1, sim.now_ms) <= 5000
    sim.advance(7000)
    assert not second.done
    assert client.network.ready(1, sim.now_ms)
    sim.advance(1000)
    assert isinstance(second.error, DisconnectError)


@pytest.mark.parametrize(("version", "pause_ms"), [(4, 5000), (2, 5000), (1, 0)])
def test_M_B8_a_broker_that_throttles_the_handshake_is_left_alone(sim: Simulation, version: int, pause_ms: int) -> None:
    """From version 2 on it has not waited itself (KIP-219)."""
    answers = iter([versions_reply({18: (0, version)}, error_code=ErrorCode.UNSUPPORTED_VERSION)] if version < 4 else [])
    kafka = server(sim)
    kafka.handlers[ApiVersionsRequest] = lambda frame: next(answers, versions_reply(throttle_time_ms=5000))
    client = SimClient(sim)
    began_ms = sim.now_ms
    assert client.updated()
    assert pause_ms <= sim.now_ms - began_ms < pause_ms + 500


@pytest.mark.parametrize("offset", [1, -1])
def test_M_B12_a_wrong_correlation_id_ends_the_connection(sim: Simulation, offset: int) -> None:
    server(sim, {ProduceRequest: lambda frame: encode_response(ProduceResponse(), frame.version, frame.correlation_id + offset)})
    client = ready(SimClient(sim))
    promise = send(client)
    sim.advance(10)
    assert isinstance(promise.error, DisconnectError)
    assert "correlation id" in str(promise.error)
    assert client.network.losses(1) == 1


def test_M_B12_a_response_to_nothing_ends_the_connection(sim: Simulation) -> None:
    kafka = server(sim)
    client = ready(SimClient(sim))
    kafka.push(kafka.connected[-1], encode_response(ProduceResponse(), 9, 99))
    sim.advance(10)
    assert client.network.losses(1) == 1
    assert "nothing was asked" in client.network.failures()["kafka:9092"]


def test_an_answer_that_cannot_be_read_fails_its_request_and_ends_the_connection(sim: Simulation) -> None:
    def garbage(frame: RequestFrame) -> bytes:
        body = frame.correlation_id.to_bytes(4, "big") + b"\xff" * 7
        return len(body).to_bytes(4, "big") + body

    server(sim, {ProduceRequest: garbage})
    client = ready(SimClient(sim))
    broken = send(client)
    sim.advance(1)
    behind = send(client)
    sim.advance(1)
    assert isinstance(broken.error, ProtocolError)
    assert isinstance(behind.error, DisconnectError)


def test_N15_disconnect_rejects_what_is_in_flight_with_the_next_poll(sim: Simulation) -> None:
    server(sim, {ProduceRequest: quiet})
    client = ready(SimClient(sim))
    promise = send(client)
    client.network.disconnect(1, sim.now_ms)
    assert not promise.done
    sim.advance(0)
    assert isinstance(promise.error, DisconnectError)
    assert not promise.error.timed_out
    sim.advance(100)
    assert not client.network.ready(1, sim.now_ms)
    sim.advance(100)
    assert client.network.ready(1, sim.now_ms)


def test_a_connection_can_be_broken_before_it_is_established(sim: Simulation) -> None:
    server(sim)
    client = sim.network.selectable()
    client.connect("served", HOST, PORT, sim.now_ms)
    client.connect("not served", "nowhere", 1, sim.now_ms)
    sim.network.disconnect(HOST, PORT)
    sim.network.stop("nowhere", 1)
    sim.advance(10)
    events = client.process(None, sim.now_ms)
    assert {conn_id: ending.ending for conn_id, ending in events.disconnected.items()} == {
        "served": Ending.RESET,
        "not served": Ending.REFUSED,
    }


def test_N10_a_failing_callback_does_not_stop_the_others(sim: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    server(sim, {ProduceRequest: lambda frame: ProduceResponse()})
    client = ready(SimClient(sim))
    first = send(client)
    first.on_done(lambda promise: 1 / 0)
    sim.advance(1)
    second = send(client)
    sim.advance(10)
    assert first.done
    assert second.done
    assert "bug in levada" in caplog.text


# Reconnecting


def attempts(sim: Simulation) -> list[int]:
    return [at_ms for at_ms, _ in sim.network.connections_made]


def test_M_B9_connection_attempts_back_off_exponentially(sim: Simulation) -> None:
    SimClient(sim)
    sim.advance(20_000)
    gaps = [later - earlier for earlier, later in pairwise(attempts(sim))]
    assert 40 <= gaps[0] <= 70
    assert all(gap >= 750 for gap in gaps[6:])
    assert 15 <= len(gaps) <= 40


@pytest.mark.parametrize("api", ["ApiVersions", "Metadata"])
def test_M_B9_a_broker_that_hangs_up_at_a_step_is_not_hammered(sim: Simulation, api: str) -> None:
    kafka = broker(sim)
    kafka.faults.disconnect(api)
    for _ in range(40):
        kafka.faults.disconnect(api)
    client = SimClient(sim)
    sim.advance(15_000)
    assert len(attempts(sim)) <= (60 if api == "ApiVersions" else 250)
    kafka.faults.clear()
    assert client.updated(3000)


def test_TR25_a_broker_that_accepts_and_drops_backs_off_too(sim: Simulation) -> None:
    kafka = server(sim)
    kafka.handlers[ApiVersionsRequest] = lambda frame: kafka.hang_up(kafka.connected[-1])
    client = SimClient(sim)
    sim.advance(20_000)
    assert len(kafka.connected) <= 40
    assert "closed the connection before it answered ApiVersions" in client.network.failures()["kafka:9092"]


def test_N14_after_a_disconnect_the_client_comes_back(sim: Simulation) -> None:
    broker(sim)
    client = ready(SimClient(sim))
    sim.network.stop(HOST, PORT)
    sim.advance(30_000)
    assert "connection refused" in client.network.failures()["kafka:9092"]
    sim.network.start(HOST, PORT)
    assert isinstance(client.ask(MetadataRequest(), timeout_s=5), MetadataResponse)
    assert client.network.failures() == {}


def test_N17_a_blackhole_is_given_up_after_the_setup_timeout(sim: Simulation) -> None:
    sim.network.blackhole(HOST, PORT)
    client = SimClient(sim, connection_setup_timeout_ms=1000, connection_setup_timeout_max_ms=4000)
    sim.advance(1300)
    assert client.network.losses(-1) == 1
    assert "no answer to the connection attempt" in client.network.failures()["kafka:9092"]
    broker(sim)
    sim.network.start(HOST, PORT)
    assert client.updated(5000)


def test_N17_a_handshake_of_tls_that_does_not_end_is_told_as_that(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    sim.network.blackhole(HOST, PORT)
    monkeypatch.setattr(SimSelectable, "ending_if_late", lambda *_: Ending.HANDSHAKE_TIMED_OUT)
    client = SimClient(sim, connection_setup_timeout_ms=1000, connection_setup_timeout_max_ms=4000)
    for passed_ms in (500, 800):
        sim.advance(passed_ms)
        assert "the handshake of TLS did not end" in client.network.failures()["kafka:9092"]


def test_M_B10_a_blackhole_in_mid_flight_times_out_and_recovers(sim: Simulation) -> None:
    broker(sim)
    client = ready(SimClient(sim, request_timeout_ms=5000))
    sim.network.blackhole(HOST, PORT)
    promise = client.network.send(1, MetadataRequest(), sim.now_ms)
    sim.advance(5001)
    assert isinstance(promise.error, DisconnectError)
    assert promise.error.timed_out
    sim.network.start(HOST, PORT)
    assert isinstance(client.ask(MetadataRequest(), timeout_s=30), MetadataResponse)


@pytest.mark.parametrize("seed", range(5))
def test_M_B13_one_byte_at_a_time_changes_nothing(seed: int) -> None:
    with Simulation(seed, latency_ms=(0, 20)) as sim:
        sim.network.chunk_bytes = 1
        broker(sim)
        client = SimClient(sim)
        client.metadata.add_topic("t", sim.now_ms)
        assert isinstance(client.ask(MetadataRequest()), MetadataResponse)
        assert client.updated()


# Least loaded node


def test_N26_the_least_loaded_ready_node_wins(sim: Simulation) -> None:
    brokers = [{"node_id": node_id, "host": f"kafka{node_id}", "port": PORT} for node_id in (1, 2, 3)]
    reply = one_node(brokers=[MetadataResponseBroker(**fields) for fields in brokers])  # type: ignore[arg-type]
    kafka = ScriptedServer({MetadataRequest: lambda frame: reply, ProduceRequest: quiet})
    for host in (HOST, "kafka1", "kafka2", "kafka3"):
        sim.network.add_server(kafka, host, PORT)
    client = SimClient(sim)
    assert client.updated()
    assert client.network.least_loaded_node(sim.now_ms) is not None
    for node_id in (1, 2):
        client.network.ready(node_id, sim.now_ms)
    sim.advance(50)
    send(client, node_id=1)
    sim.advance(1)
    chosen = {client.network.least_loaded_node(sim.now_ms) for _ in range(20)}
    assert {node.id for node in chosen if node} == {2}


# Metadata over the network


def test_M_B14_a_node_that_moves_to_another_host_is_followed(sim: Simulation) -> None:
    where = {"host": HOST}
    kafka = server(sim, {MetadataRequest: lambda frame: one_node(where["host"]), ProduceRequest: lambda frame: ProduceResponse()})
    sim.network.add_server(kafka, "elsewhere", PORT)
    client = ready(SimClient(sim))
    where["host"] = "elsewhere"
    client.metadata.request_update()
    assert client.updated()
    client.network.disconnect(1, sim.now_ms)
    client.driver.run(asking(PRODUCE, 1), 5, "produce")
    assert sim.network.connections_made[-1][1] == ("elsewhere", PORT)


def test_D19_when_every_known_node_is_gone_the_client_goes_back_to_its_bootstrap_addresses(sim: Simulation) -> None:
    where = {"host": "old"}
    kafka = server(sim, {MetadataRequest: lambda frame: one_node(where["host"])})
    sim.network.add_server(kafka, "old", PORT)
    client = ready(SimClient(sim))
    sim.network.stop("old", PORT)
    where["host"] = "new"
    sim.network.add_server(kafka, "new", PORT)
    client.network.disconnect(-1, sim.now_ms)
    assert client.updated(10_000)
    assert client.metadata.snapshot.nodes[1].host == "new"


def test_D19_without_rebootstrap_the_client_stays_with_what_it_knows(sim: Simulation) -> None:
    where = {"host": "old"}
    kafka = server(sim, {MetadataRequest: lambda frame: one_node(where["host"])})
    sim.network.add_server(kafka, "old", PORT)
    client = ready(SimClient(sim, rebootstrap=False))
    sim.network.stop("old", PORT)
    client.network.disconnect(-1, sim.now_ms)
    assert not client.updated(10_000)
    assert client.metadata.snapshot.nodes[1].host == "old"


def test_D19_a_broker_may_ask_for_a_rebootstrap(sim: Simulation) -> None:
    replies = iter([one_node(), MetadataResponse(error_code=129), one_node("new")])
    kafka = server(
        sim, {MetadataRequest: lambda frame: next(replies), ApiVersionsRequest: lambda frame: versions_reply({3: (0, 13), 18: (0, 4)})}
    )
    sim.network.add_server(kafka, "new", PORT)
    client = ready(SimClient(sim))
    client.metadata.request_update()
    assert client.updated(5000)
    assert client.metadata.snapshot.nodes[1].host == "new"


def test_N3_a_metadata_request_goes_before_user_requests(sim: Simulation) -> None:
    server(sim)
    client = ready(SimClient(sim))
    sim.advance(1000)
    client.metadata.request_update()
    assert not client.network.is_ready(1, sim.now_ms)
    sim.advance(0)
    sim.advance(10)
    assert client.network.is_ready(1, sim.now_ms)


def test_D20_a_cluster_too_new_for_the_question_is_a_fatal_error(sim: Simulation) -> None:
    server(sim, {ApiVersionsRequest: lambda frame: versions_reply({3: (99, 99), 18: (0, 0)})})
    client = SimClient(sim)
    client.metadata.set_topics({"t"}, sim.now_ms)
    with pytest.raises(UnsupportedVersionError, match="Metadata"):
        client.driver.wait(client.metadata.await_update(0), 5, "metadata")


# Flows


def test_a_flow_to_a_node_that_cannot_be_reached_gets_the_cause(sim: Simulation) -> None:
    server(sim, {MetadataRequest: lambda frame: one_node("gone")})
    client = SimClient(sim)
    assert client.updated()
    with pytest.raises(ConnectError, match=r"gone:9092 \(node 1\): connection refused"):
        client.ask(PRODUCE, 1)


def test_a_flow_to_an_unknown_node_fails(sim: Simulation) -> None:
    server(sim)
    client = SimClient(sim)
    assert client.updated()
    with pytest.raises(ConnectError, match="node 9 is not among"):
        client.ask(PRODUCE, 9)


def test_a_flow_that_reaches_its_deadline_says_what_it_was(sim: Simulation) -> None:
    server(sim, {ProduceRequest: quiet})
    client = ready(SimClient(sim))
    started = sim.now_ms
    with pytest.raises(TimeoutError, match="Produce: not done within 3000 ms"):
        client.ask(PRODUCE, 1, timeout_s=3)
    assert sim.now_ms == started + 3000


def test_a_call_that_takes_too_long_says_what_is_wrong_with_the_brokers(sim: Simulation) -> None:
    broker(sim)
    client = ready(SimClient(sim))
    sim.network.stop(HOST, PORT)
    sim.advance(10)
    with pytest.raises(TimeoutError, match="Metadata: not done within 3000 ms") as raised:
        client.ask(MetadataRequest(), timeout_s=3)
    assert "kafka:9092  connection refused" in str(raised.value)


# The simulation


def outcome(seed: int) -> tuple[int, list[tuple[int, tuple[str, int]]]]:
    with Simulation(seed, latency_ms=(1, 50)) as sim:
        broker(sim)
        sim.network.drop_response("Metadata", nth=2)
        client = SimClient(sim, request_timeout_ms=2000)
        client.metadata.add_topic("t", sim.now_ms)
        while client.metadata.snapshot.partition_count("t") is None:
            assert client.updated()
        return sim.now_ms, list(sim.network.connections_made)


def test_the_same_seed_gives_the_same_run() -> None:
    assert outcome(3) == outcome(3)
    assert len({outcome(seed)[0] for seed in range(10)}) > 5


def test_a_failing_run_names_its_seed() -> None:
    with pytest.raises(ZeroDivisionError) as raised, Simulation(seed=42):
        raise ZeroDivisionError
    assert "Simulation(seed=42)" in raised.value.__notes__[0]


def test_a_dropped_response_leaves_the_connection_silent(sim: Simulation) -> None:
    kafka = server(sim, {ProduceRequest: lambda frame: ProduceResponse()})
    client = ready(SimClient(sim, request_timeout_ms=3000))
    sim.network.drop_response("Produce")
    lost = send(client)
    sim.advance(1)
    behind = send(client)
    sim.advance(2998)
    assert kafka.count(ProduceRequest) == 2
    assert not lost.done
    sim.advance(1)
    assert lost.error is not None
    assert behind.error is not None


def test_a_delayed_response_takes_so_much_longer(sim: Simulation) -> None:
    server(sim, {ProduceRequest: lambda frame: ProduceResponse()})
    client = ready(SimClient(sim))
    sim.network.delay_response("Produce", ms=700)
    started = sim.now_ms
    sim.run_until(send(client), 10_000)
    assert sim.now_ms == started + 702
    sim.run_until(send(client), 10_000)
    assert sim.now_ms == started + 704
