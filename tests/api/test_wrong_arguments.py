"""Arguments of the wrong type are named where they are passed, and leave the client as it was."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import pytest

import levada as lv
from levada import aio
from levada.errors import (
    ConfigError,
    IllegalStateError,
    InvalidTopicError,
    Persisted,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from levada.producer.append.appender import CODES_KEPT
from levada.protocol.messages.metadata import MetadataRequest
from levada.testing import EmbeddedKafka

TP = lv.TopicPartition("orders", 0)
NAMED = "write TopicPartition('orders', 0), or take partitions_for('orders')"


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(auto_create_topics_enable=False) as embedded:
        embedded.create_topic("orders")
        yield embedded


@pytest.fixture
def producer(kafka: EmbeddedKafka) -> Iterator[lv.KafkaProducer]:
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, max_block_ms=5000) as client:
        yield client
        assert client.send("orders", b"it still works").result(timeout=5).topic == "orders"


@pytest.fixture
def consumer(kafka: EmbeddedKafka) -> Iterator[lv.KafkaConsumer]:
    with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers, default_api_timeout_ms=5000) as client:
        yield client
        assert client.beginning_offsets([TP]) == {TP: 0}


@pytest.fixture
def admin(kafka: EmbeddedKafka) -> Iterator[lv.KafkaAdmin]:
    with lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as client:
        yield client
        assert "orders" in client.list_topics()


@pytest.fixture
def client(kafka: EmbeddedKafka) -> Iterator[lv.KafkaClient]:
    with lv.KafkaClient(bootstrap_servers=kafka.bootstrap_servers) as client:
        yield client


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        (b"orders", "a topic is named by a str, got b'orders'"),
        (None, "a topic is named by a str, got None"),
        (5, "a topic is named by a str, got 5"),
        (["orders"], r"a topic is named by a str, got \['orders'\]|unhashable type: 'list'"),
    ],
)
@pytest.mark.parametrize(
    "use",
    [
        lambda producer, topic: producer.send(topic, b"x"),
        lambda producer, topic: producer.send(topic, b"x", partition=0),
        lambda producer, topic: producer.send_arrow(topic, None, value="x"),
        lambda producer, topic: producer.partitions_for(topic),
    ],
)
def test_a_topic_is_named_by_a_str(
    producer: lv.KafkaProducer, use: Callable[[lv.KafkaProducer, Any], object], topic: object, text: str
) -> None:
    with pytest.raises(TypeError, match=f"^{text}$"):
        use(producer, topic)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"partition": "0"}, "partition must be a whole number, got '0'"),
        ({"partition": 0.0}, "partition must be a whole number, got 0.0"),
        ({"timestamp": 1.5}, "a time in milliseconds must be a whole number, got 1.5"),
        ({"timestamp": "now"}, "a time in milliseconds must be a whole number, got 'now'"),
        ({"headers": [("trace", 5)]}, "header 'trace' has a value of type int; values are bytes, str (sent in UTF-8) or None"),
        ({"headers": [(b"trace", b"x")]}, "header b'trace' has a name of type bytes; names are str"),
        ({"headers": ["trace"]}, "headers are pairs of a name and a value, or a mapping; got 'trace'"),
        ({"headers": "trace"}, "headers are pairs of a name and a value, or a mapping; got 't'"),
    ],
    ids=repr,
)
def test_a_record_is_checked(producer: lv.KafkaProducer, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError) as raised:
        producer.send("orders", b"x", **arguments)
    assert str(raised.value) == text


@pytest.mark.parametrize("timestamp", [-1, (1 << 63) - 1, 1 << 63, 1 << 70])
def test_a_timestamp_outside_of_what_a_record_can_hold_is_refused(producer: lv.KafkaProducer, timestamp: int) -> None:
    with pytest.raises(ValueError, match=rf"{timestamp}.*milliseconds since the epoch"):
        producer.send("orders", b"x", timestamp=timestamp)


@pytest.mark.parametrize("column", [[b"x"], b"x", 0, {"trace": b"x"}], ids=repr)
@pytest.mark.parametrize("name", ["key", "value", "headers", "timestamp", "partition"])
def test_what_is_sent_of_columns_is_named(producer: lv.KafkaProducer, name: str, column: object) -> None:
    """The data have the values; the argument says in which column."""
    with pytest.raises(TypeError, match=rf"topic 'orders': {name} is the name of a column of the data.*got {type(column).__name__}"):
        producer.send_arrow("orders", None, **cast(Any, {"value": "payload", name: column}))


def test_several_columns_need_a_format(producer: lv.KafkaProducer) -> None:
    with pytest.raises(TypeError, match=r"got list\. With value_format, such as value_format='json', it may be a list of columns"):
        producer.send_arrow("orders", None, **cast(Any, {"value": ["id", "item"]}))


@pytest.mark.parametrize(("name", "column"), [("partition", 0), ("timestamp", ["at"]), ("value", 5)])
def test_what_is_sent_of_columns_is_named_beside_a_format(producer: lv.KafkaProducer, name: str, column: object) -> None:
    with pytest.raises(TypeError, match=rf"topic 'orders': {name} is the name of a column of the data.*got {type(column).__name__}"):
        producer.send_arrow("orders", None, **cast(Any, {"value": ["payload"], "value_format": "json", name: column}))


@pytest.mark.parametrize("part", ["key", "value"])
def test_columns_do_not_pass_a_serializer_by(kafka: EmbeddedKafka, part: str) -> None:
    """Rows are written as they are: unserialized ones would damage the topic, and nothing would say so."""
    rows = {part: ["a"], "other": ["b"]}
    other = "value" if part == "key" else "key"
    settings: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap_servers, f"{part}_serializer": str.encode}

    def check(refused: pytest.ExceptionInfo[IllegalStateError], call: str) -> None:
        text = (
            f"{call}: this producer has a {part}_serializer, which is not applied to columns, so that column 'v' would be written as it is"
        )
        assert str(refused.value).startswith(text)
        assert refused.value.persisted is Persisted.NO

    with lv.KafkaProducer(settings) as producer:
        with pytest.raises(IllegalStateError) as refused:
            producer.send_arrow("orders", rows, **cast(Any, {part: "v"}))
        check(refused, "send_arrow()")
        with pytest.raises(IllegalStateError) as refused:
            producer.seal_arrow("orders", rows, **cast(Any, {part: "v"}))
        check(refused, "seal_arrow()")
        pyarrow = pytest.importorskip("pyarrow")
        sent = producer.send_arrow("orders", pyarrow.table(rows), **cast(Any, {other: "other"}))
        assert sent.result(timeout=5).rows == 1

    async def on_asyncio() -> None:
        async with aio.KafkaProducer(settings) as producer:
            with pytest.raises(IllegalStateError) as refused:
                await producer.send_arrow("orders", rows, **cast(Any, {part: "v"}))
            check(refused, "send_arrow()")

    asyncio.run(on_asyncio())


@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize(
    "read",
    [lambda scan: scan.to_table(), lambda scan: list(scan.arrow()), lambda scan: scan.to_reader(), lambda scan: scan.__arrow_c_stream__()],
)
def test_a_scan_with_a_deserializer_is_not_read_as_columns(part: str, read: Callable[[Any], object]) -> None:
    scan: Any = lv.scan("orders", {"bootstrap.servers": "nowhere:9092", f"{part}.deserializer": int})
    with pytest.raises(
        IllegalStateError, match=f"^this scan has a {part}_deserializer, which is not applied to columns; iterate over the scan"
    ):
        read(scan)


def test_a_deserializer_of_what_a_scan_does_not_read_is_no_fault(kafka: EmbeddedKafka) -> None:
    pytest.importorskip("pyarrow")
    found = lv.scan("orders", bootstrap_servers=kafka.bootstrap_servers, columns=["offset"], value_deserializer=int)
    assert found.to_table().column_names == ["offset"]


def test_a_time_to_look_up_that_no_request_can_hold_is_refused(consumer: lv.KafkaConsumer) -> None:
    with pytest.raises(ValueError, match="too far in the future"):
        consumer.offsets_for_times({TP: 1 << 63})


def test_columns_must_be_named(producer: lv.KafkaProducer) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="nothing to send to topic 'orders': name the columns, as in"):
        producer.send_arrow("orders", pyarrow.table({"key": ["a"], "value": ["b"]}))


def test_whole_numbers_of_numpy_are_whole_numbers(producer: lv.KafkaProducer) -> None:
    numpy = pytest.importorskip("numpy")
    written = producer.send("orders", b"x", partition=numpy.int64(0), timestamp=numpy.int64(1_000)).result(timeout=5)
    assert (written.partition, written.timestamp) == (0, 1_000)
    assert type(written.timestamp) is int


@pytest.mark.parametrize("name", ["a b", "", ".."])
def test_an_illegal_name_says_what_is_legal(producer: lv.KafkaProducer, name: str) -> None:
    with pytest.raises(InvalidTopicError, match=r"topic '.*': a topic's name is 1 to 249 of a-z"):
        producer.send(name, b"x").result(timeout=5)


NO_REQUEST_CARRIES = pytest.mark.parametrize("name", ["\ud800", "x" * 250, "x" * 40_000], ids=["no UTF-8", "too long", "much too long"])


@NO_REQUEST_CARRIES
@pytest.mark.parametrize(
    "use",
    [
        lambda producer, topic: producer.send(topic, b"x"),
        lambda producer, topic: producer.send(topic, b"x", partition=0),
        lambda producer, topic: producer.partitions_for(topic),
    ],
)
def test_a_name_that_no_request_can_carry_leaves_the_producer_working(
    producer: lv.KafkaProducer, use: Callable[[lv.KafkaProducer, Any], object], name: str
) -> None:
    """Among the topics that metadata is asked about, it would keep every other one from being asked about."""
    with pytest.raises(InvalidTopicError, match=r"topic '.*': a topic's name is 1 to 249 of a-z|x'\.\.\., \d+ characters long: ") as raised:
        use(producer, name)
    assert raised.value.persisted is lv.Persisted.NO
    str(raised.value).encode()


@NO_REQUEST_CARRIES
@pytest.mark.parametrize(
    "use",
    [
        lambda consumer, topic: consumer.assign([TP, lv.TopicPartition(topic, 0)]),
        lambda consumer, topic: consumer.end_offsets([TP, lv.TopicPartition(topic, 0)]),
        lambda consumer, topic: consumer.partitions_for(topic),
    ],
)
def test_a_name_that_no_request_can_carry_leaves_the_consumer_working(
    consumer: lv.KafkaConsumer, use: Callable[[lv.KafkaConsumer, Any], object], name: str
) -> None:
    with pytest.raises(InvalidTopicError):
        use(consumer, name)


@NO_REQUEST_CARRIES
def test_a_name_that_no_request_can_carry_is_not_scanned(kafka: EmbeddedKafka, name: str) -> None:
    with pytest.raises(InvalidTopicError):
        lv.scan(name, bootstrap_servers=kafka.bootstrap_servers)
    with pytest.raises(InvalidTopicError):
        lv.scan(assignments={TP: (0, 5), lv.TopicPartition(name, 0): (0, 5)}, bootstrap_servers=kafka.bootstrap_servers)


@NO_REQUEST_CARRIES
def test_a_topic_whose_name_no_request_can_carry_cannot_be_administered(admin: lv.KafkaAdmin, name: str) -> None:
    for use in (lambda: admin.describe_topics([name]), lambda: admin.create_topics([lv.NewTopic(name)])):
        with pytest.raises(InvalidTopicError):
            use()


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (
            lambda consumer: consumer.assign("orders"),
            "expected a list of TopicPartition, got 'orders'; write partitions_for('orders') for all partitions of the topic, "
            "[TopicPartition('orders', 0)] for one; or subscribe(['orders']) to share them in a group",
        ),
        (lambda consumer: consumer.assign(TP), f"expected a list of TopicPartition, got {TP!r}; write [{TP!r}]"),
        (lambda consumer: consumer.assign(["orders"]), f"expected TopicPartition(topic, partition), got 'orders'; {NAMED}"),
        (lambda consumer: consumer.assign(("orders", 0)), f"expected TopicPartition(topic, partition), got 'orders'; {NAMED}"),
        (lambda consumer: consumer.assign(5), "expected a list of TopicPartition, got 5"),
        (lambda consumer: consumer.assign([("orders", "0")]), "partition must be a whole number, got '0'"),
        (lambda consumer: consumer.end_offsets(TP), f"expected a list of TopicPartition, got {TP!r}; write [{TP!r}]"),
        (lambda consumer: consumer.position("orders"), f"expected TopicPartition(topic, partition), got 'orders'; {NAMED}"),
        (lambda consumer: consumer.partitions_for(b"orders"), "a topic is named by a str, got b'orders'"),
        (lambda consumer: [consumer.assign([TP]), consumer.seek(TP, "5")], "offset must be a whole number, got '5'"),
        (lambda consumer: [consumer.assign([TP]), consumer.poll("1")], "a timeout is a number of seconds or None, got '1'"),
        (lambda consumer: consumer.list_topics(timeout="1"), "a timeout is a number of seconds or None, got '1'"),
        (
            lambda consumer: [consumer.assign([TP]), consumer.poll_arrow(columns="value")],
            "expected a list of columns, such as ['key', 'value'], got 'value'; write ['value']",
        ),
        (
            lambda consumer: [consumer.assign([TP]), consumer.poll_arrow(text=True)],
            "expected a list of columns that hold text, such as ['key', 'value'], got True",
        ),
    ],
)
def test_what_is_read_is_checked(consumer: lv.KafkaConsumer, use: Callable[[lv.KafkaConsumer], object], text: str) -> None:
    with pytest.raises(TypeError) as raised:
        use(consumer)
    assert str(raised.value) == text


FOREIGN_KEYWORDS: dict[str, tuple[Callable[[Any], object], str]] = {
    "timestamp_ms": (
        lambda producer: producer.send("t", b"x", timestamp_ms=5),
        "send() has no argument 'timestamp_ms'; it is called timestamp, in milliseconds since the epoch, or an aware datetime",
    ),
    "callback": (
        lambda producer: producer.send("t", b"x", callback=print),
        "send() has no argument 'callback'; it is called on_delivery, a function of the record's metadata and the error",
    ),
    "acks": (
        lambda producer: producer.send("t", b"x", acks=1),
        "send() has no argument 'acks'; it is an option of the client, as in KafkaProducer(acks=...)",
    ),
    "value_serializer": (
        lambda producer: producer.send_many("t", [b"x"], value_serializer=str),
        "send_many() has no argument 'value_serializer'; it is an option of the client, as in KafkaProducer(value_serializer=...)",
    ),
    "header": (lambda producer: producer.send("t", b"x", header=[]), "send() has no argument 'header'; did you mean 'headers'?"),
    "something": (lambda producer: producer.send("t", b"x", something=1), "send() has no argument 'something'"),
    "timeout_ms": (
        lambda consumer: consumer.poll(timeout_ms=5),
        "poll() has no argument 'timeout_ms'; it is called timeout, and is in seconds",
    ),
    "asynchronous": (
        lambda consumer: consumer.commit(asynchronous=False),
        "commit() has no argument 'asynchronous'; commit() waits, commit_async() does not",
    ),
    "metadata": (
        lambda consumer: consumer.committed([TP], metadata=True),
        "committed() has no argument 'metadata'; leave it out; an OffsetAndMetadata is returned",
    ),
    "timeout_ms of another": (
        lambda admin: admin.delete_topics([], timeout_ms=5),
        "delete_topics() has no argument 'timeout_ms'; it is called timeout, and is in seconds",
    ),
    "on_assign": (
        lambda consumer: consumer.subscribe(["t"], on_assign=print),
        "subscribe() has no argument 'on_assign'; did you mean 'on_assigned'?",
    ),
    "autocommit": (
        lambda consumer: consumer.close(autocommit=False),
        "close() has no argument 'autocommit'; leave it out; close() commits where enable.auto.commit is set",
    ),
    "timeout of position": (
        lambda consumer: consumer.position(TP, timeout_ms=5),
        "position() has no argument 'timeout_ms'; it is called timeout, and is in seconds",
    ),
    "operation_timeout": (
        lambda admin: admin.create_topics([], operation_timeout=5),
        "create_topics() has no argument 'operation_timeout'; it is called timeout, and is for the whole call",
    ),
}


@pytest.mark.parametrize("name", FOREIGN_KEYWORDS)
def test_an_argument_of_another_client_is_answered_with_ours(kafka: EmbeddedKafka, name: str) -> None:
    use, text = FOREIGN_KEYWORDS[name]
    kind = f"Kafka{use.__code__.co_varnames[0].title()}"

    async def on_asyncio() -> str:
        async with getattr(aio, kind)(bootstrap_servers=kafka.bootstrap_servers) as client:
            with pytest.raises(TypeError) as raised:
                await cast(Any, use(client))
        return str(raised.value)

    with getattr(lv, kind)(bootstrap_servers=kafka.bootstrap_servers) as client, pytest.raises(TypeError) as raised:
        use(client)
    assert str(raised.value) == f"{kind}.{text}"
    assert asyncio.run(on_asyncio()) == f"{kind}.{text}"


USES_OF_A_TIMEOUT: dict[str, Callable[[Any, float], Any]] = {
    "producer result": lambda producer, timeout: producer.send("orders", b"x").result(timeout=timeout),
    "producer flush": lambda producer, timeout: producer.flush(timeout=timeout),
    "producer close": lambda producer, timeout: producer.close(timeout=timeout),
    "consumer poll": lambda consumer, timeout: [consumer.assign([TP]), consumer.seek(TP, 0), consumer.poll(timeout=timeout)],
    "consumer poll_arrow": lambda consumer, timeout: [consumer.assign([TP]), consumer.seek(TP, 0), consumer.poll_arrow(timeout=timeout)],
    "consumer end_offsets": lambda consumer, timeout: consumer.end_offsets([TP], timeout=timeout),
    "consumer close": lambda consumer, timeout: consumer.close(timeout=timeout),
    "admin list_topics": lambda admin, timeout: admin.list_topics(timeout=timeout),
    "admin close": lambda admin, timeout: admin.close(timeout=timeout),
    "client request": lambda client, timeout: client.request(MetadataRequest(), timeout=timeout),
}


@pytest.fixture
def api(kafka: EmbeddedKafka, use: str) -> Iterator[Any]:
    """The client that a use of a timeout is about; there is a record to be read."""
    with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send("orders", b"x")
    with getattr(lv, f"Kafka{use.split()[0].title()}")(bootstrap_servers=kafka.bootstrap_servers) as api:
        yield api


@pytest.mark.parametrize("use", USES_OF_A_TIMEOUT)
@pytest.mark.parametrize("timeout", [float("inf"), 1e308, 1e15])
def test_a_timeout_without_end_is_no_limit(api: Any, use: str, timeout: float) -> None:
    USES_OF_A_TIMEOUT[use](api, timeout)


@pytest.mark.parametrize("use", USES_OF_A_TIMEOUT)
def test_a_timeout_must_be_a_number(api: Any, use: str) -> None:
    with pytest.raises(ValueError, match="a timeout is a number of seconds or None, got nan"):
        USES_OF_A_TIMEOUT[use](api, float("nan"))


@pytest.mark.parametrize("use", USES_OF_A_TIMEOUT)
def test_a_timeout_must_not_be_negative(api: Any, use: str) -> None:
    with pytest.raises(ValueError, match="a timeout must not be negative, got -1 seconds"):
        USES_OF_A_TIMEOUT[use](api, -1)


@pytest.mark.parametrize("use", [use for use in USES_OF_A_TIMEOUT if use.endswith("close")])
def test_a_close_that_is_refused_closes_nothing(api: Any, use: str) -> None:
    with pytest.raises(ValueError, match="negative"):
        USES_OF_A_TIMEOUT[use](api, -1)
    api._driver.check_usable()


@pytest.mark.parametrize(
    ("topics", "text"),
    [
        ("orders", "expected a list of NewTopic, got 'orders'; write [NewTopic('orders')]"),
        (["orders"], "expected NewTopic(name, ...), got 'orders'; write NewTopic('orders')"),
        (lv.NewTopic("orders"), "expected a list of NewTopic, got NewTopic("),
        ([lv.NewTopic("new", partitions="3")], "partitions must be a whole number, got '3'"),  # type: ignore[arg-type]
    ],
)
def test_topics_to_create_are_checked(admin: lv.KafkaAdmin, topics: Any, text: str) -> None:
    with pytest.raises(TypeError) as raised:
        admin.create_topics(topics)
    assert str(raised.value).startswith(text)


def test_settings_of_a_topic_may_be_numbers(kafka: EmbeddedKafka, admin: lv.KafkaAdmin) -> None:
    admin.create_topics([lv.NewTopic("kept", config={"retention.ms": 60_000})])  # type: ignore[dict-item]
    assert "kept" in admin.list_topics()


def test_an_error_code_is_reported_once(any_kafka: Any, new_topic: Callable[..., str]) -> None:
    known = new_topic(any_kafka)
    with lv.KafkaAdmin(bootstrap_servers=any_kafka.bootstrap_servers) as admin:
        _check_that_codes_are_told_once(admin, known)


def _check_that_codes_are_told_once(admin: lv.KafkaAdmin, known: str) -> None:
    with pytest.raises(TopicAlreadyExistsError) as exists:
        admin.create_topics([lv.NewTopic(known)])
    with pytest.raises(UnknownTopicOrPartitionError) as unknown:
        admin.delete_topics(["nowhere"])
    assert str(exists.value).count("TOPIC_ALREADY_EXISTS") == 1
    assert str(unknown.value).count("UNKNOWN_TOPIC_OR_PARTITION") == 1


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy], ids=lambda copied: copied.__name__)
@pytest.mark.parametrize("kind", ["producer", "consumer", "admin", "client"])
def test_M_B19_a_client_is_not_pickled(
    kind: str, copied: Callable[[Any], object], request: pytest.FixtureRequest, kafka: EmbeddedKafka
) -> None:
    with pytest.raises(TypeError, match=r"a Kafka\w+ holds connections and a thread, and cannot be pickled or copied; create one where"):
        copied(request.getfixturevalue(kind))


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy], ids=lambda copied: copied.__name__)
def test_a_delivery_is_not_pickled(copied: Callable[[Any], object], producer: lv.KafkaProducer[Any, Any]) -> None:
    with pytest.raises(TypeError, match="a Delivery belongs to the process of its producer, and cannot be pickled or copied; hand over"):
        copied(producer.send("orders", b"v"))


@pytest.mark.parametrize("is_known", [False, True])
def test_what_cannot_be_called_is_no_on_delivery(producer: lv.KafkaProducer[Any, Any], is_known: bool) -> None:
    if is_known:
        producer.send("orders", b"v").result(timeout=10)
    with pytest.raises(TypeError, match=r"on_delivery is a function of the record's metadata and the error, got 'written'"):
        producer.send("orders", b"v", on_delivery="written")  # type: ignore[arg-type]


def other_order(err: Any, msg: Any) -> None:
    raise AssertionError("it is never called")


@pytest.mark.parametrize("way", ["new topic", "known topic", "with headers", "send_many"])
@pytest.mark.parametrize(
    "callback",
    [other_order, lambda error, message: None, lambda err, message, more=None: None, lambda error, msg: None],
)
def test_a_callback_in_the_order_of_another_client_is_refused(
    producer: lv.KafkaProducer[Any, Any], callback: Callable[..., object], way: str
) -> None:
    """`if err:` would be true of each record's metadata."""
    if way != "new topic":
        producer.send("orders", b"v", on_delivery=lambda metadata, error: None).result(timeout=10)
    with pytest.raises(
        TypeError, match=r"^on_delivery is called with \(metadata, error\), where error is None .* swap its parameters"
    ) as raised:
        if way == "send_many":
            producer.send_many("orders", [b"v"], on_delivery=callback)
        else:
            producer.send("orders", b"v", headers={"a": b"b"} if way == "with headers" else None, on_delivery=callback)
    assert f"{callback.__qualname__}({', '.join(callback.__code__.co_varnames[:2])})" in str(raised.value)


def test_a_callback_in_the_order_of_another_client_is_refused_on_asyncio(kafka: EmbeddedKafka) -> None:
    async def run() -> None:
        async with aio.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            with pytest.raises(TypeError, match=r"other_order\(err, msg\) has the order of another client"):
                await producer.send("orders", b"v", on_delivery=other_order)

    asyncio.run(run())


class Told:
    """Callables whose names are not looked at: their callers may have a reason for them."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, err: Any, msg: Any) -> None:
        self.calls.append(msg)

    def method(self, err: Any, msg: Any) -> None:
        self.calls.append(msg)

    def function(self, metadata: Any, err: Any) -> None:
        msg = err
        self.calls.append(msg)


def test_other_callbacks_are_taken_as_they_are(producer: lv.KafkaProducer[Any, Any]) -> None:
    told = Told()
    callbacks: list[Callable[..., object]] = [told, told.method, partial(Told.function, told)]
    callbacks += [lambda metadata, err: told.calls.append(err), lambda *arguments: told.calls.append(arguments[1])]
    for callback in callbacks * 2:
        producer.send("orders", b"v", on_delivery=callback).result(timeout=10)
    assert set(told.calls) == {None}


def test_settings_are_no_address() -> None:
    with pytest.raises(
        ConfigError, match=r"settings are a mapping, or keywords such as bootstrap_servers='host:9092'; got 'localhost:9092'"
    ):
        lv.KafkaProducer("localhost:9092")  # type: ignore[arg-type]


def test_a_setting_of_another_client_is_said_to_be_one() -> None:
    with pytest.raises(ConfigError, match=r"unknown option 'auto_offset_reset'; it is an option of the consumer"):
        lv.KafkaProducer(bootstrap_servers="localhost:9092", auto_offset_reset="earliest")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"unknown option 'linger.ms'; it is an option of the producer"):
        lv.KafkaConsumer({"bootstrap.servers": "localhost:9092", "linger.ms": 5})


@pytest.mark.parametrize(
    ("ends", "error", "text"),
    [
        ([(TP, 3)], TypeError, "ends are a mapping of TopicPartition to offset, such as end_offsets() returns; got ["),
        ({TP: "3"}, TypeError, "the end of orders-0 must be a whole number, got '3'"),
        ({TP: -1}, ValueError, "the end of orders-0 must be an offset, got -1"),
        ({("orders", 1): 3}, ValueError, "an end was given for orders-1, which is not among the partitions to be read"),
    ],
)
def test_ends_are_checked(consumer: lv.KafkaConsumer[Any, Any], ends: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        consumer.assign([TP], ends=ends)
    assert str(raised.value).startswith(text)
    assert consumer.assignment() == set()


def test_what_partitions_for_returns_can_be_assigned(consumer: lv.KafkaConsumer) -> None:
    partitions = consumer.partitions_for("orders")
    consumer.assign(partitions)
    assert consumer.assignment() == {TP}
    with pytest.raises(TypeError, match=r"expected a list of TopicPartition, got PartitionInfo"):
        consumer.assign(partitions[0])  # type: ignore[arg-type]


def test_the_code_of_callbacks_is_not_kept_for_ever(producer: lv.KafkaProducer[Any, Any]) -> None:
    """A program may compile a function for each record."""

    def send() -> weakref.ref[Any]:
        names: dict[str, Any] = {}
        exec("def written(metadata, error): pass", names)
        producer.send("orders", b"v", on_delivery=names["written"])
        return weakref.ref(names["written"].__code__)

    first = send()
    for _ in range(CODES_KEPT + 1):
        send()
    producer.flush(timeout=60)
    gc.collect()
    assert first() is None
