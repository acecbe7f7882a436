"""The producer against the embedded broker's node, in virtual time: what is lost, repeated, late or too large."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from levada.broker.node.node import BrokerNode
from levada.error_codes import ErrorCode
from levada.errors import (
    BufferExhaustedError,
    ClusterAuthorizationError,
    DeliveryTimeout,
    InvalidRecordError,
    OutOfOrderSequenceError,
    Persisted,
    ProtocolError,
    RecordTooLargeError,
    TopicAuthorizationError,
    UnknownTopicOrPartitionError,
)
from levada.producer.append.slow_path import Limit
from levada.producer.send.sequences import ProducerIdentity
from levada.protocol.frame import decode_response
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.schema import Request, Response
from levada.record.compression import Codec
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS
from levada.types import TopicPartition
from log_lines import said
from producer_kit import SimProducer, batches, codec_of, values
from sim_kit import HOST, PORT
from sim_kit import broker as add_broker


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=11) as sim:
        yield sim


@pytest.fixture
def broker(sim: Simulation) -> BrokerNode:
    node = add_broker(sim, wall_offset_ms=EPOCH_MS, auto_create_topics_enable=False)
    node.create_topic("t", 1)
    return node


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


# Once, and in order


def test_I14_a_lost_acknowledgement_is_not_appended_twice(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim)
    broker.faults.drop_response("Produce")
    delivery = producer.send("t", b"once")
    sim.advance(40_000)
    assert delivery.done()
    assert delivery.result().offset == 0
    assert values(broker, "t") == [b"once"]


def test_M_B1_every_tenth_acknowledgement_is_lost_and_nothing_is_doubled(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=0, request_timeout_ms=1000, retry_backoff_ms=10)
    deliveries = []
    for number in range(100):
        if number % 10 == 9:
            broker.faults.disconnect("Produce", applied=True)
        deliveries.append(producer.send("t", b"%d" % number))
        sim.advance(20)
    producer.flush()
    assert values(broker, "t") == numbered(100)
    assert [delivery.result().offset for delivery in deliveries] == list(range(100))


def test_M_B2_without_idempotence_lost_acknowledgements_make_duplicates(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=0, enable_idempotence=False, retry_backoff_ms=10)
    for number in range(20):
        if number % 10 == 9:
            broker.faults.disconnect("Produce", applied=True)
        producer.send("t", b"%d" % number)
        producer.flush()
    assert len(values(broker, "t")) == 20 + 2


@pytest.mark.parametrize("seed", range(30))
def test_M_B3_batches_in_flight_keep_their_order_when_the_first_is_refused(seed: int) -> None:
    with Simulation(seed=seed, latency_ms=(1, 30)) as sim:
        node = add_broker(sim, wall_offset_ms=EPOCH_MS)
        node.create_topic("t", 1)
        producer = SimProducer(sim, linger_ms=0, batch_size=1)
        producer.send("t", b"0")
        producer.flush()
        for number in range(1, 40):
            if sim.random.random() < 0.2:
                node.faults.fail_next("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, topic="t", times=sim.random.randint(1, 3))
            if sim.random.random() < 0.1:
                node.faults.disconnect("Produce", applied=sim.random.random() < 0.5)
            producer.send("t", b"%d" % number)
            if sim.random.random() < 0.5:
                sim.advance(sim.random.randint(0, 20))
        producer.flush()
        assert values(node, "t") == numbered(40)


def test_M_B3_up_to_five_requests_are_under_way(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=0, batch_size=1)
    producer.send("t")
    producer.flush()
    sim.network.latency_ms = (50, 50)
    before = broker.faults.requests["Produce"]
    for _ in range(20):
        producer.send("t")
    sim.advance(60)
    assert broker.faults.requests["Produce"] - before == 5


def test_A16_with_one_request_under_way_order_needs_no_idempotence(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=0, batch_size=1, max_in_flight=1, enable_idempotence=False)
    broker.faults.fail_next("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, topic="t", times=3)
    for value in numbered(10):
        producer.send("t", value)
    producer.flush()
    assert values(broker, "t") == numbered(10)


def test_M_B5_sequences_wrap_from_the_last_int_to_0(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=0, batch_size=1)
    producer.send("t", b"0")
    producer.flush()
    queue = producer.core.appending.topic("t").partitions[0]
    queue.sequences.next = 2**31 - 10
    queue.sequences.last_acked = 2**31 - 11
    broker.cluster.partition(broker.cluster.topic("t"), 0).producers.forget_all()
    for number in range(1, 31):
        if number % 7 == 0:
            broker.faults.fail_next("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, topic="t")
            broker.faults.disconnect("Produce", nth=2, applied=True)
        producer.send("t", b"%d" % number)
    producer.flush()
    assert values(broker, "t") == numbered(31)
    assert [batch.base_sequence for batch in batches(broker, "t")][10:12] == [2**31 - 1, 0]


def test_A10_a_new_leader_is_tried_without_waiting_for_the_back_off(sim: Simulation) -> None:
    first = add_broker(sim, "a", 1, wall_offset_ms=EPOCH_MS, node_id=1)
    second = add_broker(sim, "b", 1, wall_offset_ms=EPOCH_MS, node_id=2, cluster=first.cluster)
    first.create_topic("t", 1)
    producer = SimProducer(sim, bootstrap=[("a", 1)], linger_ms=0)
    producer.send("t", b"0").result()
    partition = first.cluster.partition(first.cluster.topic("t"), 0)
    first.cluster.move_leader(partition, 2)
    started = sim.now_ms
    assert producer.send("t", b"1").result().offset == 1
    assert sim.now_ms - started < 1000
    assert second.faults.requests["Produce"] == 1


# Sequences after errors


def test_M_B6_a_broker_that_forgot_the_producer_is_no_loss(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=0)
    producer.send("t", b"0").result()
    broker.faults.fail_next("Produce", ErrorCode.UNKNOWN_PRODUCER_ID, topic="t")
    assert producer.send("t", b"1").result().offset == 1
    assert values(broker, "t") == numbered(2)


def test_M_B6_a_gap_is_healed_under_a_new_epoch(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=0)
    producer.send("t", b"0").result()
    broker.faults.fail_next("Produce", ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, topic="t")
    epoch = producer.identity()[1]
    assert producer.send("t", b"1").result().offset == 1
    assert producer.identity()[1] == epoch + 1
    assert [(batch.producer_epoch, batch.base_sequence) for batch in batches(broker, "t")] == [(epoch, 0), (epoch + 1, 0)]


def test_M_B6_a_batch_that_may_be_written_is_never_renumbered(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=0)
    producer.send("t", b"0").result()
    broker.faults.disconnect("Produce", applied=True)
    broker.faults.fail_next("Produce", ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    delivery = producer.send("t", b"1")
    sim.advance(5000)
    error = delivery.exception()
    assert isinstance(error, OutOfOrderSequenceError)
    assert error.persisted is Persisted.UNKNOWN
    assert "persisted: unknown" in str(error)
    assert values(broker, "t") == numbered(2)
    assert producer.send("t", b"2").result().offset == 2


def test_I11_the_epoch_after_the_last_is_a_new_producer_id(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=0)
    producer.send("t", b"0").result()
    transactions = producer.core.idempotence
    assert transactions is not None
    transactions.identity = ProducerIdentity(transactions.identity.producer_id, 32767)
    producer.send("t", b"1").result()
    broker.faults.fail_next("Produce", ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, topic="t")
    assert producer.send("t", b"2").result().offset == 2
    assert producer.identity()[0] == 1
    assert values(broker, "t") == numbered(3)


def test_TR44_those_behind_a_batch_that_failed_are_sent_all_the_same(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=0, batch_size=1)
    producer.send("t", b"0").result()
    sim.network.latency_ms = (10, 10)
    broker.faults.fail_next("Produce", ErrorCode.INVALID_TIMESTAMP, topic="t")
    deliveries = [producer.send("t", value) for value in numbered(5, start=1)]
    producer.flush()
    assert deliveries[0].exception() is not None
    assert values(broker, "t") == [b"0", *numbered(4, start=2)]


def test_TR45_after_an_unknown_outcome_the_partition_waits_until_it_is_clear(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=0, batch_size=1, request_timeout_ms=2000, delivery_timeout_ms=3000)
    producer.send("t", b"0").result()
    broker.faults.drop_response("Produce")
    lost = producer.send("t", b"1")
    sim.advance(1500)
    sim.network.stop(HOST, PORT)
    sim.advance(2000)
    assert lost.exception(0).persisted is Persisted.UNKNOWN  # type: ignore[union-attr]
    later = producer.send("t", b"2")
    sim.network.start(HOST, PORT)
    assert later.result().offset == 2
    assert values(broker, "t") == numbered(3)


# Time


def test_A18_a_batch_that_cannot_be_sent_expires_and_says_why(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, delivery_timeout_ms=35_000)
    producer.send("t", b"0").result()
    sim.network.stop(HOST, PORT)
    delivery = producer.send("t", b"1")
    sim.advance(36_000)
    error = delivery.exception(0)
    assert isinstance(error, DeliveryTimeout)
    assert error.persisted is Persisted.NO
    assert str(error).startswith("t-0: not sent within delivery.timeout.ms=35000 (its leader is not known; kafka:9092: connection refused")
    assert str(error).endswith("; persisted: no")


def test_A18_a_batch_that_is_not_acknowledged_expires_and_names_the_last_error(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, delivery_timeout_ms=10_000, request_timeout_ms=3000)
    broker.faults.fail_next("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=1000)
    delivery = producer.send("t")
    sim.advance(11_000)
    error = delivery.exception(0)
    assert isinstance(error, DeliveryTimeout)
    assert "t-0: not acknowledged within delivery.timeout.ms=10000 (" in str(error)
    assert "attempts, last: NOT_LEADER_OR_FOLLOWER from node 1); persisted: unknown" in str(error)


def test_A18_the_error_of_an_expired_batch_says_how_its_connections_ended(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, delivery_timeout_ms=10_000, request_timeout_ms=3000)
    for _ in range(100):
        broker.faults.disconnect("Produce")
    delivery = producer.send("t")
    sim.advance(11_000)
    assert "last: NETWORK_EXCEPTION from node 1: Produce v" in str(delivery.exception(0))
    assert "got no answer: the broker closed the connection); persisted: unknown" in str(delivery.exception(0))


def test_A18_a_batch_in_flight_expires_and_a_late_answer_changes_nothing(sim: Simulation, broker: BrokerNode) -> None:
    called = []
    producer = SimProducer(sim, delivery_timeout_ms=10_000, request_timeout_ms=30_000)
    producer.send("t").result()
    broker.faults.delay("Produce", ms=12_000)
    delivery = producer.send("t", on_delivery=lambda metadata, error: called.append(error))
    sim.advance(10_500)
    error = delivery.exception(0)
    assert isinstance(error, DeliveryTimeout)
    assert "(1 attempt, last: no answer yet); persisted: unknown" in str(error)
    assert producer.core.pool.available < producer.core.pool.total, "its request is still in flight (A19)"
    sim.advance(5000)
    assert producer.core.pool.available == producer.core.pool.total
    assert called == [error]
    assert producer.send("t").result().offset == 2


def test_A18_an_expired_batch_that_was_written_leaves_no_gap(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, delivery_timeout_ms=10_000, request_timeout_ms=30_000)
    producer.send("t").result()
    broker.faults.delay("Produce", ms=12_000)
    producer.send("t")
    sim.advance(10_500)
    epoch = producer.identity()[1]
    assert producer.send("t").result().offset == 2
    assert producer.identity()[1] in (epoch, epoch + 1)
    assert len(values(broker, "t")) == 3


def test_K14_acks_0_knows_nothing_and_says_so(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, acks=0, enable_idempotence=False)
    assert producer.send("t", b"fire").result().offset == -1
    sim.advance(100)
    assert values(broker, "t") == [b"fire"]


def test_A8_linger_gathers_records_and_flush_does_not_wait_for_it(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=5000)
    producer.send("t").result()
    started = sim.now_ms
    deliveries = [producer.send("t") for _ in range(10)]
    sim.advance(4900)
    assert not deliveries[0].done()
    sim.advance(200)
    assert all(delivery.done() for delivery in deliveries)
    assert len(batches(broker, "t")) == 2
    started = sim.now_ms
    producer.send("t")
    producer.flush()
    assert sim.now_ms - started < 100


def test_K12_a_leader_that_is_away_is_not_asked_all_the_time(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, delivery_timeout_ms=120_000)
    producer.send("t").result()
    sim.network.stop(HOST, PORT)
    producer.send("t")
    attempts = len(sim.network.connections_made)
    sim.advance(30_000)
    assert len(sim.network.connections_made) - attempts < 60


# Limits


def test_A21_a_batch_too_large_for_the_broker_is_split_and_every_handle_follows(sim: Simulation, broker: BrokerNode) -> None:
    broker.create_topic("small", 1, {"max.message.bytes": "1000"})
    called: list[int] = []
    producer = SimProducer(sim, batch_size=16_384)
    deliveries = [
        producer.send("small", b"%03d" % number * 30, on_delivery=lambda metadata, error: called.append(metadata.offset))
        for number in range(60)
    ]
    producer.flush()
    sim.advance(10)
    assert values(broker, "small") == [b"%03d" % number * 30 for number in range(60)]
    assert [delivery.result().offset for delivery in deliveries] == list(range(60))
    assert called == list(range(60))
    assert producer.core.pool.available == producer.core.pool.total


@pytest.mark.parametrize("codec", list(Codec))
def test_A21_a_split_keeps_the_codec_and_what_is_behind_it_in_order(sim: Simulation, broker: BrokerNode, codec: Codec) -> None:
    broker.create_topic("small", 1, {"max.message.bytes": "600"})
    producer = SimProducer(sim, batch_size=3000, codec=codec, linger_ms=0)
    sent = [bytes(sim.random.randbytes(50)) for _ in range(200)]
    deliveries = [producer.send("small", value) for value in sent]
    producer.flush()
    assert values(broker, "small") == sent
    assert [delivery.result().offset for delivery in deliveries] == list(range(200))
    assert codec_of(broker, "small") == {codec}


def test_A21_only_the_record_that_is_too_large_fails(sim: Simulation, broker: BrokerNode) -> None:
    broker.create_topic("small", 1, {"max.message.bytes": "500"})
    producer = SimProducer(sim)
    deliveries = [producer.send("small", b"x" * size) for size in (100, 100, 700, 100)]
    producer.flush()
    assert [delivery.exception() is None for delivery in deliveries] == [True, True, False, True]
    error = deliveries[2].exception()
    assert isinstance(error, RecordTooLargeError)
    assert "max.message.bytes" in str(error)
    assert error.persisted is Persisted.NO
    assert [len(value or b"") for value in values(broker, "small")] == [100, 100, 100]


def test_K5_a_record_above_max_request_size_is_refused_with_the_option_named(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, max_request_size=1000)
    error = producer.send("t", b"x" * 2000).exception()
    assert isinstance(error, RecordTooLargeError)
    assert "max.request.size=1000" in str(error)
    assert producer.send("t", b"x" * 500).result().offset == 0


def test_B5_a_full_buffer_blocks_and_gives_up_after_max_block_ms(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, buffer_memory=13_000, batch_size=5000, max_block_ms=2000)
    producer.send("t").result()
    sim.network.blackhole(HOST, PORT)
    kept = [producer.send("t", b"x" * 4900) for _ in range(2)]
    started = sim.now_ms
    error = producer.send("t", b"x" * 4900).exception()
    assert isinstance(error, BufferExhaustedError)
    assert sim.now_ms - started == 2000
    assert "buffer.memory=13000" in str(error)
    assert "max.block.ms=2000" in str(error)
    sim.network.start(HOST, PORT)
    producer.flush()
    assert [delivery.exception() for delivery in kept] == [None, None]
    assert producer.core.pool.available == 13_000


def test_B10_a_send_that_waits_for_memory_ends_the_linger_of_all_batches(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, buffer_memory=10_000, batch_size=5000, linger_ms=60_000)
    started = sim.now_ms
    for _ in range(20):
        producer.send("t", b"x" * 2400)
    assert sim.now_ms - started < 1000


# Topics


def test_K3_an_unknown_topic_is_named_with_the_time_it_was_waited_for(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, max_block_ms=5000)
    started = sim.now_ms
    error = producer.send("nowhere").exception()
    assert isinstance(error, UnknownTopicOrPartitionError)
    assert sim.now_ms - started == 5000
    assert "topic 'nowhere': the broker says it does not exist" in str(error)
    assert "max.block.ms=5000" in str(error)


@pytest.mark.parametrize(
    ("topic", "partition", "what"),
    [("nowhere", None, "topic 'nowhere' does not exist"), ("t", 3, "t-3 does not exist; the topic has partitions 0 to 0")],
)
def test_a_wait_for_what_does_not_exist_is_logged_after_a_second(
    sim: Simulation, broker: BrokerNode, caplog: pytest.LogCaptureFixture, topic: str, partition: int | None, what: str
) -> None:
    """Until the error comes after max.block.ms, the program would seem to hang."""
    told_ms: list[int] = []

    def note(record: logging.LogRecord) -> bool:
        told_ms.append(sim.now_ms)
        return True

    caplog.handler.addFilter(note)
    producer = SimProducer(sim, max_block_ms=60_000)
    for _ in range(2):
        started = sim.now_ms
        producer.send(topic, partition=partition)
        assert sim.now_ms - started == 60_000
        assert told_ms.pop() - started <= 2000
        (line,) = said(caplog.records, logging.WARNING)
        assert line == f"{what}; the producer waits for it up to max.block.ms=60000: create it, or check the name"
        caplog.clear()
    assert told_ms == []


def test_calls_that_wait_for_one_topic_log_it_once(sim: Simulation, broker: BrokerNode, caplog: pytest.LogCaptureFixture) -> None:
    producer = SimProducer(sim, max_block_ms=60_000)
    for _ in range(3):
        with pytest.raises(UnknownTopicOrPartitionError):
            producer.driver.call(producer.core.appending.partitions_for("nowhere", sim.now_ms + 5000, Limit("5 s", 5)))
    assert len(said(caplog.records, logging.WARNING)) == 1


def test_a_topic_that_the_broker_creates_is_no_warning(sim: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    add_broker(sim, wall_offset_ms=EPOCH_MS, auto_create_topics_enable=True)
    assert SimProducer(sim, linger_ms=0).send("new").result().offset == 0
    assert said(caplog.records, logging.WARNING) == []


def test_K25_partitions_for_waits_for_a_topic_as_send_does(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, max_block_ms=5000)
    started = sim.now_ms
    with pytest.raises(UnknownTopicOrPartitionError, match=r"topic 'nowhere'.*max\.block\.ms=5000"):
        producer.driver.call(producer.core.appending.partitions_for("nowhere"))
    assert sim.now_ms - started == 5000
    assert [info.partition for info in producer.driver.call(producer.core.appending.partitions_for("t"))] == [0]


def test_K25_partitions_for_waits_for_as_long_as_it_is_told(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, max_block_ms=60_000)
    started = sim.now_ms
    with pytest.raises(UnknownTopicOrPartitionError, match=r"topic 'nowhere': .* did not appear within 2\.5 s; create it, or"):
        producer.driver.call(producer.core.appending.partitions_for("nowhere", started + 2500, Limit("2.5 s", 2.5)))
    assert sim.now_ms - started == 2500


def test_C14_a_partition_that_may_yet_appear_is_waited_for(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, max_block_ms=5000)
    error = producer.send("t", partition=3).exception()
    assert isinstance(error, UnknownTopicOrPartitionError)
    assert str(error).startswith(
        "t-3 does not exist, and did not appear within max.block.ms=5000; the topic has partitions 0 to 0; send() waits because"
    )


def test_M_A24_a_topic_recreated_under_the_producer_is_written_from_its_start(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=0)
    producer.send("t", b"old").result()
    broker.cluster.remove(broker.cluster.topics["t"])
    broker.create_topic("t", 1)
    assert producer.send("t", b"new").result(timeout=60).offset == 0
    assert values(broker, "t") == [b"new"]


def test_K16_a_topic_this_user_may_not_write_is_named(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim)
    broker.faults.fail_next("Produce", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    error = producer.send("t").exception()
    assert isinstance(error, TopicAuthorizationError)
    text = "t-0: the broker refused the batch (node 1, 1 attempt); this user needs the permission WRITE on topic 't'"
    assert str(error) == f"{text}: TOPIC_AUTHORIZATION_FAILED (29); persisted: no"


def test_I3_nothing_is_produced_before_there_is_a_producer_id(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim)
    broker.faults.fail_next("InitProducerId", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=5)
    delivery = producer.send("t")
    sim.advance(500)
    assert broker.faults.requests["Produce"] == 0
    assert delivery.result().offset == 0


def test_I3_an_unreadable_answer_with_a_producer_id_is_reported_and_asked_for_again_after_a_pause(
    sim: Simulation, broker: BrokerNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(request_type: type[Request], version: int, frame: bytes) -> Response:
        if request_type is InitProducerIdRequest:
            raise ProtocolError("InitProducerId v5: 3 bytes too many")
        return decode_response(request_type, version, frame)

    monkeypatch.setattr("levada.client.network.network_client.decode_response", broken)
    producer = SimProducer(sim, delivery_timeout_ms=30_000, request_timeout_ms=20_000)
    error = producer.send("t").exception()
    assert isinstance(error, DeliveryTimeout)
    assert "waiting for a producer id (an answer that cannot be read: InitProducerId v5: 3 bytes too many)" in str(error)
    assert 10 < broker.faults.requests["InitProducerId"] < 60
    warnings = [record for record in caplog.records if "waiting for a producer id" in record.message]
    assert len(warnings) == 1


def test_I3_a_connection_that_ends_instead_of_an_answer_with_a_producer_id_is_warned_of_once(
    sim: Simulation, broker: BrokerNode, caplog: pytest.LogCaptureFixture
) -> None:
    broker.faults.disconnect("InitProducerId")
    assert SimProducer(sim).send("t").result().offset == 0
    (warning,) = said(caplog.records, logging.WARNING)
    assert "closed the connection" in warning


def test_I3_a_user_who_may_not_write_idempotently_gets_an_error(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim)
    # The first request is made once the topic is known, and may be answered before the record is there.
    broker.faults.fail_next("InitProducerId", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, times=2)
    error = producer.send("t").exception()
    assert isinstance(error, ClusterAuthorizationError)
    assert "idempotent writes are not possible" in str(error)
    assert "this user needs the permission IDEMPOTENT_WRITE on the cluster" in str(error)
    broker.faults.fail_next("InitProducerId", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert isinstance(producer.send("t").exception(), ClusterAuthorizationError)
    sim.advance(60_000)
    assert broker.faults.requests["InitProducerId"] == 3, "none is sent while there is nothing to send"
    assert producer.send("t").result().offset == 0, "the permission was given"


def test_I3_a_refusal_from_before_the_first_record_does_not_fail_it(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim)
    broker.faults.fail_next("InitProducerId", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    producer.driver.call(producer.core.appending.partitions_for("t"))
    sim.advance(60_000)
    assert broker.faults.requests["InitProducerId"] == 1, "none is sent while there is nothing to send"
    assert producer.send("t").result().offset == 0, "the permission was given"


def test_K18_an_invalid_record_is_distinguished_from_the_others_of_its_batch(sim: Simulation, broker: BrokerNode) -> None:
    broker.create_topic("compacted", 1, {"cleanup.policy": "compact"})
    producer = SimProducer(sim)
    refused, innocent = producer.send("compacted", key=None), producer.send("compacted", key=b"k")
    producer.flush()
    assert isinstance(refused.exception(), InvalidRecordError)
    assert "without a key" in str(refused.exception())
    assert "other records of its batch" in str(innocent.exception())


def test_A23_close_without_time_fails_what_is_left(sim: Simulation, broker: BrokerNode) -> None:
    called = []
    producer = SimProducer(sim, linger_ms=60_000)
    producer.send("t").result()
    delivery = producer.send("t", on_delivery=lambda metadata, error: called.append(error))
    producer.core.close()
    producer.core.abort()
    producer.driver.close()
    assert delivery.done()
    assert "closed before the record was acknowledged; persisted: no" in str(delivery.exception())
    assert called == [delivery.exception()]


def test_P4_keyless_records_move_on_when_a_batch_is_full(sim: Simulation, broker: BrokerNode) -> None:
    broker.create_topic("wide", 4)
    producer = SimProducer(sim, batch_size=1000)
    for _ in range(400):
        producer.send("wide", b"x" * 90)
    producer.flush()
    sizes = [len(values(broker, "wide", partition)) for partition in range(4)]
    assert sum(sizes) == 400
    assert min(sizes) > 0
    full = [batch.records_count for partition in range(4) for batch in batches(broker, "wide", partition)]
    assert len(full) <= 45, "batches are filled, not cut short by moving"


def test_murmur2_keys_go_where_java_sends_them(sim: Simulation, broker: BrokerNode) -> None:
    broker.create_topic("wide", 16)
    producer = SimProducer(sim)
    metadata = {key: producer.send("wide", key=key).result() for key in (b"21", b"foobar", b"abc", b"")}
    hashes = {b"21": -973932308, b"foobar": -790332482, b"abc": 479470107, b"": 275646681}
    assert {key: found.partition for key, found in metadata.items()} == {key: (hashed & 0x7FFFFFFF) % 16 for key, hashed in hashes.items()}
    assert metadata[b"abc"][:2] == TopicPartition("wide", (479470107 & 0x7FFFFFFF) % 16)
