"""KafkaProducer as a program sees it, on the embedded broker: threads, callbacks, waiting and closing."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import levada as lv
from levada.errors import (
    AbortedError,
    BufferExhaustedError,
    ClosedError,
    IllegalStateError,
    KafkaError,
    Persisted,
    RecordTooLargeError,
    SerializationError,
    TimeoutError,
    UnknownTopicOrPartitionError,
)
from levada.testing import EmbeddedKafka
from odd_error import OddError

PATIENCE_S = 20


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(num_partitions=1) as kafka:
        yield kafka


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name[:60]}-{time.monotonic_ns()}".translate(str.maketrans("[]", "--"))


@pytest.fixture
def producer(kafka: EmbeddedKafka) -> Iterator[lv.KafkaProducer]:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        yield producer


def read(kafka: EmbeddedKafka, topic: str) -> list[Any]:
    return list(lv.scan(topic, bootstrap_servers=kafka.bootstrap_servers))


def test_a_record_that_never_got_a_partition_names_its_topic_only(producer: lv.KafkaProducer, topic: str) -> None:
    assert repr(producer.send(topic, b"x" * (1 << 21))).startswith(f"<Delivery to {topic}: a record for topic ")


def test_a_handle_shows_the_state_of_its_record(producer: lv.KafkaProducer, topic: str) -> None:
    delivery = producer.send(topic, b"v", timestamp=datetime(2020, 1, 1, tzinfo=UTC))
    assert repr(delivery) == f"<Delivery to {topic}-0: pending>"
    metadata = delivery.result(timeout=PATIENCE_S)
    assert metadata == (topic, 0, 0, 1_577_836_800_000, -1, 1)
    assert delivery.done()
    assert delivery.exception() is None
    assert "offset=0" in repr(delivery)


def test_headers_may_be_a_mapping(producer: lv.KafkaProducer, kafka: EmbeddedKafka, topic: str) -> None:
    producer.send(topic, b"v", headers={"a": b"1", "b": None}).result(timeout=PATIENCE_S)
    assert [tuple(header) for header in read(kafka, topic)[0].headers] == [("a", b"1"), ("b", None)]


def test_headers_take_text_as_keys_and_values_do(producer: lv.KafkaProducer, kafka: EmbeddedKafka, topic: str) -> None:
    producer.send(topic, "v", headers={"a": "é"}).result(timeout=PATIENCE_S)
    producer.send_many(topic, [("k", "v", [("b", "2"), ("b", None)])])[0].result(timeout=PATIENCE_S)
    assert [[tuple(header) for header in record.headers] for record in read(kafka, topic)] == [
        [("a", "é".encode())],
        [("b", b"2"), ("b", None)],
    ]


def test_bytes_like_values_are_copied_when_they_are_sent(producer: lv.KafkaProducer, kafka: EmbeddedKafka, topic: str) -> None:
    value = bytearray(b"before")
    producer.send(topic, value)
    producer.send(topic, memoryview(value)[:3])
    value[:] = b"after!"
    producer.flush(PATIENCE_S)
    assert [record.value for record in read(kafka, topic)] == [b"before", b"bef"]


@pytest.mark.parametrize("fault", [RuntimeError("cannot"), OddError("cannot")])
def test_K6_a_serializer_that_fails_is_the_callers_to_see(kafka: EmbeddedKafka, topic: str, fault: Exception) -> None:
    def refuse(value: object) -> bytes:
        raise fault

    with (
        lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, value_serializer=refuse) as producer,
        pytest.raises(SerializationError, match="cannot"),
    ):
        producer.send(topic, 1)


def test_many_threads_send_and_each_keeps_its_order(kafka: EmbeddedKafka, topic: str) -> None:
    settings: dict[str, Any] = {"batch_size": 2000, "linger_ms": 1, "buffer_memory": 40_000, "compression_type": "lz4"}
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **settings) as producer:

        def work(worker: int) -> None:
            for number in range(2000):
                producer.send(topic, b"%d-%d" % (worker, number))

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
    values = [record.value.split(b"-") for record in read(kafka, topic)]
    for worker in range(4):
        assert [int(number) for who, number in values if int(who) == worker] == list(range(2000))


def test_B5_the_buffer_blocks_and_then_says_so(kafka: EmbeddedKafka, topic: str) -> None:
    called: list[tuple[lv.RecordMetadata, KafkaError | None]] = []
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, buffer_memory=20_000, max_block_ms=300) as producer:
        producer.send(topic, b"x").result(timeout=PATIENCE_S)
        kafka.faults.delay("Produce", ms=1500)
        first = producer.send(topic, b"x" * 15_000)
        started = time.monotonic()
        second = producer.send(topic, b"x" * 15_000, on_delivery=lambda metadata, error: called.append((metadata, error)))
        assert 0.25 < time.monotonic() - started < 1.2
        with pytest.raises(BufferExhaustedError, match=r"buffer\.memory=20000 .*max\.block\.ms=300"):
            second.result()
        assert first.result(timeout=PATIENCE_S).offset == 1
    assert len(called) == 1
    metadata, error = called[0]
    assert (metadata.offset, error) == (-1, second.exception())


def test_back_pressure_is_no_error_when_the_broker_keeps_up(kafka: EmbeddedKafka, topic: str) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, buffer_memory=50_000) as producer:
        deliveries = [producer.send(topic, b"x" * 1000) for _ in range(2000)]
    assert [delivery.exception() for delivery in deliveries] == [None] * 2000


def test_A22_flush_is_refused_in_a_callback_and_so_is_waiting(producer: lv.KafkaProducer, topic: str) -> None:
    found: list[BaseException] = []
    delivery: list[Any] = []

    def callback(metadata: lv.RecordMetadata, error: KafkaError | None) -> None:
        for call in (producer.flush, lambda: delivery[0].result()):
            try:
                call()
            except IllegalStateError as refused:
                found.append(refused)

    delivery.append(producer.send(topic, b"v", on_delivery=callback))
    producer.flush(PATIENCE_S)
    assert len(found) == 2
    assert "flush() in an on_delivery callback" in str(found[0])
    assert delivery[0].done()


def test_A25_whoever_waited_for_a_record_finds_its_callback_done(producer: lv.KafkaProducer, topic: str) -> None:
    called: list[int] = []

    def slow(metadata: lv.RecordMetadata, error: KafkaError | None) -> None:
        time.sleep(0.05)
        called.append(metadata.offset)

    for number in range(3):
        assert producer.send(topic, b"v", on_delivery=slow).result(timeout=PATIENCE_S).offset == number
        assert called == list(range(number + 1))


@pytest.mark.parametrize("wait", ["flush", "exception", "close"])
def test_A25_a_record_that_was_never_sent_is_done_after_its_callback(producer: lv.KafkaProducer, topic: str, wait: str) -> None:
    called: list[KafkaError | None] = []

    def slow(metadata: lv.RecordMetadata, error: KafkaError | None) -> None:
        time.sleep(0.3)
        called.append(error)

    delivery = producer.send(topic, b"x" * 2_000_000, on_delivery=slow)
    assert not delivery.done()
    delivery.exception() if wait == "exception" else getattr(producer, wait)()
    assert called == [delivery.exception()]
    assert isinstance(called[0], RecordTooLargeError)
    assert delivery.done()


@pytest.mark.parametrize("callback", [None, lambda metadata, error: None])
def test_A4_a_record_beyond_buffer_memory_fails_by_its_handle_also_beside_an_open_batch(
    kafka: EmbeddedKafka, topic: str, callback: Any
) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, buffer_memory=100_000, linger_ms=1_000) as producer:
        first = producer.send(topic, b"small")
        assert isinstance(producer.send(topic, b"x" * 150_000, on_delivery=callback).exception(PATIENCE_S), RecordTooLargeError)
        producer.flush(PATIENCE_S)
        assert first.exception(PATIENCE_S) is None


def test_A25_a_callback_that_raises_is_over_too(producer: lv.KafkaProducer, topic: str) -> None:
    delivery = producer.send(topic, b"x" * 2_000_000, on_delivery=lambda metadata, error: 1 / 0)
    producer.flush(PATIENCE_S)
    assert delivery.done()


def test_sending_from_a_callback_works(producer: lv.KafkaProducer, kafka: EmbeddedKafka, topic: str) -> None:
    answered = threading.Event()

    def chain(metadata: lv.RecordMetadata, error: KafkaError | None) -> None:
        producer.send(topic, b"second", on_delivery=lambda metadata, error: answered.set())

    producer.send(topic, b"first", on_delivery=chain)
    assert answered.wait(PATIENCE_S)
    assert [record.value for record in read(kafka, topic)] == [b"first", b"second"]


@pytest.mark.parametrize("partitioner", [None, lambda topic, key, count: 0], ids=["default", "own"])
def test_a_callback_does_not_wait_for_a_topic(partitioner: Any) -> None:
    """It would hold up every other callback and the heartbeats of the I/O thread."""
    refused: list[KafkaError | None] = []
    waited_s: list[float] = []
    with EmbeddedKafka(auto_create_topics_enable=False) as kafka:
        kafka.create_topic("there")
        settings: dict[str, Any] = {"partitioner": partitioner, "max_block_ms": 30_000}
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **settings) as producer:

            def send_on(metadata: lv.RecordMetadata, error: KafkaError | None) -> None:
                began = time.monotonic()
                refused.append(producer.send("missing", b"v").exception(timeout=0))
                with pytest.raises(KafkaError) as raised:
                    producer.send_arrow("missing", pa.table({"value": [b"v"]}), value="value")
                refused.append(raised.value)
                waited_s.append(time.monotonic() - began)

            producer.send("there", b"v", on_delivery=send_on).result(timeout=PATIENCE_S)
    assert [error.persisted for error in refused if error is not None] == [Persisted.NO] * 2
    assert waited_s[0] < 15


def test_a_partitioner_of_ones_own_leaves_the_error_to_the_delivery() -> None:
    with EmbeddedKafka(auto_create_topics_enable=False) as kafka:
        settings: dict[str, Any] = {"partitioner": lambda topic, key, count: 0, "max_block_ms": 300}
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **settings) as producer:
            delivery = producer.send("missing", b"v")
            error = delivery.exception()
    assert isinstance(error, UnknownTopicOrPartitionError)
    assert error.persisted is Persisted.NO


@pytest.mark.parametrize(
    ("settings", "record"),
    [
        ({}, {"value": "\u00fc", "key": "\u00fc"}),
        ({"value_serializer": str.encode, "key_serializer": str.encode}, {"value": "v", "key": "k"}),
        ({"partitioner": lambda topic, key, count: 0}, {"value": b"v", "key": b"k"}),
        ({"interceptors": [lv.ProducerInterceptor()]}, {"value": b"v"}),
        ({}, {"value": b"v", "key": b"k", "headers": [("trace", b"a1"), ("none", None), ("\u00fc", "\u00fc")]}),
    ],
    ids=["text", "serializers", "partitioner", "interceptor", "headers"],
)
def test_a_record_that_fits_into_an_open_batch_costs_no_step_of_the_engine(
    kafka: EmbeddedKafka, topic: str, settings: dict[str, Any], record: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=60_000, **settings) as producer:
        sent = [producer.send(topic, **record)]
        with monkeypatch.context() as patched:
            patched.setattr(producer._driver, "call", lambda steps: pytest.fail("send() took the way that can wait"))
            sent += [producer.send(topic, **record) for _ in range(10)]
        producer.flush(PATIENCE_S)
        assert [delivery.result().offset for delivery in sent] == list(range(11))
    first, *others = read(kafka, topic)
    assert {(other.key, other.value, tuple(other.headers)) for other in others} == {(first.key, first.value, tuple(first.headers))}


@pytest.mark.parametrize("in_header", [True, False])
def test_code_of_a_record_may_take_until_its_batch_is_sent(kafka: EmbeddedKafka, topic: str, in_header: bool) -> None:
    class Slow(str):
        __slots__ = ()

        def encode(self, *encoding: Any) -> bytes:
            time.sleep(0.2)
            return str.encode(self)

    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=50) as producer:
        producer.send(topic, b"first").result(PATIENCE_S)
        producer.send(topic, b"open")
        producer.send(topic, b"last" if in_header else Slow("last"), headers=[(Slow("h") if in_header else "h", b"x")])
    assert [record.value for record in read(kafka, topic)] == [b"first", b"open", b"last"]


def test_headers_of_subclasses_are_sent_as_what_they_hold(kafka: EmbeddedKafka, topic: str) -> None:
    class Name(str):
        __slots__ = ()

        def encode(self, *encoding: Any) -> bytes:
            raise AssertionError("code of a header ran")

        __str__ = __len__ = encode  # type: ignore[assignment]

    class Value(bytes):
        __slots__ = ()

        def __len__(self) -> int:
            return 1_000_000

        def __bytes__(self) -> bytes:
            return b"another"

    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for _ in range(2):  # In a new batch, then in an open one.
            producer.send(topic, b"v", headers=[(Name("n"), Value(b"bytes")), ("text", Name("text"))])
    assert [list(record.headers) for record in read(kafka, topic)] == [[("n", b"bytes"), ("text", b"text")]] * 2


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_a_signal_handler_that_raises_makes_no_record_twice(kafka: EmbeddedKafka, topic: str) -> None:
    class Late(Exception):
        pass

    armed = False

    def raise_late(*_: Any) -> None:
        if armed:
            raise Late

    before = signal.signal(signal.SIGALRM, raise_late)
    try:
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=0, value_serializer=str.encode) as producer:
            producer.send(topic, "0").result(PATIENCE_S)
            for number in range(1, 2_000):
                try:
                    armed = True
                    signal.setitimer(signal.ITIMER_REAL, 1e-6 * (number % 60 + 1))
                    producer.send(topic, str(number))
                    armed = False
                except (Late, SerializationError):
                    armed = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    values = [record.value for record in read(kafka, topic)]
    assert len(values) == len(set(values)) > 0


def test_an_error_of_a_partitioner_is_raised_for_a_new_topic_too(kafka: EmbeddedKafka) -> None:
    def refuse(topic: str, key: bytes | None, count: int) -> int:
        raise RecordTooLargeError("mine")

    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, partitioner=refuse) as producer:
        for _ in range(2):
            with pytest.raises(RecordTooLargeError, match="mine"):
                producer.send("new", b"v")


def test_a_time_out_of_the_caller_leaves_the_record_on_its_way(producer: lv.KafkaProducer, kafka: EmbeddedKafka, topic: str) -> None:
    producer.send(topic, b"0").result(timeout=PATIENCE_S)
    kafka.faults.delay("Produce", ms=500)
    delivery = producer.send(topic, b"1")
    with pytest.raises(TimeoutError, match=f"{topic}-0: the acknowledgement of a record"):
        delivery.result(timeout=0.1)
    with pytest.raises(TimeoutError, match="flush"):
        producer.flush(timeout=0.1)
    assert delivery.result(timeout=PATIENCE_S).offset == 1


def test_K24_close_waits_no_longer_than_it_is_told(kafka: EmbeddedKafka, topic: str) -> None:
    called: list[KafkaError | None] = []
    producer = lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    producer.send(topic, b"0").result(timeout=PATIENCE_S)
    kafka.faults.delay("Produce", ms=2000)
    delivery = producer.send(topic, b"1", on_delivery=lambda metadata, error: called.append(error))
    with pytest.raises(ValueError, match="-1"):
        producer.close(timeout=-1)
    started = time.monotonic()
    producer.close(timeout=0.3)
    assert time.monotonic() - started < 1.5
    with pytest.raises(ClosedError, match="closed before the record was acknowledged; persisted: unknown") as raised:
        delivery.result()
    assert raised.value.persisted is Persisted.UNKNOWN
    assert called == [raised.value]
    with pytest.raises(ClosedError) as refused:
        producer.send(topic, b"2")
    assert refused.value.persisted is Persisted.NO
    with pytest.raises(ClosedError):
        producer.flush()


def test_K7_close_in_a_callback_does_not_wait_for_itself(kafka: EmbeddedKafka, topic: str) -> None:
    producer = lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    closed = threading.Event()

    def close(metadata: lv.RecordMetadata, error: KafkaError | None) -> None:
        producer.close()
        closed.set()

    producer.send(topic, b"v", on_delivery=close)
    assert closed.wait(PATIENCE_S)
    with pytest.raises(ClosedError):
        producer.send(topic, b"v")


@pytest.mark.parametrize("partitioner", [None, lambda topic, key, count: 0], ids=["default", "own"])
def test_M_P3_a_send_that_close_ends_while_it_waits_for_metadata_was_not_written(partitioner: Any) -> None:
    errors: list[ClosedError] = []
    with EmbeddedKafka(auto_create_topics_enable=False) as kafka:
        producer = lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, partitioner=partitioner)

        def blocked() -> None:
            with pytest.raises(ClosedError) as raised:
                producer.send("missing", b"x")
            errors.append(raised.value)

        thread = threading.Thread(target=blocked)
        thread.start()
        time.sleep(0.2)
        producer.close()
        thread.join(PATIENCE_S)
    assert errors[0].persisted is Persisted.NO


def test_B9_close_fails_a_send_that_waits_for_memory(kafka: EmbeddedKafka, topic: str) -> None:
    producer = lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, buffer_memory=20_000)
    producer.send(topic, b"x").result(timeout=PATIENCE_S)
    kafka.faults.delay("Produce", ms=1000)
    producer.send(topic, b"x" * 15_000)
    errors: list[BaseException] = []

    def blocked() -> None:
        try:
            producer.send(topic, b"x" * 15_000)
        except ClosedError as error:
            errors.append(error)

    thread = threading.Thread(target=blocked)
    thread.start()
    time.sleep(0.2)
    producer.close()
    thread.join(PATIENCE_S)
    assert "closed during a wait of send() for buffer.memory" in str(errors[0])


def test_M_P3_rows_taken_before_close_ends_a_wait_for_memory_keep_their_outcome(kafka: EmbeddedKafka, topic: str) -> None:
    kafka.create_topic(topic, 1)
    producer = lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, buffer_memory=100_000, batch_size=16_384, linger_ms=0)
    # Made first: pyarrow looks for pandas at its first array, which takes a second on a busy machine.
    rows = pa.table({"v": pa.array([b"x" * 900] * 1_000)})
    kafka.faults.delay("Produce", ms=600)

    def close_once_it_waits() -> None:
        while not producer.metrics().value("waiting-threads"):
            time.sleep(0.005)
        producer.close()

    closing = threading.Thread(target=close_once_it_waits)
    closing.start()
    report = producer.send_arrow(topic, rows, value="v").report(PATIENCE_S)
    closing.join(PATIENCE_S)
    written = len(read(kafka, topic))
    assert 0 < written < 1_000
    assert report == (1_000, 1_000 - written)


def test_an_exception_in_the_with_block_still_delivers_what_was_sent(kafka: EmbeddedKafka, topic: str) -> None:
    with pytest.raises(RuntimeError, match="mine"), lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=3000) as producer:
        delivery = producer.send(topic, b"v")
        raise RuntimeError("mine")
    assert delivery.result().offset == 0


def test_P2_a_partitioner_of_ones_own(kafka: EmbeddedKafka, topic: str) -> None:
    kafka.create_topic(topic, 4)
    asked: list[tuple[str, bytes | None, int]] = []

    def last(topic: str, key: bytes | None, count: int) -> int:
        asked.append((topic, key, count))
        return count - 1

    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, partitioner=last) as producer:
        assert producer.send(topic, b"v", b"k").result(timeout=PATIENCE_S).partition == 3
        assert producer.send(topic, b"v", partition=1).result(timeout=PATIENCE_S).partition == 1
    assert asked == [(topic, b"k", 4)]


def test_a_partitioner_that_errs_is_named(kafka: EmbeddedKafka, topic: str) -> None:
    with (
        lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, partitioner=lambda topic, key, count: -1) as producer,
        pytest.raises(ValueError, match="the partitioner chose partition -1"),
    ):
        producer.send(topic, b"v")


def test_a_negative_partition_is_a_mistake(producer: lv.KafkaProducer, topic: str) -> None:
    with pytest.raises(ValueError, match="partition -1"):
        producer.send(topic, b"v", partition=-1)


def test_P2_keys_may_be_ignored(kafka: EmbeddedKafka, topic: str) -> None:
    kafka.create_topic(topic, 8)
    settings: dict[str, Any] = {"partitioner_ignore_keys": True, "batch_size": 200, "linger_ms": 0}
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **settings) as producer:
        deliveries = [producer.send(topic, b"x" * 50, b"same key") for _ in range(200)]
    assert len({delivery.result().partition for delivery in deliveries}) > 1


# Columns


def test_P7_a_partitioner_of_ones_own_chooses_for_columns_too(kafka: EmbeddedKafka, topic: str) -> None:
    kafka.create_topic(topic, 4)
    table = pa.table({"v": ["a", "b", "c", "d"], "k": ["1", "2", None, "3"], "p": pa.array([None, 0, None, None], pa.int32())})

    def by_number(topic: str, key: bytes | None, count: int) -> int:
        return int(key or b"0")

    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, partitioner=by_number) as producer:
        sent = producer.send_arrow(topic, table, value="v", key="k", partition="p").to_arrow(PATIENCE_S)
    assert sent["partition"].to_pylist() == [1, 0, 0, 3]


def test_P7_round_robin_for_columns_and_records(kafka: EmbeddedKafka, topic: str) -> None:
    kafka.create_topic(topic, 3)
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, partitioner=lv.RoundRobin()) as producer:
        sent = producer.send_arrow(topic, pa.table({"v": ["a", "b", "c", "d"]}), value="v").to_arrow(PATIENCE_S)
        assert sent["partition"].to_pylist() == [0, 1, 2, 0]
        assert producer.send(topic, b"e").result(PATIENCE_S).partition == 1


def test_a_partitioner_that_errs_is_named_for_columns_too(kafka: EmbeddedKafka, topic: str) -> None:
    with (
        lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, partitioner=lambda topic, key, count: 9) as producer,
        pytest.raises(ValueError, match="the partitioner chose partition 9"),
    ):
        producer.send_arrow(topic, pa.table({"v": ["a"]}), value="v")


def test_keys_of_columns_may_be_ignored(kafka: EmbeddedKafka, topic: str) -> None:
    kafka.create_topic(topic, 8)
    table = pa.table({"v": [b"x" * 50] * 400, "k": ["same key"] * 400})
    settings: dict[str, Any] = {"partitioner_ignore_keys": True, "batch_size": 200}
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **settings) as producer:
        sent = producer.send_arrow(topic, table, value="v", key="k").to_arrow(PATIENCE_S)
    assert len(set(sent["partition"].to_pylist())) > 1


def test_columns_are_taken_with_back_pressure(kafka: EmbeddedKafka, topic: str) -> None:
    kafka.create_topic(topic, 3)
    table = pa.table({"payload": [b"%06d" % n + b"x" * 94 for n in range(20_000)]})
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, buffer_memory=300_000, batch_size=50_000) as producer:
        delivery = producer.send_arrow(topic, table, value="payload")
        assert delivery.result(timeout=PATIENCE_S) == (20_000, 0)
    assert sorted(record.value for record in read(kafka, topic)) == sorted(table["payload"].to_pylist())


def test_columns_come_behind_the_records_sent_before_them(producer: lv.KafkaProducer, kafka: EmbeddedKafka, topic: str) -> None:
    producer.send(topic, b"before")
    producer.send_arrow(topic, pa.table({"v": ["columns"]}), value="v")
    producer.send(topic, b"after")
    producer.flush(PATIENCE_S)
    assert [record.value for record in read(kafka, topic)] == [b"before", b"columns", b"after"]


def test_rows_that_do_not_fit_fail_and_the_others_do_not(kafka: EmbeddedKafka, topic: str) -> None:
    table = pa.table({"payload": [b"x" * 1000] * 30})
    settings: dict[str, Any] = {"buffer_memory": 12_000, "batch_size": 10_500, "max_block_ms": 1000}
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **settings) as producer:
        producer.send(topic, b"x").result(timeout=PATIENCE_S)
        kafka.faults.delay("Produce", ms=3000)
        delivery = producer.send_arrow(topic, table, value="payload")
        report = delivery.report(timeout=PATIENCE_S)
        assert report.rows == 30
        assert 0 < report.failed < 30
        with pytest.raises(BufferExhaustedError):
            delivery.result()
        errors = delivery.to_arrow()["error"]
    assert errors.null_count == 30 - report.failed
    assert len(read(kafka, topic)) == 1 + 30 - report.failed


def test_a_column_that_is_not_there_is_refused_at_once(producer: lv.KafkaProducer, topic: str) -> None:
    with pytest.raises(SerializationError, match="paylod"):
        producer.send_arrow(topic, pa.table({"payload": ["x"]}), value="paylod")


def test_no_rows_are_no_error(producer: lv.KafkaProducer, topic: str) -> None:
    delivery = producer.send_arrow(topic, pa.table({"v": pa.array([], pa.string())}), value="v")
    assert delivery.done()
    assert delivery.result() == (0, 0)
    assert delivery.to_arrow().num_rows == 0


def test_A23_a_callback_may_give_up_what_is_pending(kafka: EmbeddedKafka, topic: str) -> None:
    given_up: list[int] = []
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=60_000, batch_size=200) as producer:
        producer.partitions_for(topic)
        producer.send(topic, b"x" * 300, on_delivery=lambda metadata, error: given_up.append(producer.abort_pending())).result(PATIENCE_S)
        pending = [producer.send(topic, b"lingers") for _ in range(3)]
        producer.send(topic, b"x" * 300, on_delivery=lambda metadata, error: given_up.append(producer.abort_pending())).result(PATIENCE_S)
        errors = [delivery.exception(PATIENCE_S) for delivery in pending]
    assert given_up[0] == 0
    assert all(error is None or isinstance(error, AbortedError) for error in errors)


def test_A23_records_are_given_up_while_threads_send(kafka: EmbeddedKafka, topic: str) -> None:
    settings: dict[str, Any] = {"batch_size": 2000, "linger_ms": 1, "buffer_memory": 60_000, "compression_type": "lz4"}
    sent: list[list[lv.Delivery]] = [[], []]
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, **settings) as producer:

        def work(worker: int) -> None:
            for number in range(3000):
                sent[worker].append(producer.send(topic, b"%d-%d" % (worker, number)))

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(2)]
        for thread in threads:
            thread.start()
        count = 0
        while any(thread.is_alive() for thread in threads):
            count += producer.abort_pending()
        producer.flush(PATIENCE_S)
        failed = [delivery.exception() for deliveries in sent for delivery in deliveries]
    pool = producer._producing.core.pool
    assert pool.available == pool.total
    dropped = [error for error in failed if error is not None]
    assert len(dropped) == count
    assert all(isinstance(error, AbortedError) for error in dropped)
    written = [record.value for record in read(kafka, topic)]
    assert len(set(written)) == len(written), "a record was doubled"
    certain = [error for error in dropped if error.persisted is Persisted.NO]
    assert len(written) <= 6000 - len(certain)
    assert len(written) >= 6000 - len(dropped)
