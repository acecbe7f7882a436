"""Wrong use explains itself: what the message says, and that it comes in time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import levada as lv
from invalid_peers import alerting_server, closed_port, self_signed, serving, silent_server, talkative_server, tls_server, web_server
from kafka_cluster import KafkaCluster
from levada.errors import (
    BootstrapError,
    ClosedError,
    ConfigError,
    ForkedError,
    KafkaError,
    Persisted,
    RecordTooLargeError,
    UnknownTopicOrPartitionError,
)

WITHIN_S = 2.0
SLACK_S = 1.5
TP = lv.TopicPartition("orders", 0)


@contextmanager
def in_time(seconds: float = WITHIN_S) -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds + SLACK_S


def produce(servers: str) -> None:
    with lv.KafkaProducer(bootstrap_servers=servers, max_block_ms=int(WITHIN_S * 1000)) as producer:
        producer.send("orders", value=b"x").result(timeout=WITHIN_S)


def consume(servers: str) -> None:
    with lv.KafkaConsumer(bootstrap_servers=servers, default_api_timeout_ms=int(WITHIN_S * 1000)) as consumer:
        consumer.end_offsets([TP])


def administer(servers: str) -> None:
    with lv.KafkaAdmin(bootstrap_servers=servers, default_api_timeout_ms=int(WITHIN_S * 1000)) as admin:
        admin.list_topics()


def scan(servers: str) -> None:
    list(lv.scan("orders", bootstrap_servers=servers, default_api_timeout_ms=int(WITHIN_S * 1000)))


each_use = pytest.mark.parametrize("use", [produce, consume, administer, scan], ids=lambda use: use.__name__)


def failure(use: Callable[[str], None], servers: str) -> str:
    with in_time(), pytest.raises(BootstrapError) as raised:
        use(servers)
    return str(raised.value)


# The wrong address


@each_use
def test_M_C10_wrong_port(use: Callable[[str], None]) -> None:
    address = closed_port()
    text = failure(use, address)
    assert "no broker could be reached" in text
    assert f"{address}  connection refused: nothing listens there" in text


@each_use
def test_M_C10_a_web_server_on_the_port(use: Callable[[str], None]) -> None:
    with serving(web_server) as address:
        text = failure(use, address)
    assert text.startswith("no broker could be reached: no address is a Kafka listener of this security.protocol\n")
    assert f"{address}  answered with HTTP: this is a web server, not a Kafka listener" in text


@each_use
def test_M_C10_a_tls_listener_on_the_port(use: Callable[[str], None], tmp_path: Path) -> None:
    with serving(tls_server(*self_signed(tmp_path))) as address:
        text = failure(use, address)
    # OpenSSL resets without a word on bytes that are not TLS; nothing more can be known.
    assert f"{address}  the broker " in text
    assert "before it answered ApiVersions: a listener that expects TLS" in text
    assert "check security.protocol" in text


@each_use
def test_M_C10_a_tls_listener_that_sends_an_alert(use: Callable[[str], None]) -> None:
    with serving(alerting_server) as address:
        text = failure(use, address)
    assert f"{address}  answered with TLS: this listener expects security.protocol=SSL" in text


def test_M_C10_a_server_that_never_answers() -> None:
    with serving(silent_server) as address:
        text = failure(administer, address)
    assert address in text
    assert "ApiVersions" in text


def test_M_C10_a_server_that_talks_nonsense() -> None:
    with serving(talkative_server) as address:
        text = failure(administer, address)
    assert address in text
    assert "not Kafka's protocol" in text


def test_M_C10_every_address_is_explained() -> None:
    closed = closed_port()
    with serving(web_server) as web:
        text = failure(administer, f"{closed},{web},no-such-host.invalid:9092")
    assert f"{closed} " in text
    assert "connection refused" in text
    assert "answered with HTTP" in text
    assert "no-such-host.invalid:9092" in text
    assert "does not resolve" in text


@pytest.fixture(scope="module")
def strict_kafka(start_real_kafka: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Kafka 4.4 that creates no topics by itself, with a second listener that speaks TLS."""
    certificate, key = self_signed(tmp_path_factory.mktemp("tls"))
    chain = tmp_path_factory.mktemp("keystore") / "keystore.pem"
    chain.write_text(key.read_text() + certificate.read_text())
    with start_real_kafka("4.4.0", listeners=("PLAINTEXT", "SSL"), properties=_strict(chain)) as cluster:
        yield cluster


def _strict(keystore: Path) -> dict[str, Any]:
    return {"auto.create.topics.enable": "false", "ssl.keystore.type": "PEM", "ssl.keystore.location": keystore}


@pytest.mark.kafka
def test_M_C10_the_tls_listener_of_a_real_broker(strict_kafka: Any) -> None:
    address = strict_kafka.nodes[0].address_of("SSL")
    text = failure(administer, address)
    assert f"{address}  answered with TLS: this listener expects security.protocol=SSL" in text


# Options


@pytest.mark.parametrize("client", ["KafkaProducer", "KafkaConsumer", "KafkaAdmin"])
def test_an_unknown_option_comes_with_a_suggestion(client: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown .*'reconnect_backof_ms'.*did you mean .*reconnect.backoff.ms"):
        getattr(lv, client)(bootstrap_servers="localhost:9092", reconnect_backof_ms=5)


def test_a_dotted_option_too() -> None:
    with pytest.raises(ConfigError, match=r"'linger.millis'.*did you mean 'linger.ms'"):
        lv.KafkaProducer({"bootstrap.servers": "localhost:9092", "linger.millis": 5})


def test_an_option_of_a_scan_too() -> None:
    with pytest.raises(ConfigError, match=r"'fetch_max_byte'.*did you mean .*fetch.max.bytes"):
        lv.scan("orders", bootstrap_servers="localhost:9092", fetch_max_byte=5)  # type: ignore[call-arg]


def test_a_bad_value_names_the_option_and_what_it_takes() -> None:
    with pytest.raises(ConfigError, match=r"compression.type.*none.*gzip.*snappy.*lz4.*zstd.*'brotli'|'brotli'.*none.*gzip"):
        lv.KafkaProducer(bootstrap_servers="localhost:9092", compression_type="brotli")  # type: ignore[arg-type]


# Topics


@pytest.fixture
def strict_embedded() -> Iterator[Any]:
    from levada.testing import EmbeddedKafka

    with EmbeddedKafka(auto_create_topics_enable=False) as kafka:
        yield kafka


@pytest.fixture(params=["strict_embedded", pytest.param("strict_kafka", marks=pytest.mark.kafka)])
def strict(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def test_an_unknown_topic_is_named_to_its_producer(strict: Any) -> None:
    with lv.KafkaProducer(bootstrap_servers=strict.bootstrap_servers, max_block_ms=1500) as producer:
        with in_time(), pytest.raises(KafkaError, match="no-such-topic") as raised:
            producer.send("no-such-topic", value=b"x").result(timeout=WITHIN_S)
        assert raised.value.persisted is Persisted.NO
        assert "does not exist" in str(raised.value) or "UNKNOWN_TOPIC_OR_PARTITION" in str(raised.value)


def test_an_unknown_topic_is_named_to_its_reader(strict: Any) -> None:
    with in_time(), pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic"):
        list(lv.scan("no-such-topic", bootstrap_servers=strict.bootstrap_servers, default_api_timeout_ms=2000))


def test_an_unknown_topic_is_named_to_its_consumer(strict: Any) -> None:
    with (
        lv.KafkaConsumer(bootstrap_servers=strict.bootstrap_servers, default_api_timeout_ms=2000) as consumer,
        in_time(),
        pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic"),
    ):
        consumer.end_offsets([lv.TopicPartition("no-such-topic", 0)])


def test_an_unknown_topic_is_named_to_its_administrator(strict: Any) -> None:
    with (
        lv.KafkaAdmin(bootstrap_servers=strict.bootstrap_servers) as admin,
        in_time(),
        pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic"),
    ):
        admin.describe_topics(["no-such-topic"])


def test_an_unknown_partition_is_named(strict: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(strict)
    with (
        lv.KafkaProducer(bootstrap_servers=strict.bootstrap_servers, max_block_ms=1500) as producer,
        in_time(),
        pytest.raises(KafkaError, match=rf"{topic}-77\b"),
    ):
        producer.send(topic, value=b"x", partition=77).result(timeout=WITHIN_S)


# Sizes


def test_a_record_larger_than_a_request_is_refused_at_once(embedded: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, max_request_size=10_000) as producer:
        with in_time(), pytest.raises(RecordTooLargeError, match=r"max\.request\.size") as raised:
            producer.send(topic, value=b"x" * 20_000).result(timeout=WITHIN_S)
        assert raised.value.persisted is Persisted.NO
        assert "10000" in str(raised.value).replace(",", "").replace("_", "")
        assert "200" in str(raised.value), "the size of the record is named"
        assert producer.send(topic, value=b"small").result(timeout=10).offset == 0


def test_a_record_larger_than_its_topic_takes_is_refused_by_the_broker(any_kafka: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(any_kafka, config={"max.message.bytes": 5000})
    with lv.KafkaProducer(bootstrap_servers=any_kafka.bootstrap_servers) as producer:
        with in_time(5), pytest.raises(RecordTooLargeError, match=f"{topic}-0") as raised:
            producer.send(topic, value=os.urandom(20_000)).result(timeout=5)
        assert raised.value.persisted is Persisted.NO
        assert "max.message.bytes" in str(raised.value)
        assert producer.send(topic, value=b"small").result(timeout=10).offset == 0


def test_a_row_larger_than_a_request_is_reported_by_its_number(embedded: Any, new_topic: Callable[..., str]) -> None:
    import pyarrow as pa

    topic = new_topic(embedded)
    table = pa.table({"payload": ["small", "x" * 20_000, "small too"]})
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers, max_request_size=10_000) as producer:
        delivery = producer.send_arrow(topic, table, value="payload")
        with pytest.raises(RecordTooLargeError, match=r"row 1\b"):
            delivery.result(timeout=10)
        errors = {row["row"]: row["error"] for row in delivery.to_arrow().to_pylist()}
    assert (errors[0], errors[2]) == (None, None)
    assert "max.request.size" in errors[1]


# Values


@pytest.mark.parametrize("wrong", [{"value": 42}, {"key": 4.2, "value": b"x"}, {"value": b"x", "headers": [("name", 5)]}])
def test_a_value_that_is_not_bytes_says_what_would_do(embedded: Any, new_topic: Callable[..., str], wrong: Any) -> None:
    topic = new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer, pytest.raises((KafkaError, TypeError), match="bytes"):
        producer.send(topic, **wrong).result(timeout=WITHIN_S)


def test_a_naive_datetime_is_refused(embedded: Any, new_topic: Callable[..., str]) -> None:
    from datetime import datetime

    topic = new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer, pytest.raises(ValueError, match=r"aware|time ?zone"):
        producer.send(topic, value=b"x", timestamp=datetime(2020, 1, 1)).result(timeout=WITHIN_S)


def test_seeking_outside_the_assignment_names_the_partition(embedded: Any) -> None:
    with lv.KafkaConsumer(bootstrap_servers=embedded.bootstrap_servers) as consumer, pytest.raises(KafkaError, match=r"orders-0.*assign"):
        consumer.seek(TP, 5)


# Closed, and forked


def test_a_closed_producer_says_so(embedded: Any) -> None:
    producer = lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers)
    producer.close()
    producer.close()
    with in_time(0), pytest.raises(ClosedError, match=r"producer.*closed"):
        producer.send("orders", value=b"x")


def test_a_closed_producer_says_so_to_a_thread_that_has_the_ident_of_its_own(embedded: Any) -> None:
    producer = lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers)
    ended = producer._driver._thread.ident
    producer.close()
    told: dict[int, str] = {}

    def flush() -> None:
        try:
            producer.flush()
        except lv.KafkaError as error:
            told[threading.get_ident()] = type(error).__name__

    for _ in range(50):
        thread = threading.Thread(target=flush)
        thread.start()
        thread.join()
    if ended not in told:
        pytest.skip("no thread was given the ident of the one that had ended")
    assert told[ended] == "ClosedError"


def test_a_closed_consumer_and_a_closed_admin_say_so(embedded: Any) -> None:
    consumer = lv.KafkaConsumer(bootstrap_servers=embedded.bootstrap_servers)
    admin = lv.KafkaAdmin(bootstrap_servers=embedded.bootstrap_servers)
    consumer.close()
    admin.close()
    with in_time(0), pytest.raises(ClosedError, match=r"consumer.*closed"):
        consumer.poll(timeout=1)
    with in_time(0), pytest.raises(ClosedError, match=r"closed"):
        admin.list_topics()


def in_a_fork(use: Callable[[], object]) -> str:
    """Run something in a forked child and return the type and text of its error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            use()
            text = "no error"
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text


def test_a_client_used_before_a_fork_refuses_in_the_child_and_works_in_the_parent(embedded: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(embedded)
    servers = embedded.bootstrap_servers
    with lv.KafkaProducer(bootstrap_servers=servers) as producer, lv.KafkaConsumer(bootstrap_servers=servers) as consumer:
        producer.send(topic, value=b"before").result(timeout=10)
        consumer.end_offsets([lv.TopicPartition(topic, 0)])
        with in_time():
            from_producer = in_a_fork(lambda: producer.send(topic, value=b"child"))
            from_consumer = in_a_fork(lambda: consumer.end_offsets([lv.TopicPartition(topic, 0)]))
            from_close = in_a_fork(lambda: producer.close(timeout=1))
        assert producer.send(topic, value=b"after").result(timeout=10).offset == 1
    for text in (from_producer, from_consumer):
        assert text.startswith(ForkedError.__name__)
        assert "fork" in text.lower()
        assert "create" in text
    assert from_close == "no error"
