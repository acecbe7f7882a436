"""Transactions in virtual time, on both transaction protocols: what readers see, whatever is lost, late, refused or moved."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

import levada as lv
from levada.broker.node.node import BrokerNode
from levada.error_codes import ErrorCode
from levada.errors import (
    BrokerError,
    IllegalStateError,
    KafkaError,
    Persisted,
    ProducerFencedError,
    RecordTooLargeError,
    TimeoutError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionalIdAuthorizationError,
    TransactionOutcomeUnknownError,
)
from levada.producer.transactions.states import State
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS
from levada.types import ConsumerGroupMetadata, TopicPartition

SERVERS = "kafka:9092"
REQUEST_TIMEOUT_MS = 2000
LATE = {"request_timeout_ms": REQUEST_TIMEOUT_MS, "linger_ms": 0, "delivery_timeout_ms": 20_000, "max_block_ms": 30_000}


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=3) as sim:
        yield sim


@pytest.fixture(params=[2, 1], ids=["TV2", "TV1"])
def broker(sim: Simulation, request: pytest.FixtureRequest) -> BrokerNode:
    return add_broker(sim, request.param)


def add_broker(sim: Simulation, transaction_version: int, **settings: Any) -> BrokerNode:
    node = BrokerNode(
        host="kafka",
        port=9092,
        random=sim.random,
        wall_offset_ms=EPOCH_MS,
        transaction_version=transaction_version,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=500,
        **settings,
    )
    sim.network.add_server(node, "kafka", 9092)
    node.create_topic("t", 3)
    return node


def new_producer(sim: Simulation, transactional_id: str = "x", **settings: Any) -> lv.KafkaProducer:
    return sim.producer(bootstrap_servers=SERVERS, transactional_id=transactional_id, **{**LATE, **settings})


@pytest.fixture
def producer(sim: Simulation, broker: BrokerNode) -> lv.KafkaProducer:
    producer = new_producer(sim)
    producer.init_transactions()
    return producer


def state(producer: lv.KafkaProducer) -> State:
    transaction = producer._core.transaction_manager
    assert transaction is not None
    return transaction.state


def identity(producer: lv.KafkaProducer) -> tuple[int, int]:
    assert producer._core.idempotence is not None
    return producer._core.idempotence.identity


def seen(sim: Simulation, isolation_level: str = "read_committed") -> list[Any]:
    # The coordinator answers before it has written its markers.
    sim.advance(100)
    records: list[Any] = list(sim.scan("t", bootstrap_servers=SERVERS, isolation_level=isolation_level))
    return sorted(record.value for record in records)


def offset_of(sim: Simulation, group: str = "g") -> int | None:
    sim.advance(100)
    with sim.consumer(bootstrap_servers=SERVERS, group_id=group) as consumer:
        committed = consumer.committed([TopicPartition("t", 0)])[TopicPartition("t", 0)]
    return None if committed is None else committed.offset


def is_tv2(broker: BrokerNode) -> bool:
    return broker.faults.max_version("EndTxn", 5) == 5 and broker.settings.transaction_version == 2


# The plain way


def test_T7_what_was_committed_is_seen_and_what_was_aborted_is_not(sim: Simulation, producer: lv.KafkaProducer) -> None:
    for number in range(3):
        producer.begin_transaction()
        for partition in range(3):
            producer.send("t", b"commit %d" % number, partition=partition)
        producer.commit_transaction()
        producer.begin_transaction()
        aborted = producer.send("t", b"abort", partition=number)
        producer.flush()
        producer.abort_transaction()
        assert aborted.result().offset >= 0
    assert seen(sim) == sorted(b"commit %d" % number for number in range(3) for _ in range(3))
    assert seen(sim, "read_uncommitted").count(b"abort") == 3


def test_T2_an_empty_transaction_asks_nobody(producer: lv.KafkaProducer, broker: BrokerNode) -> None:
    before = dict(broker.faults.requests)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        end()
    assert dict(broker.faults.requests) == before


def test_T12_the_newer_protocol_announces_nothing_and_gets_an_epoch_with_each_end(producer: lv.KafkaProducer, broker: BrokerNode) -> None:
    producer_id, epoch = identity(producer)
    for _ in range(2):
        with producer.transaction():
            producer.send("t", b"v")
            producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
    announced = broker.faults.requests["AddPartitionsToTxn"] + broker.faults.requests["AddOffsetsToTxn"]
    if is_tv2(broker):
        assert (announced, identity(producer)) == (0, (producer_id, epoch + 2))
    else:
        assert (announced, identity(producer)) == (4, (producer_id, epoch))


def test_T6_offsets_count_once_the_transaction_is_committed(sim: Simulation, producer: lv.KafkaProducer) -> None:
    tp = TopicPartition("t", 0)
    with producer.transaction():
        producer.send_offsets_to_transaction({tp: 5}, "g")
        producer.send_offsets_to_transaction({tp: lv.OffsetAndMetadata(7, 0, "why")}, ConsumerGroupMetadata("g"))
        producer.send_offsets_to_transaction({}, "nobody")
    assert offset_of(sim) == 7
    producer.begin_transaction()
    producer.send_offsets_to_transaction({tp: 9}, "g")
    producer.abort_transaction()
    assert offset_of(sim) == 7


def test_consume_transform_produce_counts_together_or_not_at_all(sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer) -> None:
    broker.create_topic("in", 1)
    with sim.producer(bootstrap_servers=SERVERS) as source:
        for number in range(4):
            source.send("in", b"%d" % number)
    tp = TopicPartition("in", 0)

    def committed(consumer: Any) -> int:
        offset: int = consumer.committed([tp])[tp].offset
        return offset

    with sim.consumer(bootstrap_servers=SERVERS, group_id="g", enable_auto_commit=False, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        for is_good in (True, False, True):
            try:
                with producer.transaction() as txn:
                    for record in consumer.poll(5, max_records=1):
                        producer.send("t", record.value)
                        txn.send_offsets(consumer)
                    if not is_good:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                consumer.seek(tp, committed(consumer))
        assert committed(consumer) == 2
    assert seen(sim) == [b"0", b"1"]


def test_T6_an_abort_without_an_answer_is_an_abort_for_the_offsets_of_a_consumer(
    sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer
) -> None:
    with sim.producer(bootstrap_servers=SERVERS) as source:
        source.send_many("t", [b"%d" % number for number in range(4)], partition=1)
    tp = TopicPartition("t", 1)
    with sim.consumer(bootstrap_servers=SERVERS, group_id="g", enable_auto_commit=False, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        broker.faults.blackhole("EndTxn")
        with pytest.raises(ZeroDivisionError), producer.transaction(timeout=3):
            for record in consumer.poll(5, max_records=2):
                producer.send("t", record.value, partition=0).result()
            raise ZeroDivisionError
        broker.faults.clear()
        with pytest.raises(IllegalStateError, match=r"seek_to_committed\(\)"), producer.transaction() as txn:
            for record in consumer.poll(5, max_records=2):
                producer.send("t", record.value, partition=0)
            txn.send_offsets(consumer)
        consumer.seek(tp, 0)
        with producer.transaction() as txn:
            for record in consumer.poll(5):
                producer.send("t", record.value, partition=0)
            txn.send_offsets(consumer)


def test_A23_a_block_commits_at_its_end_and_aborts_on_an_exception(sim: Simulation, broker: BrokerNode) -> None:
    producer = new_producer(sim)
    with producer.transaction():
        producer.send("t", b"committed")
    with pytest.raises(KeyboardInterrupt), producer.transaction():
        dropped = producer.send("t", b"aborted")
        raise KeyboardInterrupt
    assert isinstance(dropped.exception(), TransactionAbortedError)
    with producer.transaction():
        producer.send("t", b"later")
    assert seen(sim) == [b"committed", b"later"]


@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit"])
def test_T5_what_waits_for_the_end_of_the_transaction_before_is_asked_for_again_soon(sim: Simulation, api: str) -> None:
    broker = add_broker(sim, 1)
    producer = new_producer(sim)
    producer.init_transactions()
    with producer.transaction():
        producer.send("t", b"1")
        producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
    broker.faults.fail_next(api, ErrorCode.CONCURRENT_TRANSACTIONS)
    begun_ms = sim.now_ms
    with producer.transaction():
        producer.send("t", b"2")
        producer.send_offsets_to_transaction({TopicPartition("t", 0): 2}, "g")
    assert 20 <= sim.now_ms - begun_ms < 60, "not after retry.backoff.ms, of 100"


# The first batch of a transaction waits for the markers of the one before (KIP-890): on the broker it would wait for 20 ms and more.


class Quick:
    """A producer that sends the first record of a transaction soon after the end of the one before, `latency_ms` away from its broker."""

    def __init__(self, sim: Simulation, latency_ms: int = 1) -> None:
        self.sim = sim
        sim.network.latency_ms = (latency_ms, latency_ms)
        self.round_trip_ms = 2 * latency_ms
        self.faults = add_broker(sim, 2).faults
        self.producer = new_producer(sim)
        self.producer.init_transactions()
        self.producer.begin_transaction()
        self.producer.send("t", b"0", partition=0).result()

    def held_back_ms(self, idle_ms: int = 0) -> int:
        """How long the record waits in the producer when it is sent so long after the end."""
        self.producer.commit_transaction()
        self.sim.advance(idle_ms)
        self.producer.begin_transaction()
        begun_ms = self.sim.now_ms
        self.producer.send("t", b"1", partition=0).result()
        return self.sim.now_ms - begun_ms - self.round_trip_ms

    @property
    def asked(self) -> int:
        return self.faults.requests["DescribeTransactions"]


@pytest.mark.parametrize("latency_ms", [1, 4, 30])
def test_T5_the_first_batch_goes_when_the_coordinator_has_written_the_markers_before_it(sim: Simulation, latency_ms: int) -> None:
    quick = Quick(sim, latency_ms)
    assert quick.held_back_ms() == min(quick.round_trip_ms, 20), "for the coordinator's answer, at most for a broker's own pause"
    assert quick.asked == 1


def test_T5_nobody_asks_about_markers_when_the_first_batch_comes_later(sim: Simulation) -> None:
    quick = Quick(sim, latency_ms=4)
    assert (quick.held_back_ms(idle_ms=11), quick.asked) == (0, 0)
    assert quick.held_back_ms(idle_ms=5) == 5, "EndTxn took 8 ms, two more for what whole milliseconds leave out"


def test_T5_the_first_batch_waits_while_the_coordinator_says_that_markers_are_being_written(sim: Simulation) -> None:
    quick = Quick(sim)
    quick.faults.delay("WriteTxnMarkers", ms=50)
    assert 50 <= quick.held_back_ms() <= 75
    assert 4 <= quick.asked <= 8, "at longer and longer intervals"


def test_T5_the_coordinator_is_asked_about_markers_twice_a_second_while_they_cannot_be_written(sim: Simulation) -> None:
    quick = Quick(sim)
    quick.faults.delay("WriteTxnMarkers", ms=10_000)
    assert 10_000 <= quick.held_back_ms() <= 10_600
    assert quick.asked < 45


@pytest.mark.parametrize(("transaction_version", "wait"), [(2, "the markers of the transaction before"), (1, "AddPartitionsToTxn: ")])
def test_T5_a_record_that_is_too_late_says_that_it_waited_for_the_transaction_before(
    sim: Simulation, transaction_version: int, wait: str
) -> None:
    broker = add_broker(sim, transaction_version)
    producer = new_producer(sim, delivery_timeout_ms=5000)
    producer.init_transactions()
    with producer.transaction():
        producer.send("t", b"0", partition=0)
        broker.faults.delay("WriteTxnMarkers", ms=10_000)
    producer.begin_transaction()
    late = producer.send("t", b"1", partition=0)
    sim.advance(6000)
    assert f"t-0: not sent within delivery.timeout.ms=5000 (waiting for {wait}" in str(late.exception())
    producer.abort_transaction()


def test_T5_nobody_asks_about_markers_when_the_batch_that_waited_is_gone(sim: Simulation) -> None:
    quick = Quick(sim)
    quick.faults.delay("WriteTxnMarkers", ms=10_000)
    quick.producer.commit_transaction()
    quick.producer.begin_transaction()
    quick.producer.send("t", b"1", partition=0)
    sim.advance(1000)
    quick.producer.abort_transaction()
    asked = quick.asked
    sim.advance(5000)
    assert asked <= quick.asked <= asked + 1
    quick.producer.begin_transaction()
    quick.producer.send("t", b"2", partition=0).result()
    quick.producer.commit_transaction()
    assert seen(sim) == [b"0", b"2"]


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED])
def test_T5_the_first_batch_goes_when_the_coordinator_does_not_tell_about_markers(sim: Simulation, code: ErrorCode) -> None:
    quick = Quick(sim)
    quick.faults.fail_next("DescribeTransactions", code)
    assert (quick.held_back_ms(), quick.asked) == (2, 1)


@pytest.mark.parametrize(("fault", "held_back_ms"), [("blackhole", 4), ("disconnect", 2)])
def test_T5_the_first_batch_goes_when_a_question_about_markers_gets_no_answer(sim: Simulation, fault: str, held_back_ms: int) -> None:
    quick = Quick(sim)
    getattr(quick.faults, fault)("DescribeTransactions")
    assert (quick.held_back_ms(), quick.asked) == (held_back_ms, 1)
    quick.producer.commit_transaction()
    assert seen(sim) == [b"0", b"1"]


# Calls that do not fit


def test_T1_calls_that_do_not_fit_say_what_to_do(sim: Simulation, broker: BrokerNode) -> None:
    producer = new_producer(sim)
    with pytest.raises(IllegalStateError, match=r"begin_transaction\(\): .*'x' is not initialized; call init_transactions\(\) first"):
        producer.begin_transaction()
    producer.init_transactions()
    with pytest.raises(IllegalStateError, match=r"init_transactions\(\): .* was done before; call begin_transaction\(\)"):
        producer.init_transactions()
    for call in (producer.commit_transaction, producer.abort_transaction, producer.detach_transaction):
        with pytest.raises(IllegalStateError, match=r"is ready, with no transaction open; there is nothing to end"):
            call()
    with pytest.raises(IllegalStateError, match=r"are sent within a transaction.*call begin_transaction\(\) first") as refused:
        producer.send("t", b"v")
    assert refused.value.persisted is Persisted.NO
    producer.begin_transaction()
    with pytest.raises(IllegalStateError, match=r"commit_transaction\(\) or abort_transaction\(\) ends it"):
        producer.begin_transaction()
    plain = sim.producer(bootstrap_servers=SERVERS)
    with pytest.raises(IllegalStateError, match=r"needs a producer with the option transactional\.id"):
        plain.init_transactions()


def test_T1_a_block_whose_transaction_was_aborted_has_nothing_to_end(sim: Simulation, producer: lv.KafkaProducer) -> None:
    with producer.transaction():
        producer.send("t", b"1", partition=0)
        producer.abort_transaction()
    with producer.transaction():
        producer.send("t", b"2", partition=0)
    assert seen(sim) == [b"2"]


@pytest.mark.parametrize("call", ["commit_transaction", "detach_transaction"])
def test_T1_a_block_refuses_calls_that_would_end_its_transaction(sim: Simulation, producer: lv.KafkaProducer, call: str) -> None:
    with producer.transaction():
        producer.send("t", b"1", partition=0)
        with pytest.raises(IllegalStateError, match=rf"{call}\(\) within .* the block ends the transaction by itself"):
            getattr(producer, call)()
    assert seen(sim) == [b"1"]


def test_T6_a_block_refuses_offsets_of_a_consumer_that_commits_them_itself(
    sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer
) -> None:
    with sim.consumer(bootstrap_servers=SERVERS, group_id="g") as consumer, producer.transaction() as txn:
        with pytest.raises(IllegalStateError, match=r"enable\.auto\.commit=true"):
            txn.send_offsets(consumer)
        with pytest.raises(TypeError, match=r"takes a KafkaConsumer, got None"):
            txn.send_offsets(None)  # type: ignore[arg-type]


def test_T1_a_transaction_that_was_handed_over_has_one_handle(producer: lv.KafkaProducer) -> None:
    producer.begin_transaction()
    producer.send("t", b"1", partition=0)
    assert producer.detach_transaction() == producer.detach_transaction()


# How long calls wait


@pytest.mark.parametrize("broker", [1], indirect=True, ids=["TV1"])
def test_T8_a_call_that_takes_too_long_says_what_the_coordinator_answered(sim: Simulation, broker: BrokerNode) -> None:
    producer = new_producer(sim)
    broker.faults.fail_next("InitProducerId", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=100)
    with pytest.raises(TimeoutError, match=r"last: InitProducerId: coordinator of transaction 'x': COORDINATOR_LOAD_IN_PROGRESS"):
        producer.init_transactions(timeout=0.5)
    broker.faults.clear()
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"1", partition=0)
    broker.faults.fail_next("AddPartitionsToTxn", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=100)
    with pytest.raises(TimeoutError, match=r"last: AddPartitionsToTxn: coordinator of transaction 'x': COORDINATOR_LOAD_IN_PROGRESS"):
        producer.commit_transaction(timeout=0.5)


def test_T8_the_timeout_of_a_block_holds_for_offsets_that_the_producer_sends(
    sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer
) -> None:
    begun_ms = sim.now_ms
    with pytest.raises(TransactionAbortableError, match=r"TxnOffsetCommit: .*UNKNOWN_TOPIC_OR_PARTITION"), producer.transaction(timeout=1):
        producer.send_offsets_to_transaction({TopicPartition("not-there", 0): 1}, "g")
    assert sim.now_ms - begun_ms < 2000


@pytest.mark.parametrize("broker", [1], indirect=True, ids=["TV1"])
def test_T8_an_abort_that_was_carried_out_leaves_a_late_initialization_to_the_next_transaction(
    sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer
) -> None:
    producer.begin_transaction()
    producer.send("t", b"1", partition=0)
    producer.flush()
    broker.faults.fail_next("EndTxn", ErrorCode.INVALID_PRODUCER_EPOCH, applied=True)
    broker.faults.blackhole("InitProducerId")
    producer.abort_transaction(timeout=0.5)
    assert state(producer) is State.MUST_INITIALIZE_AGAIN
    broker.faults.clear()
    with producer.transaction():
        producer.send("t", b"2", partition=0)
    assert seen(sim) == [b"2"]


# Records that fail


def test_T9_a_record_that_fails_costs_the_transaction_and_says_so(sim: Simulation, producer: lv.KafkaProducer, broker: BrokerNode) -> None:
    producer.begin_transaction()
    broker.faults.fail_next("Produce", ErrorCode.INVALID_RECORD)
    failed = producer.send("t", b"bad", partition=0)
    sim.advance(100)
    with pytest.raises(TransactionAbortableError, match=r"call abort_transaction\(\); the cause: t-0: .*INVALID_RECORD") as refused:
        producer.send("t", b"later")
    assert refused.value.persisted is Persisted.NO
    error = failed.exception()
    assert error is not None
    assert error.persisted is Persisted.NO
    for call in (producer.commit_transaction, producer.detach_transaction):
        with pytest.raises(TransactionAbortableError) as told:
            call()
        assert told.value.__cause__ is error
    producer.abort_transaction()
    with producer.transaction():
        producer.send("t", b"good")
    assert seen(sim) == [b"good"]


def test_K6_T9_a_record_that_was_never_taken_costs_the_transaction_too(producer: lv.KafkaProducer) -> None:
    producer.begin_transaction()
    assert isinstance(producer.send("t", b"x" * 2_000_000).exception(), RecordTooLargeError)
    with pytest.raises(TransactionAbortableError, match=r"max\.request\.size"):
        producer.commit_transaction()
    producer.abort_transaction()


def test_T9_records_that_wait_fail_with_their_transaction_at_once_and_name_the_cause(sim: Simulation, broker: BrokerNode) -> None:
    producer = new_producer(sim, linger_ms=15_000)
    producer.init_transactions()
    producer.begin_transaction()
    waiting = producer.send("t", b"good")
    refused = producer.send("t", b"x" * 2_000_000).exception()
    assert waiting.done()
    error = waiting.exception()
    assert isinstance(error, TransactionAbortedError)
    assert error.__cause__ is refused
    assert error.persisted is Persisted.NO
    producer.abort_transaction()


def test_T9_a_record_in_flight_fails_with_its_transaction_and_names_the_cause(sim: Simulation, broker: BrokerNode) -> None:
    producer = new_producer(sim)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"first", partition=0).result()
    broker.faults.fail_next("Produce", ErrorCode.NOT_ENOUGH_REPLICAS)
    sim.network.latency_ms = (200, 200)
    in_flight = producer.send("t", b"good", partition=0)
    sim.advance(300)
    refused = producer.send("t", b"x" * 2_000_000).exception()
    assert not in_flight.done()
    sim.advance(1_000)
    error = in_flight.exception()
    assert isinstance(error, TransactionAbortedError)
    assert error.__cause__ is refused
    producer.abort_transaction()


def test_I12_a_record_that_may_be_written_fails_as_unknown_and_the_next_transaction_has_another_epoch(
    sim: Simulation, producer: lv.KafkaProducer, broker: BrokerNode
) -> None:
    before = identity(producer)
    producer.begin_transaction()
    for _ in range(12):
        broker.faults.drop_response("Produce")
    lost = producer.send("t", b"lost", partition=0)
    with pytest.raises(TransactionAbortableError, match=r"delivery\.timeout\.ms"):
        producer.commit_transaction()
    broker.faults.clear()
    error = lost.exception()
    assert error is not None
    assert error.persisted is Persisted.UNKNOWN
    producer.abort_transaction()
    with producer.transaction():
        producer.send("t", b"next", partition=0)
    assert identity(producer) > before
    assert seen(sim) == [b"next"]


def test_I20_45_a_gap_costs_the_transaction(sim: Simulation, producer: lv.KafkaProducer, broker: BrokerNode) -> None:
    with producer.transaction():
        producer.send("t", b"1", partition=0)
    producer.begin_transaction()
    broker.faults.fail_next("Produce", ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    producer.send("t", b"2", partition=0)
    with pytest.raises(TransactionAbortableError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        producer.commit_transaction()
    producer.abort_transaction()
    with producer.transaction():
        producer.send("t", b"3", partition=0)
    assert seen(sim) == [b"1", b"3"]


def test_T10_47_from_a_leader_is_not_fencing_by_itself(sim: Simulation, producer: lv.KafkaProducer, broker: BrokerNode) -> None:
    producer.begin_transaction()
    broker.faults.fail_next("Produce", ErrorCode.INVALID_PRODUCER_EPOCH)
    producer.send("t", b"1")
    with pytest.raises(TransactionAbortableError, match="INVALID_PRODUCER_EPOCH"):
        producer.commit_transaction()
    producer.abort_transaction()
    with producer.transaction():
        producer.send("t", b"2")
    assert seen(sim) == [b"2"]


def test_M_A23_T10_a_producer_that_was_replaced_stays_fenced(sim: Simulation, producer: lv.KafkaProducer) -> None:
    producer.begin_transaction()
    producer.send("t", b"zombie")
    producer.flush()
    with new_producer(sim) as successor:
        successor.init_transactions()
        producer.send("t", b"zombie again")
        with pytest.raises(KafkaError):
            producer.commit_transaction()
        for call in (producer.abort_transaction, producer.abort_transaction, producer.begin_transaction, producer.init_transactions):
            with pytest.raises(ProducerFencedError):
                call()
        assert state(producer) is State.FATAL_ERROR
        with pytest.raises(ProducerFencedError) as fenced:
            producer.send("t", b"v")
        assert fenced.value.fatal
        with successor.transaction():
            successor.send("t", b"new")
    producer.close()
    assert seen(sim) == [b"new"]


@pytest.mark.parametrize("ended_by", ["abort", "commit", "close"])
def test_T10_a_producer_that_was_replaced_leaves_the_open_transaction_of_the_other_alone(
    sim: Simulation, producer: lv.KafkaProducer, ended_by: str
) -> None:
    """InitProducerId would abort that transaction, and fence its producer, before the coordinator compares epochs."""
    producer.begin_transaction()
    producer.send("t", b"zombie")
    producer.flush()
    with new_producer(sim) as successor:
        successor.init_transactions()
        with successor.transaction():
            successor.send("t", b"new").result(timeout=10)
            if ended_by == "close":
                producer.close()
            else:
                with pytest.raises((ProducerFencedError, TransactionAbortableError)):
                    producer.abort_transaction() if ended_by == "abort" else producer.commit_transaction()
                with pytest.raises(ProducerFencedError):
                    producer.abort_transaction()
        with successor.transaction():
            successor.send("t", b"newer")
    assert seen(sim) == [b"new", b"newer"]


@pytest.mark.parametrize("broker", [2], indirect=True, ids=["TV2"])
def test_T10_a_block_of_a_fenced_producer_says_so_first(sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer) -> None:
    with pytest.raises(ProducerFencedError) as refused, producer.transaction():
        take_over(sim)
        producer.send("t", b"1", partition=0)
    assert isinstance(refused.value.__cause__, TransactionAbortableError)
    assert "cause: t-0: the transaction's coordinator" in str(refused.value.__cause__), "the partition is named once"


def test_M_A22_a_transaction_that_took_too_long_is_aborted_and_the_producer_told(sim: Simulation, broker: BrokerNode) -> None:
    producer = new_producer(sim, transaction_timeout_ms=3000)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"late")
    producer.flush()
    sim.advance(5000)
    with pytest.raises((TransactionAbortableError, ProducerFencedError)):
        producer.commit_transaction()
    if is_tv2(broker):
        producer.abort_transaction()
        with producer.transaction():
            producer.send("t", b"next")
        assert seen(sim) == [b"next"]
    else:
        assert seen(sim) == []


# Answers that are lost

STEPS = ["InitProducerId", "FindCoordinator", "Produce", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]
LOSSES = ["answer lost", "request lost"]


PAIRS = [
    pytest.param(pair, id=" then ".join(pair), marks=() if pair == ("answer lost", "request lost") else pytest.mark.matrix)
    for pair in product([*LOSSES, "answer late"], repeat=2)
]


def lose(broker: BrokerNode, api: str, loss: str) -> None:
    if loss == "answer lost":
        broker.faults.drop_response(api)
    elif loss == "answer late":
        broker.faults.delay(api, REQUEST_TIMEOUT_MS - 500)
    else:
        broker.faults.disconnect(api)


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("api", STEPS)
def test_M_B16_a_lost_answer_at_any_step_changes_nothing(sim: Simulation, broker: BrokerNode, api: str, loss: str, commits: bool) -> None:
    producer = new_producer(sim)
    lose(broker, api, loss)
    producer.init_transactions()
    for number in range(2):
        producer.begin_transaction()
        producer.send("t", b"%d" % number, partition=0)
        producer.send_offsets_to_transaction({TopicPartition("t", 0): number + 1}, "g")
        if commits:
            producer.commit_transaction()
        else:
            producer.flush()
            producer.abort_transaction()
        lose(broker, api, loss)
    broker.faults.clear()
    assert seen(sim) == ([b"0", b"1"] if commits else [])
    assert offset_of(sim) == (2 if commits else None)
    with producer.transaction():
        producer.send("t", b"next", partition=0)
    assert seen(sim) == ([b"0", b"1"] if commits else []) + [b"next"]


@pytest.mark.parametrize("api", ["EndTxn", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit"])
def test_M_A21_after_a_lost_answer_the_older_protocol_goes_on_under_another_epoch(sim: Simulation, api: str) -> None:
    """A delayed request would act on the next transaction, which has the same epoch there."""
    broker = add_broker(sim, 1)
    producer = new_producer(sim)
    producer.init_transactions()
    before = identity(producer)
    broker.faults.drop_response(api)
    producer.begin_transaction()
    producer.send("t", b"1")
    producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
    producer.commit_transaction()
    assert state(producer) is State.MUST_INITIALIZE_AGAIN
    producer.begin_transaction()
    assert identity(producer) == (before[0], before[1] + 1)
    producer.commit_transaction()
    assert seen(sim) == [b"1"]


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("late_commit", [True, False], ids=["late commit", "late abort"])
def test_M_A21_an_end_that_arrives_late_does_not_touch_the_next_transaction(
    sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer, commits: bool, late_commit: bool
) -> None:
    late = lv.TransactionHandle("x", *identity(producer), 5 if is_tv2(broker) else 4, (TopicPartition("t", 0),))
    broker.faults.drop_response("EndTxn")
    producer.begin_transaction()
    producer.send("t", b"1", partition=0)
    producer.flush()
    producer.commit_transaction() if late_commit else producer.abort_transaction()
    producer.begin_transaction()
    producer.send("t", b"2", partition=0)
    producer.flush()
    with sim.admin(bootstrap_servers=SERVERS) as admin, pytest.raises(BrokerError, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH"):
        admin.commit_detached(late) if late_commit else admin.abort_detached(late)
    producer.commit_transaction() if commits else producer.abort_transaction()
    assert seen(sim) == [b"1"] * late_commit + [b"2"] * commits


@pytest.mark.parametrize("losses", PAIRS)
@pytest.mark.parametrize("second", STEPS)
@pytest.mark.parametrize("first", STEPS)
def test_M_B16_two_losses_in_one_transaction(sim: Simulation, broker: BrokerNode, first: str, second: str, losses: tuple[str, str]) -> None:
    producer = new_producer(sim)
    lose(broker, first, losses[0])
    lose(broker, second, losses[1])
    with producer.transaction():
        producer.send("t", b"1", partition=0)
        producer.send("t", b"2", partition=1)
        producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
    with pytest.raises(ZeroDivisionError), producer.transaction():
        producer.send("t", b"3", partition=0)
        producer.send_offsets_to_transaction({TopicPartition("t", 0): 2}, "g")
        raise ZeroDivisionError
    broker.faults.clear()
    assert seen(sim) == [b"1", b"2"]
    assert offset_of(sim) == 1


def unknown_commit(sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer, *, applied: bool) -> None:
    """Bring a commit about that gets no answer in time."""
    producer.begin_transaction()
    producer.send("t", b"1", partition=0)
    producer.flush()
    for _ in range(10):
        broker.faults.disconnect("EndTxn", applied=applied)
    with pytest.raises(TransactionOutcomeUnknownError, match=r"whether it was committed is not known; repeat commit_transaction\(\)"):
        producer.commit_transaction(timeout=1)
    broker.faults.clear()
    assert state(producer) is State.OUTCOME_UNKNOWN


@pytest.mark.parametrize("applied", [True, False])
def test_T8_TR53_a_commit_without_an_answer_is_repeated_to_learn_the_outcome(
    sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer, applied: bool
) -> None:
    unknown_commit(sim, broker, producer, applied=applied)
    with pytest.raises(IllegalStateError, match=r"is not sure how its last transaction ended"):
        producer.send("t", b"v")
    producer.commit_transaction()
    with producer.transaction():
        producer.send("t", b"2", partition=0)
    assert seen(sim) == [b"1", b"2"]


@pytest.mark.parametrize("applied", [True, False])
def test_M_P3_another_call_than_the_one_without_an_answer_settles_it_first(
    sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer, applied: bool
) -> None:
    before = identity(producer)
    unknown_commit(sim, broker, producer, applied=applied)
    producer.begin_transaction()
    assert identity(producer) > before
    producer.send("t", b"2", partition=0)
    producer.commit_transaction()
    assert seen(sim) == ([b"1", b"2"] if applied else [b"2"])


@pytest.mark.parametrize("applied", [True, False])
def test_T8_an_abort_after_a_commit_without_an_answer_says_which_of_them_it_was(
    sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer, applied: bool
) -> None:
    unknown_commit(sim, broker, producer, applied=applied)
    if applied:
        with pytest.raises(IllegalStateError, match="it was committed"):
            producer.abort_transaction()
    else:
        producer.abort_transaction()
    with producer.transaction():
        producer.send("t", b"2", partition=0)
    assert seen(sim) == ([b"1", b"2"] if applied else [b"2"])


def take_over(sim: Simulation) -> None:
    """Have another producer of the same transactional id initialized."""
    with new_producer(sim) as other:
        other.init_transactions()


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction", "begin_transaction"])
def test_T8_T10_after_a_takeover_a_commit_without_an_answer_stays_unknown(
    sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer, applied: bool, call: str
) -> None:
    unknown_commit(sim, broker, producer, applied=applied)
    take_over(sim)
    with pytest.raises(ProducerFencedError, match="whether it was committed is not known"):
        getattr(producer, call)()
    assert state(producer) is State.FATAL_ERROR
    assert seen(sim) == ([b"1"] if applied else [])


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction"])
def test_T8_once_the_id_is_forgotten_a_commit_without_an_answer_stays_unknown(
    sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer, applied: bool, call: str
) -> None:
    unknown_commit(sim, broker, producer, applied=applied)
    if not applied:
        broker.time_out_transaction("x")
    broker.expire_transactional_id("x")
    with pytest.raises(TransactionOutcomeUnknownError, match=r"whether it was committed is not known.*begin_transaction\(\) goes on"):
        getattr(producer, call)()
    with producer.transaction():
        producer.send("t", b"2", partition=0)
    assert seen(sim) == ([b"1", b"2"] if applied else [b"2"])


def test_T8_T10_a_takeover_between_two_attempts_of_one_commit_leaves_it_unknown(sim: Simulation, broker: BrokerNode) -> None:
    producer = new_producer(sim, retry_backoff_ms=1000, retry_backoff_max_ms=1000)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"1", partition=0)
    producer.flush()
    broker.faults.disconnect("EndTxn", applied=True)
    broker.faults.fail_next("EndTxn", ErrorCode.PRODUCER_FENCED)
    with pytest.raises(ProducerFencedError, match="whether it was committed is not known"):
        producer.commit_transaction()
    assert seen(sim) == [b"1"]


def test_T8_T10_a_commit_that_is_fenced_at_its_first_attempt_is_not_committed(broker: BrokerNode, producer: lv.KafkaProducer) -> None:
    producer.begin_transaction()
    producer.send("t", b"1", partition=0)
    producer.flush()
    broker.faults.fail_next("EndTxn", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    broker.faults.fail_next("EndTxn", ErrorCode.PRODUCER_FENCED)
    with pytest.raises(ProducerFencedError, match="nothing of it is committed"):
        producer.commit_transaction()


@pytest.mark.parametrize("applied", [True, False])
def test_T8_an_abort_without_an_answer_is_repeated(sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer, applied: bool) -> None:
    producer.begin_transaction()
    producer.send("t", b"1", partition=0)
    producer.flush()
    for _ in range(10):
        broker.faults.disconnect("EndTxn", applied=applied)
    with pytest.raises(TransactionOutcomeUnknownError, match="whether it was aborted is not known"):
        producer.abort_transaction(timeout=1)
    broker.faults.clear()
    with pytest.raises(IllegalStateError, match=r"repeat abort_transaction\(\)"):
        producer.commit_transaction()
    producer.abort_transaction()
    with producer.transaction():
        producer.send("t", b"2", partition=0)
    assert seen(sim) == [b"2"]


def test_T8_a_commit_that_ends_before_it_is_asked_for_leaves_the_transaction_open(
    sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer
) -> None:
    producer.begin_transaction()
    broker.faults.delay("Produce", ms=1500)
    producer.send("t", b"1")
    with pytest.raises(TimeoutError) as late:
        producer.commit_transaction(timeout=1)
    assert not isinstance(late.value, TransactionOutcomeUnknownError)
    assert state(producer) is State.IN_TRANSACTION
    producer.send("t", b"2")
    producer.commit_transaction()
    assert seen(sim) == [b"1", b"2"]


def test_T8_offsets_that_are_not_taken_in_time_cost_the_transaction(
    sim: Simulation, broker: BrokerNode, producer: lv.KafkaProducer
) -> None:
    producer.begin_transaction()
    for _ in range(10):
        broker.faults.disconnect("TxnOffsetCommit", applied=True)
    with pytest.raises(TransactionAbortableError, match=r"not taken in time.*last: TxnOffsetCommit: coordinator of group 'g': NETWORK_EXC"):
        producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g", timeout=1)
    broker.faults.clear()
    with pytest.raises(TransactionAbortableError, match="the offsets of group 'g' were not taken in time"):
        producer.commit_transaction()
    producer.abort_transaction()
    assert offset_of(sim) is None


# Error codes

APIS = ["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit"]


@pytest.mark.parametrize(("api", "times"), [*((api, times) for api in APIS for times in (1, 3)), ("EndTxn", 1)])
def test_M_B7_every_error_code_ends_in_a_commit_or_in_an_error_that_says_what_to_do(api: str, times: int) -> None:
    for code in ErrorCode:
        if code is ErrorCode.NONE or (times > 1 and not code.retriable):
            continue
        with Simulation(seed=7) as sim:
            broker = add_broker(sim, 1)
            producer = new_producer(sim)
            broker.faults.fail_next(api, code, times=times)
            error: KafkaError | None = None
            try:
                with producer.transaction():
                    producer.send("t", b"1", partition=0)
                    producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "g")
            except KafkaError as raised:
                error = raised
            broker.faults.clear()
            if code.retriable:
                assert error is None, code
            if error is None:
                assert seen(sim) == [b"1"], code
            elif error.fatal:
                assert state(producer) is State.FATAL_ERROR, code
                assert seen(sim) == [], code
            else:
                with producer.transaction():
                    producer.send("t", b"2", partition=0)
                assert seen(sim) == [b"2"], code
            producer.close()


def test_T3_an_initialization_that_is_not_allowed_may_be_repeated(sim: Simulation, broker: BrokerNode) -> None:
    producer = new_producer(sim)
    broker.faults.fail_next("InitProducerId", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(TransactionalIdAuthorizationError):
        producer.init_transactions()
    assert state(producer) is State.UNINITIALIZED
    producer.init_transactions()
    with producer.transaction():
        producer.send("t", b"1")
    assert seen(sim) == [b"1"]


def test_T3_producers_that_forget_their_identity_use_a_transactional_id_in_turn(sim: Simulation, broker: BrokerNode) -> None:
    first, second = new_producer(sim), new_producer(sim)
    for number in range(3):
        for producer in (first, second):
            producer._forget_identity()
            producer.init_transactions()
            with producer.transaction():
                producer.send("t", b"%d" % number, partition=0)
    assert seen(sim) == [b"0", b"0", b"1", b"1", b"2", b"2"]
    with pytest.raises(ProducerFencedError), first.transaction():
        first.send("t", b"fenced", partition=0)


def test_T3_an_identity_is_not_forgotten_within_a_transaction(sim: Simulation, broker: BrokerNode) -> None:
    producer = new_producer(sim)
    producer.init_transactions()
    producer.begin_transaction()
    with pytest.raises(IllegalStateError, match=r"forget_identity\(\)"):
        producer._forget_identity()
    producer.abort_transaction()
    producer._forget_identity()
    with pytest.raises(IllegalStateError, match=r"init_transactions\(\)"):
        producer.begin_transaction()


def test_T3_a_timeout_beyond_the_brokers_limit_is_named(sim: Simulation, broker: BrokerNode) -> None:
    producer = new_producer(sim, transaction_timeout_ms=1_000_000)
    with pytest.raises(BrokerError, match=r"transactional id 'x'.*transaction\.max\.timeout\.ms; lower .*: INVALID_TRANSACTION_TIMEOUT"):
        producer.init_transactions()


def test_T3_a_timeout_beyond_the_brokers_limit_is_halved_until_they_allow_it(sim: Simulation, broker: BrokerNode) -> None:
    producer = new_producer(sim, transaction_timeout_ms=3_000_000, transaction_timeout_clamp=True)
    producer.init_transactions()
    described = sim.admin(bootstrap_servers=SERVERS).describe_transactions(["x"])
    assert described["x"].timeout_ms == 750_000
    with producer.transaction():
        producer.send("t", b"v")
    assert seen(sim) == [b"v"]


def test_T3_a_broker_that_allows_less_than_a_second_is_an_error(sim: Simulation) -> None:
    add_broker(sim, 2, transaction_max_timeout_ms=900)
    producer = new_producer(sim, transaction_timeout_ms=3_000_000, transaction_timeout_clamp=True)
    with pytest.raises(BrokerError, match="INVALID_TRANSACTION_TIMEOUT"):
        producer.init_transactions()


# The end


def test_D3_topics_are_forgotten_once_their_epoch_has_passed(sim: Simulation, broker: BrokerNode) -> None:
    broker.create_topic("once", 1)
    producer = new_producer(sim, metadata_max_idle_ms=5000, metadata_max_age_ms=1000)
    with producer.transaction():
        producer.send("once", b"v")
    for _ in range(10):
        sim.advance(1000)
        with producer.transaction():
            producer.send("t", b"v")
    assert ("once" in producer._core.accumulator.topics) is not is_tv2(broker)
    with producer.transaction():
        producer.send("once", b"again")
    records = sim.scan("once", bootstrap_servers=SERVERS, isolation_level="read_committed")
    assert [record.value for record in records] == [b"v", b"again"]


def test_K10_close_aborts_what_is_open(sim: Simulation, broker: BrokerNode, caplog: pytest.LogCaptureFixture) -> None:
    producer = new_producer(sim, transaction_timeout_ms=600_000)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"sent")
    producer.flush()
    dropped = producer.send("t", b"not sent")
    with caplog.at_level("WARNING"):
        producer.close()
    assert [text for text in caplog.messages if "1 of them were not acknowledged" in text]
    assert isinstance(dropped.exception(), TransactionAbortedError)
    assert seen(sim) == []
    with new_producer(sim) as successor, successor.transaction():
        successor.send("t", b"next")
    assert seen(sim) == [b"next"], "nothing holds the last stable offset back"
