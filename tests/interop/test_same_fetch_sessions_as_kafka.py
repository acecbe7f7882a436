"""M-P8: the embedded broker keeps fetch sessions as a real one does (KIP-227)."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest

from broker_kit import make_batch, produce_request
from kafka_cluster import KafkaCluster
from levada.protocol.frame import decode_response, encode_request
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.schema import ZERO_UUID, Request
from levada.testing import EmbeddedKafka

pytestmark = pytest.mark.kafka

PATIENCE_S = 20
PARTITIONS = 3


class Step(NamedTuple):
    """offsets: what a request adds or changes. session: which of the sessions opened so far it names, None for none, or any other id."""

    epoch: int
    offsets: dict[int, int] = {}  # noqa: RUF012
    forget: tuple[int, ...] = ()
    session: int | None = 0
    version: int = 12
    produce_to: int | None = None


SCRIPT = [
    Step(0, {0: 0, 1: 0, 2: 0}, session=None),
    Step(1),
    Step(2, produce_to=1),
    Step(3),
    Step(4, {1: 1}),
    Step(5, forget=(1,), produce_to=1),
    Step(6, {1: 0, 9: 0}),
    Step(7, {1: 2}),
    Step(8, {1: 7}),
    Step(9, {1: 2}),
    Step(20),
    Step(10, version=13),
    Step(20, version=13),
    Step(10),
    Step(1, session=77),
    Step(11, {0: 0, 2: 0}, produce_to=0),
    Step(12, forget=(0, 1, 2, 9)),
    Step(13),
    Step(0, session=None),
    Step(0, {0: 0}, session=None, version=17),
    Step(1, session=-1, version=17),
    Step(2, {0: 1}, session=-1, version=17),
    Step(3, session=-1, version=17),
    Step(4, session=-1),
    Step(-1, {0: 1}, session=-1, version=17),
    Step(4, session=-1, version=17),
    Step(-1, {0: 0}, session=None),
    Step(-1, session=None),
]


class Side:
    """One connection to a broker, and the sessions opened over it."""

    def __init__(self, kafka: Any, topic: str) -> None:
        host, port = kafka.bootstrap_servers.split(":")
        self.connection = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self.topic = topic
        self.sessions: list[int] = []
        self.topic_id = self._wait_for_topic()

    def ask(self, request: Request, version: int) -> Any:
        self.connection.sendall(encode_request(request, version, 1, "test"))
        with self.connection.makefile("rb") as answers:
            return decode_response(type(request), version, answers.read(*struct.unpack(">i", answers.read(4))))

    def _wait_for_topic(self) -> UUID:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            (found,) = self.ask(MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)]), 12).topics
            if not found.error_code and not any(partition.error_code for partition in found.partitions) and self._leads_all():
                return UUID(bytes=found.topic_id.bytes)
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def _leads_all(self) -> bool:
        """Whether the node knows that it leads; that may be later than it says so in metadata."""
        wanted = [FetchPartition(partition=at, partition_max_bytes=1) for at in range(PARTITIONS)]
        answer = self.ask(FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic=self.topic, partitions=wanted)]), 12)
        return not any(data.error_code for topic in answer.responses for data in topic.partitions)

    def do(self, step: Step) -> Any:
        """What a client sees of the answer: errors, whether it has a session, and which partitions are told what."""
        if step.produce_to is not None:
            batch = make_batch(b"a", timestamp=int(time.time() * 1000))
            assert (
                not self.ask(produce_request(self.topic, batch, partition=step.produce_to), 9)
                .responses[0]
                .partition_responses[0]
                .error_code
            )
        answer = self.ask(self._request(step), step.version)
        if answer.session_id and answer.session_id not in self.sessions:
            self.sessions.append(answer.session_id)
        known = self.sessions.index(answer.session_id) if answer.session_id else None
        parts = [
            (data.partition_index, data.error_code, data.high_watermark, data.log_start_offset, len(data.records or b""))
            for topic in answer.responses
            for data in topic.partitions
        ]
        return answer.error_code, known, parts

    def _request(self, step: Step) -> FetchRequest:
        by_id = step.version >= 13
        topic, topic_id = ("", self.topic_id) if by_id else (self.topic, ZERO_UUID)
        wanted = [FetchPartition(partition=at, fetch_offset=offset, partition_max_bytes=1 << 20) for at, offset in step.offsets.items()]
        chosen = 0
        if step.session is not None:
            chosen = self.sessions[step.session] if step.session < len(self.sessions) else step.session
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            session_id=chosen,
            session_epoch=step.epoch,
            topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=wanted)] if wanted else [],
            forgotten_topics_data=[ForgottenTopic(topic=topic, topic_id=topic_id, partitions=list(step.forget))] if step.forget else [],
        )


def test_E10_fetch_sessions(kafka44: KafkaCluster) -> None:
    topic = f"sessions-{uuid4().hex}"
    with EmbeddedKafka() as embedded:
        for kafka in (kafka44, embedded):
            kafka.create_topic(topic, PARTITIONS)
        theirs, ours = Side(kafka44, topic), Side(embedded, topic)
        different = []
        for step in SCRIPT:
            expected, found = theirs.do(step), ours.do(step)
            if expected != found:
                different.append((step, expected, found))
        for side in (theirs, ours):
            side.connection.close()
    assert not different
