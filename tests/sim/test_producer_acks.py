"""ack= of send(), send_many() and send_arrow(): however a record ends, its sequence is marked or failed, once, in virtual time (Q4, Q9)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from levada import AckBuffer, KafkaProducer
from levada.broker.node.node import BrokerNode
from levada.error_codes import ErrorCode
from levada.errors import (
    BufferExhaustedError,
    ClosedError,
    ClusterAuthorizationError,
    DeliveryTimeout,
    InvalidRecordError,
    KafkaError,
    NotAcknowledgedError,
    Persisted,
    RecordTooLargeError,
    SerializationError,
    UnknownTopicOrPartitionError,
)
from levada.interceptors import ProducerInterceptor
from levada.producer.delivery.delivery import Delivery
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS
from producer_kit import SimProducer, values
from sim_kit import HOST, PORT
from sim_kit import broker as add_broker


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=21) as sim:
        yield sim


@pytest.fixture
def broker(sim: Simulation) -> BrokerNode:
    node = add_broker(sim, wall_offset_ms=EPOCH_MS, auto_create_topics_enable=False)
    node.create_topic("t", 3)
    node.create_topic("small", 1, {"max.message.bytes": "500"})
    return node


@pytest.fixture
def buffer() -> AckBuffer:
    return AckBuffer(1000, retain=False)


def a_producer(sim: Simulation, **settings: Any) -> KafkaProducer:
    return sim.producer(bootstrap_servers=f"{HOST}:{PORT}", **settings)


def failures(buffer: AckBuffer) -> dict[Any, BaseException | None]:
    """What each failed id failed with. Puts all of them again."""
    found = {}
    while (failure := buffer.failure) is not None:
        found[failure.id] = failure.__cause__
        buffer.put(failure.id)
    return found


def test_Q1_acknowledgements_of_several_partitions_become_one_prefix(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    with a_producer(sim, linger_ms=0, batch_size=1) as producer:
        seen = []
        for number in range(300):
            if number % 50 == 20:
                broker.faults.fail_next("Produce", ErrorCode.NOT_ENOUGH_REPLICAS, topic="t", times=2)
            producer.send("t", b"%d" % number, partition=number % 3, ack=(buffer, buffer.put(number)))
            sim.advance(5)
            seen.append((buffer.safe or 0, buffer.in_flight))
        producer.flush()

    prefixes = [safe for safe, _ in seen]
    assert prefixes == sorted(prefixes)
    assert max(in_flight for _, in_flight in seen) > 3, "a partition was held up while others went on"
    assert buffer.safe == 299
    assert sorted(int(value or b"") for partition in range(3) for value in values(broker, "t", partition)) == list(range(300))


def test_Q4_a_batch_marks_all_its_sequences_when_it_is_acknowledged(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    producer = SimProducer(sim, linger_ms=100)
    producer.send("t", partition=0).result()
    told: list[tuple[int, int]] = []
    for number in range(20):
        producer.send(
            "t", partition=0, ack=(buffer, buffer.put(number)), on_delivery=lambda *_: told.append((buffer.safe, buffer.in_flight))
        )
    sim.advance(90)
    assert (buffer.safe, buffer.in_flight) == (None, 20)

    producer.flush()

    assert told == [(19, 0)] * 20, "before the callbacks"
    assert producer.core.pool.available == producer.core.pool.total


def test_Q4_records_of_one_batch_may_be_acknowledged_to_several_buffers(sim: Simulation, broker: BrokerNode) -> None:
    producer = SimProducer(sim, linger_ms=100)
    buffers = [AckBuffer(10) for _ in range(3)]
    woken: list[int] = []
    for turn in range(4):
        for number, buffer in enumerate(buffers):
            producer.send("t", partition=0, ack=(buffer, buffer.put(turn)))
            if turn == 0:
                buffer._await_change(lambda number=number: woken.append(number), room=False)  # type: ignore[misc]
    producer.flush()
    assert [buffer.safe for buffer in buffers] == [3, 3, 3]
    assert sorted(woken) == [0, 1, 2]


def test_Q4_a_lost_answer_that_is_asked_for_again_marks_once(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    producer = SimProducer(sim, request_timeout_ms=1000)
    broker.faults.drop_response("Produce")
    producer.send("t", b"once", partition=0, ack=(buffer, buffer.put(1)))
    sim.advance(900)
    assert buffer.safe is None

    producer.flush()

    assert buffer.safe == 1
    assert not buffer.mark(0)
    assert values(broker, "t") == [b"once"]


def test_Q9_the_parts_of_a_split_batch_settle_their_own_records(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    other = AckBuffer(10)
    producer = SimProducer(sim)
    for number, size in enumerate((100, 100, 700, 100, 700, 100)):
        producer.send("small", b"x" * size, ack=(buffer, buffer.put(number)))
    producer.send("small", b"y", ack=(other, other.put("y")))
    producer.send("small", b"z")
    producer.flush()

    assert buffer.safe == 1
    found = failures(buffer)
    assert list(found) == [2, 4]
    assert all(isinstance(error, RecordTooLargeError) and error.persisted is Persisted.NO for error in found.values())
    assert buffer.mark_many([2, 4]) == 2
    assert (buffer.safe, other.safe) == (5, "y")
    assert [len(value or b"") for value in values(broker, "small")] == [100, 100, 100, 100, 1, 1]
    assert producer.core.pool.available == producer.core.pool.total


def test_Q9_each_record_fails_with_its_own_error(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    broker.create_topic("compacted", 1, {"cleanup.policy": "compact"})
    producer = SimProducer(sim)
    for number, key in enumerate((b"k", None, b"k")):
        producer.send("compacted", key=key, ack=(buffer, buffer.put(number)))
    producer.flush()

    assert buffer.safe is None
    texts = [str(error) for error in failures(buffer).values()]
    assert ["without a key" in text for text in texts] == [False, True, False]
    assert ["other records of its batch" in text for text in texts] == [True, False, True]


def test_Q9_a_batch_that_expires_fails_its_sequences_and_a_late_answer_marks_nothing(
    sim: Simulation, broker: BrokerNode, buffer: AckBuffer
) -> None:
    producer = SimProducer(sim, delivery_timeout_ms=10_000, request_timeout_ms=30_000)
    producer.send("t", partition=0, ack=(buffer, buffer.put(0))).result()
    broker.faults.delay("Produce", ms=12_000)
    for number in range(1, 4):
        producer.send("t", partition=0, ack=(buffer, buffer.put(number)))
    sim.advance(10_500)
    assert buffer.safe == 0
    found = failures(buffer)
    assert list(found) == [1, 2, 3]
    assert all(isinstance(error, DeliveryTimeout) and error.persisted is Persisted.UNKNOWN for error in found.values())

    sim.advance(5000)

    assert (buffer.safe, buffer.in_flight, buffer.failure) == (0, 3, None)


def test_Q9_a_closed_producer_fails_what_it_gives_up(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    producer = a_producer(sim, linger_ms=60_000)
    producer.send("t", partition=0, ack=(buffer, buffer.put(0)))
    producer.flush()
    producer.send("t", partition=0, ack=(buffer, buffer.put(1)))
    producer.send("t", partition=1, ack=(buffer, buffer.put(2)))

    producer.close(timeout=0)

    assert buffer.safe == 0
    found = failures(buffer)
    assert [type(error) for error in found.values()] == [ClosedError, ClosedError]


def test_Q9_a_producer_that_cannot_go_on_fails_what_it_holds(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    producer = SimProducer(sim)
    broker.faults.fail_next("InitProducerId", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, times=2)
    for number in range(3):
        producer.send("t", partition=number, ack=(buffer, buffer.put(number)))
    producer.flush()

    assert [type(error) for error in failures(buffer).values()] == [ClusterAuthorizationError] * 3


Refuse = Callable[[Callable[..., Delivery], Any], object]
REFUSALS: dict[str, tuple[type[KafkaError], dict[str, Any], Refuse]] = {
    "too large": (RecordTooLargeError, {"max_request_size": 5000}, lambda send, ack: send("t", b"x" * 9000, ack=ack)),
    "no topic": (UnknownTopicOrPartitionError, {"max_block_ms": 500}, lambda send, ack: send("missing", ack=ack)),
    "no partition": (UnknownTopicOrPartitionError, {"max_block_ms": 500}, lambda send, ack: send("t", partition=9, ack=ack)),
    "no memory": (
        BufferExhaustedError,
        {"max_block_ms": 500, "buffer_memory": 20_000, "linger_ms": 60_000},
        lambda send, ack: [send("t", b"x" * 9000, partition=0, ack=None if number < 5 else ack) for number in range(6)],
    ),
}


@pytest.mark.parametrize("callback", [False, True], ids=["", "with a callback"])
@pytest.mark.parametrize("why", REFUSALS)
def test_Q9_a_record_that_is_not_taken_fails_its_sequence(
    sim: Simulation, broker: BrokerNode, buffer: AckBuffer, why: str, callback: bool
) -> None:
    kind, settings, refuse = REFUSALS[why]
    producer = SimProducer(sim, **settings)
    called: list[Any] = []
    send = partial(producer.send, on_delivery=lambda *told: called.append(told)) if callback else producer.send
    producer.send("t", partition=1).result()
    if why == "no memory":
        sim.network.stop(HOST, PORT)

    refuse(send, (buffer, buffer.put("id")))

    found = failures(buffer)
    assert [type(error) for error in found.values()] == [kind]
    assert isinstance(found["id"], KafkaError)
    assert found["id"].persisted is Persisted.NO


def test_Q9_a_send_that_raises_fails_the_sequence(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    sequence = buffer.put(1)
    producer = a_producer(sim)
    wrong: Any = object()
    with pytest.raises(KafkaError):
        producer.send("t", wrong, ack=(buffer, sequence))
    with pytest.raises(ValueError, match="partition -5"):
        producer.send("t", partition=-5, ack=(buffer, sequence))
    producer.close()
    with pytest.raises(ClosedError):
        producer.send("t", ack=(buffer, sequence))

    assert [type(error) for error in failures(buffer).values()] == [SerializationError], "the first error counts"


@pytest.mark.parametrize("ack", [5, (), (5, 5), (AckBuffer(1), "0"), (AckBuffer(1), True), [AckBuffer(1), 0]])
def test_Q4_an_ack_is_a_buffer_and_a_sequence(sim: Simulation, broker: BrokerNode, ack: Any) -> None:
    table = pa.table({"value": ["a"]})
    with a_producer(sim) as producer:
        for send in (lambda: producer.send("t", b"v", ack=ack), lambda: producer.send_arrow("t", table, value="value", ack=ack)):
            with pytest.raises(TypeError, match="ack is a pair of an AckBuffer and a sequence"):
                send()


@pytest.mark.parametrize("sequence", [-1, 2, 1 << 70])
def test_Q4_a_sequence_that_was_never_put_is_refused_at_the_call(sim: Simulation, broker: BrokerNode, sequence: int) -> None:
    table = pa.table({"value": ["a"]})
    buffer = AckBuffer(4)
    buffer.put(1)
    buffer.put(2)
    ack = (buffer, sequence)
    with a_producer(sim) as producer:
        for send in (lambda: producer.send("t", b"v", ack=ack), lambda: producer.send_arrow("t", table, value="value", ack=ack)):
            with pytest.raises(ValueError, match=f"has not returned a sequence {sequence}"):
                send()
        producer.send("t", b"v", ack=(buffer, 1)).result()
    assert (buffer.in_flight, buffer.safe) == (2, None)


def test_Q9_a_failure_that_a_buffer_was_told_of_is_not_warned_about(
    sim: Simulation, broker: BrokerNode, buffer: AckBuffer, caplog: pytest.LogCaptureFixture
) -> None:
    with a_producer(sim, max_request_size=5000) as producer:
        producer.send("small", b"x" * 700, ack=(buffer, buffer.put(1)))
        producer.send("small", b"x" * 9000, ack=(buffer, buffer.put(2)))
        producer.send_arrow("small", pa.table({"value": ["x" * 700]}), value="value", ack=(buffer, buffer.put(3)))
        producer.flush()

    assert list(failures(buffer)) == [1, 2, 3]
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_Q9_a_record_that_is_sent_again_makes_the_buffer_go_on(sim: Simulation, broker: BrokerNode) -> None:
    buffer = AckBuffer(2, retain=False)
    producer = a_producer(sim, delivery_timeout_ms=2000, request_timeout_ms=1000)
    producer.send("t", b"0", partition=0, ack=(buffer, buffer.put(0)))
    producer.flush()
    broker.faults.fail_next("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=1000)
    producer.send("t", b"1", partition=0, ack=(buffer, buffer.put(1)))
    producer.flush()
    broker.faults.clear()
    producer.send("t", b"2", partition=0, ack=(buffer, buffer.put(2)))
    producer.flush()

    with pytest.raises(NotAcknowledgedError) as failed:
        buffer.put(3)
    assert failed.value.id == 1
    assert failed.value.retriable
    producer.send("t", b"1", partition=0, ack=(buffer, buffer.put(failed.value.id)))
    producer.flush()

    assert buffer.safe == 2
    assert buffer.put(3) == 3
    assert values(broker, "t") == [b"0", b"2", b"1"]
    producer.close()


def test_Q9_what_the_program_gives_up_fails_its_sequences(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    with a_producer(sim, linger_ms=60_000) as producer:
        producer.send("t", partition=0, ack=(buffer, buffer.put(0)))
        producer.flush()
        producer.send("t", partition=0, ack=(buffer, buffer.put(1)))
        producer.abort_pending()

        assert buffer.safe == 0
        [error] = failures(buffer).values()
        assert isinstance(error, KafkaError)
        assert error.persisted is Persisted.NO


def test_Q9_an_aborted_transaction_fails_what_it_had_not_sent(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    with a_producer(sim, transactional_id="x", linger_ms=60_000) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", partition=0, ack=(buffer, buffer.put(0)))
        assert buffer.safe == 0
        producer.begin_transaction()
        producer.send("t", partition=0, ack=(buffer, buffer.put(1)))
        producer.flush()
        producer.send("t", partition=0, ack=(buffer, buffer.put(2)))
        producer.abort_transaction()

        assert buffer.safe == 1, "it was written, if in vain"
        assert list(failures(buffer)) == [2]


def test_Q4_interceptors_and_an_ack_go_together(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    class Marked(ProducerInterceptor):
        def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
            seen.append((buffer.safe, error))

    seen: list[Any] = []
    with a_producer(sim, interceptors=[Marked()]) as producer:
        producer.send("t", partition=0, ack=(buffer, buffer.put(0)))
        producer.flush()
    assert seen == [(0, None)]


# Columns


def rows(count: int, size: int = 10, partitions: int = 3) -> pa.Table:
    return pa.table(
        {"value": pa.array([b"x" * size] * count), "partition": pa.array([number % partitions for number in range(count)], pa.int32())}
    )


def test_Q4_one_sequence_stands_for_all_rows_of_a_table(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    with a_producer(sim, batch_size=1000, linger_ms=50) as producer:
        producer.send_arrow("t", rows(500), value="value", partition="partition", ack=(buffer, buffer.put(500)))
        broker.faults.fail_next("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, topic="t")
        producer.send_arrow("t", rows(7), value="value", partition="partition", ack=(buffer, buffer.put(507)))
        assert buffer.safe is None
        producer.flush()
        assert buffer.safe == 507
        producer.send_arrow("t", rows(0), value="value", partition="partition", ack=(buffer, buffer.put(508)))
        assert buffer.safe == 508


def test_Q9_a_table_fails_with_the_error_of_its_first_failed_row(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    with a_producer(sim, max_request_size=5000) as producer:
        too_large = pa.table({"value": [b"a", b"x" * 9000, b"c", b"x" * 9001]})
        delivery = producer.send_arrow("t", too_large, value="value", ack=(buffer, buffer.put(4)))
        assert buffer.failure is None, "not before all rows are done"
        refused = producer.send_arrow("small", rows(5, size=700, partitions=1), value="value", ack=(buffer, buffer.put(9)))
        producer.flush()

    found = failures(buffer)
    assert [str(error).partition(":")[0] for error in found.values()] == ["row 1 for topic 't'", "small-0"]
    assert (found[4], found[9]) == (delivery.exception(), refused.exception())


def test_Q9_a_table_that_a_close_cuts_off_fails(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    producer = a_producer(sim, linger_ms=60_000)
    producer.send_arrow("t", rows(5), value="value", partition="partition", ack=(buffer, buffer.put(4)))

    producer.close(timeout=0)

    assert [type(error) for error in failures(buffer).values()] == [ClosedError]


def test_Q9_a_send_arrow_that_raises_fails_the_sequence(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    class Unreadable(Exception):
        pass

    def pieces() -> Iterator[pa.RecordBatch]:
        yield from rows(20_000).to_batches()
        raise Unreadable

    with a_producer(sim) as producer:
        reader = pa.RecordBatchReader.from_batches(rows(0).schema, pieces())
        with pytest.raises(Unreadable):
            producer.send_arrow("t", reader, value="value", partition="partition", ack=(buffer, buffer.put(1)))
        producer.flush()

    assert [type(error) for error in failures(buffer).values()] == [Unreadable]


def test_Q9_invalid_rows_fail_the_sequence(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    with a_producer(sim) as producer:
        producer.send_arrow("t", pa.table({"value": ["a"], "when": [-5]}), value="value", timestamp="when", ack=(buffer, buffer.put(1)))
    assert [type(error) for error in failures(buffer).values()] == [InvalidRecordError]


def test_Q4_one_sequence_stands_for_all_records_of_a_send_many(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    with a_producer(sim, batch_size=1000, linger_ms=50) as producer:
        broker.faults.fail_next("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, topic="t")
        producer.send_many("t", (b"x" * 100 for _ in range(200)), ack=(buffer, buffer.put(200)))
        assert buffer.safe is None
        producer.flush()
        assert buffer.safe == 200
        producer.send_many("t", [], ack=(buffer, buffer.put(201)))
        assert buffer.safe == 201


def test_Q9_a_send_many_fails_with_the_error_of_its_first_failed_record(
    sim: Simulation, broker: BrokerNode, buffer: AckBuffer, caplog: pytest.LogCaptureFixture
) -> None:
    with a_producer(sim, max_request_size=5000) as producer:
        sent = producer.send_many("t", [b"a", b"x" * 9000, b"c", b"x" * 9001], ack=(buffer, buffer.put(4)))
        producer.flush()
        found = failures(buffer)
        assert [type(error) for error in found.values()] == [RecordTooLargeError]
        assert found[4] is sent[1].exception()
    assert not caplog.records, "the buffer has told of the failures, so that there is no warning about them"


def test_Q9_a_send_many_that_raises_fails_the_sequence(sim: Simulation, broker: BrokerNode, buffer: AckBuffer) -> None:
    wrong: Any = [b"a", b"b", 5]
    not_put: Any = (buffer, 17)
    with a_producer(sim) as producer:
        with pytest.raises(SerializationError):
            producer.send_many("t", wrong, ack=(buffer, buffer.put(1)))
        with pytest.raises(ValueError, match="has not returned a sequence 17"):
            producer.send_many("t", [b"never"], ack=not_put)
        producer.flush()
        assert len(values(broker, "t")) == 2

    assert [type(error) for error in failures(buffer).values()] == [SerializationError]
