"""What errors say, where several parts put a sentence together."""

from __future__ import annotations

import pytest

import levada as lv
from invalid_peers import serving, web_server
from levada.error_codes import ErrorCode
from levada.errors import BootstrapError, InvalidRecordError, UnknownTopicOrPartitionError
from levada.testing import EmbeddedKafka


def test_a_refused_record_ends_with_whether_it_may_be_written() -> None:
    with EmbeddedKafka(num_partitions=1) as kafka, lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.partitions_for("t")
        kafka.faults.fail_next("Produce", ErrorCode.INVALID_RECORD)
        error = producer.send("t", b"v").exception()
    assert isinstance(error, InvalidRecordError)
    assert str(error).endswith("(node 1, 1 attempt): INVALID_RECORD (87); persisted: no")


def test_K18_an_error_of_a_record_names_its_partition_once() -> None:
    with EmbeddedKafka() as kafka, lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=100) as producer:
        kafka.create_topic("timely", 1, {"message.timestamp.after.max.ms": "1000"})
        sent = [producer.send("timely", b"v", timestamp=1 << 60), producer.send("timely", b"v")]
        texts = [str(delivery.exception()) for delivery in sent]
    assert [text.count("timely-0") for text in texts] == [1, 1]
    assert "INVALID_TIMESTAMP (32)" in texts[0]
    assert "other records of its batch" in texts[1]


def test_one_partition_is_no_range() -> None:
    with EmbeddedKafka(num_partitions=1) as kafka, lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
        kafka.create_topic("t")
        consumer.assign([lv.TopicPartition("t", 7)])
        with pytest.raises(UnknownTopicOrPartitionError, match="topic 't' has one partition, 0"):
            consumer.poll(timeout=5)


def test_an_address_of_something_else_is_not_worth_another_try() -> None:
    with (
        serving(web_server) as address,
        lv.KafkaAdmin(bootstrap_servers=address) as admin,
        pytest.raises(BootstrapError, match="this is a web server") as raised,
    ):
        admin.list_topics(timeout=5)
    assert not raised.value.retriable


def test_an_embedded_broker_has_no_address_before_it_starts() -> None:
    with pytest.raises(RuntimeError, match="enter its `with` block"):
        assert EmbeddedKafka().bootstrap_servers
