"""Which partitions a consumer asks for, and how many requests it has in progress, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from consumer_sim import World
from levada.broker.node.node import BrokerNode
from levada.protocol.frame import decode_request, encode_response_parts
from levada.protocol.messages.fetch import AbortedTransaction, FetchRequest, FetchResponse
from levada.testing.simulation import Simulation
from levada.types import TopicPartition

T0, T1, T2 = (TopicPartition("t", index) for index in range(3))


class Fetches:
    """Every fetch that nodes received, and the most that were unanswered at one node at a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[FetchRequest] = []
        self.most = 0
        waiting: dict[int, int] = {}
        receive, send = BrokerNode.receive, BrokerNode._send

        def count_in(node: BrokerNode, conn_id: int, frame: Any, now_ms: int) -> None:
            if int.from_bytes(frame[:2], "big") == FetchRequest.API_KEY:
                waiting[conn_id] = waiting.get(conn_id, 0) + 1
                self.most = max(self.most, waiting[conn_id])
            receive(node, conn_id, frame, now_ms)

        def count_out(node: BrokerNode, connection: Any, frame: list[Any]) -> None:
            waiting[connection.id] = 0
            send(node, connection, frame)

        def note(frame: Any) -> Any:
            request = decode_request(frame)
            if isinstance(request.request, FetchRequest):
                self.requests.append(request.request)
            return request

        monkeypatch.setattr(BrokerNode, "receive", count_in)
        monkeypatch.setattr(BrokerNode, "_send", count_out)
        monkeypatch.setattr("levada.broker.node.node.decode_request", note)

    def partitions(self) -> set[int]:
        """The partitions asked for since the last call."""
        found = {partition.partition for request in self.requests for topic in request.topics for partition in topic.partitions}
        self.requests.clear()
        return found


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(seed=13) as simulation:
        yield simulation


@pytest.fixture
def world(simulation: Simulation) -> World:
    world = World(simulation)
    world.topic("t", 3)
    return world


def test_F13_only_assigned_partitions_that_are_not_paused_are_fetched(
    world: World, simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches = Fetches(monkeypatch)
    consumer = world.consumer(T0, T1)
    consumer.poll(timeout=2)
    assert fetches.partitions() == {0, 1}
    consumer.pause([T1])
    consumer.poll(timeout=2)
    fetches.partitions()
    consumer.poll(timeout=2)
    assert 1 not in fetches.partitions()
    consumer.resume([T1])
    consumer.poll(timeout=2)
    assert 1 in fetches.partitions()
    consumer.assign([T2])
    consumer.poll(timeout=1)
    fetches.partitions()
    consumer.poll(timeout=2)
    assert fetches.partitions() <= {2}


def test_TR32_topics_assigned_while_the_first_metadata_are_on_their_way_are_read_without_a_pause(
    world: World, simulation: Simulation
) -> None:
    world.append("t", [b"v"])
    began_ms = simulation.now_ms
    consumer = world.consumer()
    while not world.requests("Metadata"):
        simulation.advance(1)
    consumer.assign([T0])
    assert [record.value for record in consumer.poll(timeout=1)] == [b"v"]
    assert simulation.now_ms - began_ms < 30, "one round trip takes 2 ms, and a pause at least 80"


def test_F13_one_fetch_is_in_progress_at_a_node(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fetches = Fetches(monkeypatch)
    for partition in range(3):
        for _ in range(20):
            world.append("t", [b"v" * 1000], partition)
    consumer = world.consumer(T0, T1, T2, max_partition_fetch_bytes=1500)
    count = 0
    while count < 60:
        count += sum(1 for _ in consumer.poll(timeout=5))
    consumer.poll(timeout=5)
    assert len(fetches.requests) > 10
    assert fetches.most == 1


def test_F8_a_partition_that_is_not_read_is_not_fetched_without_end(
    world: World, simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches = Fetches(monkeypatch)
    for _ in range(100):
        world.append("t", [b"v" * 1000])
    consumer = world.consumer(T0, max_partition_fetch_bytes=1500, max_poll_records=1)
    assert len(list(consumer.poll(timeout=5))) == 1
    simulation.advance(60_000)
    asked = [request for request in fetches.requests if request.topics]
    assert len(asked) <= 3


def test_M_A29_a_log_of_aborted_transactions_only_is_read_to_its_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(50):
        world.append("t", [b"never"], producer=(9, 0))
        world.append("t", [], control=0, producer=(9, 0))

    def tell_of_aborts(response: Any, version: int, correlation_id: int) -> Any:
        """The embedded broker knows of no transactions yet."""
        for topic in response.responses if isinstance(response, FetchResponse) else ():
            for partition in topic.partitions:
                partition.aborted_transactions = [AbortedTransaction(producer_id=9, first_offset=offset) for offset in range(0, 100, 2)]
        return encode_response_parts(response, version, correlation_id)

    monkeypatch.setattr("levada.broker.node.node.encode_response_parts", tell_of_aborts)
    consumer = world.consumer(T0, isolation_level="read_committed", max_partition_fetch_bytes=1000)
    assert [record for _ in range(20) for record in consumer.poll(timeout=1)] == []
    assert consumer.position(T0) == 100
