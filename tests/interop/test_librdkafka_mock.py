"""Row M-B21 of the fault matrix: our producer against librdkafka's mock cluster: leaders move, requests are refused, brokers go away."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

import levada as lv
from levada.error_codes import ErrorCode
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.messages.produce import ProduceRequest
from levada.testing.history import Event, History, Recorder, RecordingProducer, check, found_in, read_log
from librdkafka_mock import TRANSPORT, MockCluster

BROKERS = 3
PARTITIONS = 6
STEP = 250
"""Records between two faults."""
WATCHDOG_S = 30
CODES = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS, TRANSPORT)
SHORT = [(0, 5_000, 1), (0, 5_000, 5)]
LONG = [pytest.param(seed, 50_000, 1 if seed % 2 else 5, marks=pytest.mark.matrix) for seed in range(1, 21)]


@pytest.fixture
def mock() -> Iterator[MockCluster]:
    with MockCluster(BROKERS) as cluster:
        yield cluster


class Faults:
    """Draws what happens to the cluster next."""

    def __init__(self, mock: MockCluster, topic: str, random: Random) -> None:
        self._mock = mock
        self._topic = topic
        self._random = random
        self._down = 0

    def next(self, producer: lv.KafkaProducer) -> None:
        self._random.choice([self._refuse, self._refuse, self._elect, self._elect, self._refuse_metadata, self._take_down])(producer)

    def end(self) -> None:
        if self._down:
            self._mock.bring_up(self._down)
            self._down = 0
        for api in (ProduceRequest, MetadataRequest):
            self._mock.clear(api)

    def _refuse(self, producer: lv.KafkaProducer) -> None:
        self._mock.fail_next(ProduceRequest, self._random.choices(CODES, k=self._random.randint(1, 4)))

    def _refuse_metadata(self, producer: lv.KafkaProducer) -> None:
        self._mock.fail_next(MetadataRequest, [TRANSPORT])

    def _elect(self, producer: lv.KafkaProducer) -> None:
        self._mock.elect(self._topic, self._random.randrange(PARTITIONS), self._random.randint(1, BROKERS))

    def _take_down(self, producer: lv.KafkaProducer) -> None:
        """With nothing in flight: the mock does not know batches again whose answers were lost."""
        self.end()
        producer.flush(WATCHDOG_S)
        self._down = self._random.randint(1, BROKERS)
        self._mock.take_down(self._down)


@pytest.mark.parametrize(("seed", "records", "in_flight"), [*SHORT, *LONG])
def test_M_B21_nothing_is_lost_doubled_or_reordered(mock: MockCluster, seed: int, records: int, in_flight: int) -> None:
    """With several requests in flight a broker has to look at sequences, or their order and number are as luck has it."""
    topic, events = f"mock-{seed}", list[Event]()
    mock.create_topic(topic, PARTITIONS)
    random = Random(seed)
    faults = Faults(mock, topic, random)
    settings = {"retry.backoff.ms": 20, "max.in.flight.requests.per.connection": in_flight}
    with lv.KafkaProducer(settings, bootstrap_servers=mock.bootstrap_servers) as producer:
        recording = RecordingProducer(producer, Recorder(events.append, 1))
        for number in range(records):
            recording.send(topic, partition=random.randrange(PARTITIONS))
            if number % STEP == 0:
                faults.next(producer)
        faults.end()
        producer.flush(WATCHDOG_S)
    with lv.KafkaClient(bootstrap_servers=mock.bootstrap_servers) as client:
        log = read_log(client, [topic])
    committed = found_in(lv.scan(topic, bootstrap_servers=mock.bootstrap_servers))
    report = check(History.of(events), log=log, committed=committed, skip=() if in_flight == 1 else ("K2", "K3"))
    report.require_clean()
    assert report.sends == {"ok": records}
