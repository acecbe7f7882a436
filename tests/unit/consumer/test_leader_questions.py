"""Questions that are asked in the background, of the leaders of many partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import NamedTuple

import pytest

from levada.base.clock import ExponentialBackoff
from levada.base.flow import Flow, Sleep
from levada.client.metadata.snapshot import ClusterSnapshot, TopicMetadata
from levada.client.requests.fan_out import Answer, Whom
from levada.client.requests.flow_runner import FlowsBeside
from levada.client.requests.partition_answer import PartitionAnswer
from levada.consumer.fetch.fetch_buffer import FetchBuffer
from levada.consumer.positions.leader_requests import LeaderQuestions
from levada.consumer.positions.subscription_state import PartitionState, SubscriptionState
from levada.error_codes import ErrorCode
from levada.errors import BootstrapError, UnsupportedVersionError
from levada.testing import Simulation
from levada.types import Node, PartitionInfo, TopicPartition
from sim_kit import SimClient, server


class Question(NamedTuple):
    state: PartitionState
    generation: int

    @property
    def still_holds(self) -> bool:
        return self.generation == self.state.generation


class Bench:
    """Four partitions, led by nodes 1 and 2 in turn. answers: what a node says to the partitions it is asked about."""

    def __init__(self, client: SimClient) -> None:
        self.client = client
        self.tps = [TopicPartition("t", number) for number in range(4)]
        self.subscription = SubscriptionState()
        self.buffer = FetchBuffer(self.subscription, 1 << 20)
        self.marks = self.subscription.listen()
        self.subscription.assign(self.tps, 0)
        infos = tuple(PartitionInfo("t", tp.partition, 1 + tp.partition % 2, 3, (), ()) for tp in self.tps)
        topics = {"t": TopicMetadata("t", None, ErrorCode.NONE, False, infos)}
        client.metadata.snapshot = ClusterSnapshot(nodes={1: Node(1, "kafka", 9092), 2: Node(2, "h", 1)}, topics=topics)
        self.asked: list[tuple[Whom, list[int]]] = []
        self.taken: list[int] = []
        self.takes_ms: dict[Whom, int] = {}
        self.answers: Callable[[Whom, list[TopicPartition]], PartitionAnswer[int]] = lambda node, tps: Answer(found=dict.fromkeys(tps, 7))
        self.questions: LeaderQuestions[Question, int] = LeaderQuestions(
            buffer=self.buffer,
            metadata=client.metadata,
            backoff=ExponentialBackoff(100, 1000, Random(1)),
            spawn=FlowsBeside(client.engine.flows, client.engine.now),
            ask=self._ask,
            take=lambda question, found: self.taken.append(question.state.tp.partition),
        )

    def state(self, number: int) -> PartitionState:
        return self.subscription.state(self.tps[number])

    def put(self, *numbers: int) -> None:
        self.questions.put([Question(self.state(number), self.state(number).generation) for number in numbers])

    def _ask(self, node: Whom, questions: Mapping[TopicPartition, Question]) -> Flow[PartitionAnswer[int]]:
        self.asked.append((node, [tp.partition for tp in questions]))
        yield Sleep(self.takes_ms.get(node, 0))
        return self.answers(node, list(questions))


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Simulation(seed=3) as sim:
        server(sim)
        client = SimClient(sim)
        client.updated()
        yield Bench(client)


def test_every_leader_is_asked_once_about_all_its_partitions(bench: Bench) -> None:
    bench.put(0, 1, 2, 3)
    bench.put(0, 1)
    bench.client.sim.advance(10)
    assert bench.asked == [(1, [0, 2]), (2, [1, 3])]
    assert bench.taken == [0, 2, 1, 3]


def test_the_answer_to_a_question_that_does_not_hold_any_more_does_not_count(bench: Bench) -> None:
    def move(node: Whom, tps: list[TopicPartition]) -> Answer[TopicPartition, int]:
        bench.subscription.seek(tps[0], 5)
        return Answer(found=dict.fromkeys(tps, 7))

    bench.answers = move
    bench.put(0, 2)
    bench.client.sim.advance(10)
    assert bench.taken == [2]
    assert bench.state(0) in bench.marks, "to be looked at again"


def test_what_a_whole_request_failed_with_is_seen_once_and_the_others_are_asked_again_after_a_pause(bench: Bench) -> None:
    def refuse(node: Whom, tps: list[TopicPartition]) -> Answer[TopicPartition, int]:
        raise UnsupportedVersionError("too old")

    bench.answers = refuse
    bench.put(0, 2)
    bench.client.sim.advance(50)
    seen = bench.buffer.first()
    assert seen is not None and (seen.state.tp.partition, str(seen.error)) == (0, "too old: UNSUPPORTED_VERSION (35)")
    assert bench.asked == [(1, [0, 2])]
    assert bench.state(2).last_error == "too old: UNSUPPORTED_VERSION (35)"
    bench.client.sim.advance(100)
    assert bench.asked[1:] == [(1, [2])]


def test_while_metadata_cannot_be_had_the_question_stays_and_its_partition_says_why(bench: Bench) -> None:
    bench.client.metadata.snapshot = ClusterSnapshot(nodes={1: Node(1, "kafka", 9092)})
    bench.client.metadata._allowed_ms = 1 << 40
    bench.put(0)
    bench.client.sim.advance(150)
    bench.client.metadata.fail(BootstrapError("no broker could be reached", {}))
    bench.client.sim.advance(50)
    assert bench.state(0).last_error == "no broker could be reached"
    assert bench.buffer.first() is None
    bench.client.metadata.snapshot = ClusterSnapshot(
        nodes={1: Node(1, "kafka", 9092)},
        topics={"t": TopicMetadata("t", None, ErrorCode.NONE, False, (PartitionInfo("t", 0, 1, 3, (), ()),))},
    )
    bench.client.sim.advance(500)
    assert bench.taken == [0]


def test_a_leader_that_is_no_longer_waited_for_is_no_error_of_its_partitions(bench: Bench) -> None:
    bench.client.metadata._allowed_ms = 1 << 40
    bench.takes_ms = {2: 5_000}
    bench.answers = lambda node, tps: Answer.missing(tps, "busy")
    bench.put(0, 1)
    bench.client.sim.advance(500)
    bench.client.metadata.fail(BootstrapError("no broker could be reached", {}))
    bench.client.sim.advance(1)
    assert bench.buffer.first() is None
    bench.answers = lambda node, tps: Answer(found=dict.fromkeys(tps, 7))
    bench.client.sim.advance(10_000)
    assert bench.buffer.first() is None
    assert bench.asked == [(1, [0]), (2, [1])] * 2
    assert bench.taken == [0, 1]
