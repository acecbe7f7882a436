"""client.request in virtual time: where a request goes, in which version, and what errors lead to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from levada.client.requests.request import CONTROLLER, api_versions, request
from levada.error_codes import ErrorCode
from levada.errors import ClosedError, ConnectError, DisconnectError, TimeoutError, UnsupportedVersionError
from levada.protocol.api import APIS
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from levada.protocol.messages.list_groups import ListGroupsRequest
from levada.protocol.messages.list_offsets import ListOffsetsRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponseBroker
from levada.protocol.messages.produce import ProduceRequest
from levada.protocol.messages.share_fetch import ShareFetchRequest
from levada.protocol.schema import Request
from levada.testing import Simulation
from sim_kit import HOST, PORT, ScriptedServer, SimClient, broker, one_node, server, versions_reply

SPOKEN = {0: (3, 12), 3: (0, 12), 18: (0, 4), 60: (1, 7), 78: (0, 9)}


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation() as sim:
        yield sim


@pytest.fixture
def kafka(sim: Simulation) -> ScriptedServer:
    scripted = server(
        sim, {DescribeClusterRequest: lambda frame: DescribeClusterResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)}
    )
    scripted.handlers.update({kind: lambda frame: None for kind in (ProduceRequest, ListGroupsRequest)})
    _speak(scripted, SPOKEN)
    return scripted


def _speak(scripted: ScriptedServer, spoken: dict[int, tuple[int, int]]) -> None:
    scripted.handlers[ApiVersionsRequest] = lambda frame: versions_reply(spoken)


def ask(client: SimClient, message: Request, timeout_s: float = 60, **options: Any) -> Any:
    return client.driver.run(request(message, **options), timeout_s, f"{message.NAME} request")


def versions_asked(kafka: ScriptedServer, kind: type[Request]) -> list[int]:
    return [frame.version for frame in kafka.asked if isinstance(frame.request, kind)]


def test_an_error_in_the_answer_is_part_of_the_answer(sim: Simulation, kafka: ScriptedServer) -> None:
    answer = ask(SimClient(sim), DescribeClusterRequest())
    assert isinstance(answer, DescribeClusterResponse)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("version", "sent"), [(None, DescribeClusterRequest.MAX_VERSION), (1, 1)])
def test_the_newest_shared_version_unless_one_is_named(sim: Simulation, kafka: ScriptedServer, version: int | None, sent: int) -> None:
    ask(SimClient(sim), DescribeClusterRequest(), version=version)
    assert versions_asked(kafka, DescribeClusterRequest) == [sent]


@pytest.mark.parametrize("version", [0, 7, 99, -1])
def test_a_version_that_one_side_lacks_is_refused_with_what_both_speak(sim: Simulation, kafka: ScriptedServer, version: int) -> None:
    text = rf"DescribeCluster v{version} .*levada speaks 0 to 2, the broker 1 to 7"
    with pytest.raises(UnsupportedVersionError, match=text):
        ask(SimClient(sim), DescribeClusterRequest(), version=version)
    assert versions_asked(kafka, DescribeClusterRequest) == []


def test_an_api_the_broker_lacks_is_named(sim: Simulation, kafka: ScriptedServer) -> None:
    with pytest.raises(UnsupportedVersionError, match="kafka:9092: the broker does not know ListGroups"):
        ask(SimClient(sim), ListGroupsRequest())


def drafted() -> tuple[type[Request], int]:
    """Return an API with a draft version, and that version."""
    return next((api, api.NEWEST_VERSION) for api in APIS.values() if api.NEWEST_VERSION > api.MAX_VERSION)


def test_a_draft_is_sent_only_when_it_is_named(sim: Simulation, kafka: ScriptedServer) -> None:
    api, draft = drafted()
    _speak(kafka, {**SPOKEN, api.API_KEY: (0, draft)})
    received: list[int] = []

    def take(conn_id: int, frame: bytes, now_ms: int) -> None:
        key, version = (int.from_bytes(frame[at : at + 2], "big") for at in (0, 2))
        if key == api.API_KEY:
            received.append(version)
        else:
            ScriptedServer.receive(kafka, conn_id, frame, now_ms)

    kafka.receive = take  # type: ignore[method-assign]
    for version in (None, draft):
        with pytest.raises(TimeoutError):
            ask(SimClient(sim), api(), timeout_s=5, version=version)
    assert received == [api.MAX_VERSION, draft]


def test_a_node_and_the_controller_are_found_in_fresh_metadata(sim: Simulation, kafka: ScriptedServer) -> None:
    client = SimClient(sim)
    other = ScriptedServer(kafka.handlers)
    sim.network.add_server(other, "other", 9093)
    brokers = [MetadataResponseBroker(node_id=1, host=HOST, port=PORT), MetadataResponseBroker(node_id=2, host="other", port=9093)]
    kafka.handlers[MetadataRequest] = lambda frame: one_node(brokers=brokers, controller_id=2)
    ask(client, DescribeClusterRequest(), node=CONTROLLER)
    assert other.count(DescribeClusterRequest) == 1
    ask(client, DescribeClusterRequest(), node=1)
    assert kafka.count(DescribeClusterRequest) == 1


def test_node_0_is_a_node_like_any_other(sim: Simulation, kafka: ScriptedServer) -> None:
    kafka.handlers[MetadataRequest] = lambda frame: one_node(brokers=[MetadataResponseBroker(node_id=0, host=HOST, port=PORT)])
    assert ask(SimClient(sim), DescribeClusterRequest(), node=0)


@pytest.mark.parametrize(("node", "text"), [(7, "node 7 is not among the cluster's nodes: 1"), (-1, "node -1 is not among")])
def test_a_node_that_is_not_there_is_an_error(sim: Simulation, kafka: ScriptedServer, node: int, text: str) -> None:
    with pytest.raises(ConnectError, match=text):
        ask(SimClient(sim), DescribeClusterRequest(), node=node)


def test_a_cluster_without_a_controller_is_an_error(sim: Simulation, kafka: ScriptedServer) -> None:
    kafka.handlers[MetadataRequest] = lambda frame: one_node(controller_id=-1)
    with pytest.raises(ConnectError, match=r"no controller is named \(.*\) among the cluster's nodes: 1"):
        ask(SimClient(sim), DescribeClusterRequest(), node=CONTROLLER)


def test_a_lost_answer_is_a_disconnect_and_is_not_asked_again(sim: Simulation, kafka: ScriptedServer) -> None:
    kafka.handlers[DescribeClusterRequest] = lambda frame: None
    client = SimClient(sim, request_timeout_ms=10_000)
    with pytest.raises(DisconnectError, match=r"DescribeCluster v2.*not answered within 10000 ms"):
        ask(client, DescribeClusterRequest())
    assert kafka.count(DescribeClusterRequest) == 1


def test_the_time_of_the_call_bounds_it(sim: Simulation, kafka: ScriptedServer) -> None:
    kafka.handlers[DescribeClusterRequest] = lambda frame: None
    before_ms = sim.now_ms
    with pytest.raises(TimeoutError, match="DescribeCluster request"):
        ask(SimClient(sim), DescribeClusterRequest(), timeout_s=2)
    assert sim.now_ms - before_ms <= 2_500


def test_a_request_that_took_too_long_does_not_hold_up_the_next_one(sim: Simulation) -> None:
    node = broker(sim)
    node.faults.drop_response("ListOffsets")
    client = SimClient(sim)
    with pytest.raises(TimeoutError, match="ListOffsets request"):
        ask(client, ListOffsetsRequest(), node=1, timeout_s=2)
    before_ms = sim.now_ms
    assert ask(client, MetadataRequest(topics=[]), node=1).controller_id == 1
    assert sim.now_ms - before_ms < 1000


def test_an_abandoned_request_does_not_hold_up_the_next_one(sim: Simulation) -> None:
    broker(sim).faults.drop_response("ListOffsets")
    client = SimClient(sim)
    left = client.start(request(ListOffsetsRequest(), node=1))
    sim.advance(ms=1000)
    client.engine.flows.cancel(left, sim.now_ms)
    assert isinstance(left.error, ClosedError)
    before_ms = sim.now_ms
    assert ask(client, MetadataRequest(topics=[]), node=1).controller_id == 1
    assert sim.now_ms - before_ms < 1000


def test_a_request_that_took_too_long_leaves_the_connection_to_others(sim: Simulation) -> None:
    node = broker(sim)
    node.faults.delay("ListOffsets", ms=5000)
    client = SimClient(sim)
    late = client.start(request(ListOffsetsRequest(), node=1), within_ms=2000)
    sim.advance(ms=1000)
    behind = client.start(request(MetadataRequest(topics=[]), node=1))
    sim.advance(ms=5000)
    assert isinstance(late.error, TimeoutError)
    assert behind.result().controller_id == 1


def test_an_answer_may_be_given_more_time_than_others(sim: Simulation, kafka: ScriptedServer) -> None:
    sim.network.delay_response("DescribeCluster", 50_000)
    assert ask(SimClient(sim), DescribeClusterRequest(), timeout_ms=90_000, timeout_s=90).error_code


def test_a_produce_without_acknowledgement_has_no_response(sim: Simulation, kafka: ScriptedServer) -> None:
    assert ask(SimClient(sim), ProduceRequest(acks=0)) is None
    sim.advance(ms=10)
    assert kafka.count(ProduceRequest) == 1


def test_the_versions_both_sides_speak_are_listed_by_name(sim: Simulation, kafka: ScriptedServer) -> None:
    _speak(kafka, {**SPOKEN, 1: (90, 99), 17: (1, 5), 5000: (0, 3)})
    client = SimClient(sim)
    shared = client.driver.run(api_versions(), 10, "ApiVersions")
    assert shared == {
        "Produce": (3, 12),
        "Metadata": (0, 12),
        "SaslHandshake": (1, 1),
        "ApiVersions": (0, 4),
        "DescribeCluster": (1, 2),
        "ShareFetch": (ShareFetchRequest.MIN_VERSION, ShareFetchRequest.MAX_VERSION),
    }
