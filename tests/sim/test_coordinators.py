"""Coordinators are found, remembered, forgotten, and reached over connections of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from levada.base.flow import Call, Flow
from levada.base.promise import Promise
from levada.broker.cluster.cluster import Cluster
from levada.broker.config.settings import BrokerSettings
from levada.broker.node.node import BrokerNode
from levada.client.network.connection_key import ConnectionKey, Purpose
from levada.client.requests.destination import Coordinator, CoordinatorKind, Leader
from levada.client.setup.states import ConnectionState
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, ConnectError, DisconnectError, TimeoutError, UnsupportedVersionError
from levada.protocol.frame import RequestFrame
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.protocol.messages.find_coordinator import Coordinator as Found
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.schema import Response
from levada.testing import Simulation
from levada.types import TopicPartition
from sim_kit import HOST, PORT, SPOKEN, ScriptedServer, SimClient, broker, server, versions_reply

GROUP = CoordinatorKind.GROUP
LONG_MS = 20_000


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=5) as sim:
        yield sim


def ask_coordinator(client: SimClient, key: str = "g", kind: CoordinatorKind = GROUP, timeout_s: float = 60) -> Any:
    """What a commit does: a request to the coordinator, whatever it is."""
    return client.ask(MetadataRequest(topics=[]), node=Coordinator(kind, key), timeout_s=timeout_s)  # type: ignore[arg-type]


def long_fetch(topic: str) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(max_wait_ms=LONG_MS, min_bytes=1, max_bytes=1000, topics=[FetchTopic(topic=topic, partitions=[partition])])


def finder(sim: Simulation, answer: Callable[[RequestFrame], Response | None], newest: int = 6) -> ScriptedServer:
    """A server that speaks FindCoordinator up to a version."""
    return server(sim, {FindCoordinatorRequest: answer, **speaking(newest)})


def speaking(newest: int) -> dict[Any, Any]:
    from levada.protocol.messages.api_versions import ApiVersionsRequest

    return {ApiVersionsRequest: lambda frame: versions_reply({**SPOKEN, 10: (0, newest)})}


def found(frame: RequestFrame, error_code: int = 0, **fields: Any) -> FindCoordinatorResponse:
    """This node, for every key that was asked for."""
    where = {"node_id": 1, "host": HOST, "port": PORT, "error_code": error_code, **fields}
    if frame.version < 4:
        return FindCoordinatorResponse(**where)
    assert isinstance(frame.request, FindCoordinatorRequest)
    return FindCoordinatorResponse(coordinators=[Found(key=key, **where) for key in frame.request.coordinator_keys])


def test_a_call_to_the_coordinator_is_answered_while_a_fetch_waits_on_the_same_node(sim: Simulation) -> None:
    node = broker(sim)
    node.create_topic("t", 1)
    client = SimClient(sim)
    client.updated()
    fetching = client.start(fetch(long_fetch("t")))
    sim.advance(100)
    assert client.network.in_flight_count(1) == 1
    started_ms = sim.now_ms
    ask_coordinator(client)
    assert sim.now_ms - started_ms < 1000
    assert not fetching.done, "the fetch still waits"
    assert client.network.state(1) is client.network.state(ConnectionKey(1, Purpose.COORDINATOR)) is ConnectionState.READY
    assert sim.run_until(fetching, 2 * LONG_MS)


def fetch(request: FetchRequest) -> Flow[Any]:
    return (yield Call(request, 1, max_version=12))


def test_a_coordinator_is_looked_for_while_the_first_metadata_is_under_way(sim: Simulation) -> None:
    node = finder(sim, found)
    client = SimClient(sim)
    while client.network.in_flight_count(-1) == 0 or client.network.state(-1) is not ConnectionState.READY:
        sim.advance(1)
    assert client.metadata.snapshot.is_bootstrap
    started_ms = sim.now_ms
    ask_coordinator(client)
    assert sim.now_ms - started_ms < 50, "no attempt was lost, after which it would pause"
    assert node.count(FindCoordinatorRequest) == 1


def test_a_coordinator_is_looked_for_once(sim: Simulation) -> None:
    node = finder(sim, found)
    client = SimClient(sim)
    together = [client.start(asking_coordinator("g")) for _ in range(5)]
    for promise in together:
        assert sim.run_until(promise, 10_000)
        promise.result()
    ask_coordinator(client)
    assert node.count(FindCoordinatorRequest) == 1


def asking_coordinator(key: str) -> Flow[Any]:
    return (yield Call(MetadataRequest(topics=[]), Coordinator(GROUP, key)))


def test_keys_wanted_meanwhile_are_looked_for_together(sim: Simulation) -> None:
    node = finder(sim, found)
    client = SimClient(sim)
    promises = [client.start(asking_coordinator(f"g{number}")) for number in range(10)]
    for promise in promises:
        assert sim.run_until(promise, 10_000)
        promise.result()
    assert [frame.request.coordinator_keys for frame in node.asked if isinstance(frame.request, FindCoordinatorRequest)] == [
        [f"g{number}" for number in range(10)]
    ]


@pytest.mark.parametrize("newest", [0, 3])
def test_older_brokers_are_asked_for_one_key_at_a_time(sim: Simulation, newest: int) -> None:
    node = finder(sim, found, newest)
    client = SimClient(sim)
    for key in ("a", "b"):
        ask_coordinator(client, key)
    asked = [(frame.version, frame.request.key) for frame in node.asked if isinstance(frame.request, FindCoordinatorRequest)]
    assert asked == [(newest, "a"), (newest, "b")]


def test_the_first_brokers_know_no_transactions(sim: Simulation) -> None:
    finder(sim, found, 0)
    with pytest.raises(UnsupportedVersionError):
        ask_coordinator(SimClient(sim), kind=CoordinatorKind.TRANSACTION)


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
@pytest.mark.parametrize("newest", [3, 6])
def test_G1_a_coordinator_that_is_not_there_yet_is_looked_for_again(sim: Simulation, code: ErrorCode, newest: int) -> None:
    answers = iter([code, code, ErrorCode.NONE])
    node = finder(sim, lambda frame: found(frame, next(answers)), newest)
    started_ms = sim.now_ms
    ask_coordinator(SimClient(sim))
    assert node.count(FindCoordinatorRequest) == 3
    assert 200 < sim.now_ms - started_ms < 1000


@pytest.mark.parametrize("named", [(), ("other",), ("other", "else")])
def test_an_answer_without_the_key_is_asked_for_again_with_back_off(sim: Simulation, named: tuple[str, ...]) -> None:
    answer = FindCoordinatorResponse(coordinators=[Found(key=key, node_id=1, host=HOST, port=PORT) for key in named])
    kafka = finder(sim, lambda frame: answer)
    client = SimClient(sim)
    with pytest.raises(TimeoutError):
        ask_coordinator(client, timeout_s=10)
    assert 5 <= kafka.count(FindCoordinatorRequest) <= 20
    kafka.handlers[FindCoordinatorRequest] = found
    ask_coordinator(client, timeout_s=5)


def test_V13_G1_a_refusal_is_raised(sim: Simulation) -> None:
    finder(sim, lambda frame: found(frame, ErrorCode.GROUP_AUTHORIZATION_FAILED, node_id=-1, error_message="not yours"))
    with pytest.raises(BrokerError, match="group 'g': not yours") as raised:
        ask_coordinator(SimClient(sim))
    assert raised.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_lost_answer_is_asked_for_again(sim: Simulation) -> None:
    node = finder(sim, found)
    sim.network.drop_response("FindCoordinator")
    ask_coordinator(SimClient(sim, request_timeout_ms=1000), timeout_s=10)
    assert node.count(FindCoordinatorRequest) == 2


def test_a_caller_that_gives_up_ends_the_search(sim: Simulation) -> None:
    node = finder(sim, lambda frame: found(frame, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    client = SimClient(sim)
    with pytest.raises(Exception, match="not done within"):
        ask_coordinator(client, timeout_s=5)
    sim.advance(5000)
    before = node.count(FindCoordinatorRequest)
    sim.advance(60_000)
    assert node.count(FindCoordinatorRequest) == before


@pytest.mark.parametrize(("code", "again"), [(ErrorCode.NOT_COORDINATOR, 2), (ErrorCode.COORDINATOR_NOT_AVAILABLE, 2), (ErrorCode.NONE, 1)])
def test_V13_G3_it_is_forgotten_when_it_says_that_it_is_none(sim: Simulation, code: ErrorCode, again: int) -> None:
    node = finder(sim, found)
    client = SimClient(sim)
    ask_coordinator(client)
    assert client.engine.coordinators.answered(GROUP, "g", code) == (code is not ErrorCode.NONE)
    ask_coordinator(client)
    assert node.count(FindCoordinatorRequest) == again


def test_it_is_forgotten_when_its_connection_is_lost(sim: Simulation) -> None:
    node = finder(sim, found)
    client = SimClient(sim)
    ask_coordinator(client)
    sim.network.disconnect(HOST, PORT)
    sim.advance(10)
    ask_coordinator(client)
    assert node.count(FindCoordinatorRequest) == 2


def test_a_coordinator_that_cannot_be_reached_fails_the_call_and_is_looked_for_again(sim: Simulation) -> None:
    places: Iterator[dict[str, Any]] = iter([{"node_id": 2, "host": "nowhere", "port": 1}, {}])
    node = finder(sim, lambda frame: found(frame, **next(places)))
    client = SimClient(sim)
    with pytest.raises(ConnectError, match=r"nowhere:1 \(node 2 as coordinator\): connection refused"):
        ask_coordinator(client)
    ask_coordinator(client)
    assert node.count(FindCoordinatorRequest) == 2


def test_a_coordinator_need_not_be_in_metadata(sim: Simulation) -> None:
    other = ScriptedServer(speaking(6))
    sim.network.add_server(other, "other", 9093)
    finder(sim, lambda frame: found(frame, node_id=7, host="other", port=9093))
    ask_coordinator(SimClient(sim))
    assert other.count(MetadataRequest) == 1


def test_its_requests_in_flight_back_off_and_failures_are_its_own(sim: Simulation) -> None:
    node = broker(sim)
    client = SimClient(sim)
    ask_coordinator(client)
    key = ConnectionKey(1, Purpose.COORDINATOR)
    client.network.disconnect(key, sim.now_ms)
    assert client.network.state(key) is ConnectionState.DISCONNECTED
    assert client.network.losses(key) == 1
    client.updated()
    client.network.ready(1, sim.now_ms)
    sim.advance(10)
    assert client.network.state(1) is ConnectionState.READY
    assert client.network.losses(1) == 0
    assert node.faults.requests["FindCoordinator"] == 1


def test_every_node_of_a_cluster_names_the_same_coordinator(sim: Simulation) -> None:
    cluster = Cluster(BrokerSettings(), sim.random)
    nodes = {}
    for node_id in (1, 2, 3):
        nodes[node_id] = BrokerNode(node_id=node_id, host=f"kafka{node_id}", port=PORT, cluster=cluster)
        sim.network.add_server(nodes[node_id], f"kafka{node_id}", PORT)
    named = []
    for node_id in nodes:
        client = SimClient(sim, (f"kafka{node_id}", PORT))
        named.append([key_of_coordinator(client, f"g{number}") for number in range(20)])
    assert named[0] == named[1] == named[2]
    assert {key.node_id for key in named[0]} == {1, 2, 3}


def key_of_coordinator(client: SimClient, group: str) -> ConnectionKey:
    promise: Promise[ConnectionKey] = client.start(client.engine.coordinators.find(GROUP, group))
    client.sim.run_until(promise, 10_000)
    return promise.result()


def test_a_leader_is_waited_for(sim: Simulation) -> None:
    node = broker(sim, auto_create_topics_enable=False)
    client = SimClient(sim)
    client.metadata.add_topic("t", sim.now_ms)
    promise = client.start(leader_versions())
    sim.advance(2000)
    assert not promise.done
    node.create_topic("t", 1)
    assert sim.run_until(promise, 5000)
    assert promise.error is None


def leader_versions() -> Flow[Any]:
    return (yield Call(MetadataRequest(topics=[]), Leader(TopicPartition("t", 0))))


def test_closing_the_client_ends_a_search(sim: Simulation) -> None:
    finder(sim, lambda frame: None)
    client = SimClient(sim)
    promise = client.start(asking_coordinator("g"))
    sim.advance(100)
    client.driver.close()
    assert promise.done
    with pytest.raises(Exception, match="closed"):
        promise.result()
    assert not isinstance(promise.error, DisconnectError)
