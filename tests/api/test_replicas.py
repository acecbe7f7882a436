"""Clients on an EmbeddedKafka of three brokers: one lags, one stops, one leads without all records."""

from __future__ import annotations

import pytest

import levada as lv
from levada.errors import ConfigError, IllegalStateError, LogTruncationError, TimeoutError
from levada.testing import EmbeddedKafka

TP = lv.TopicPartition("t", 0)
PATIENCE_S = 20


def read(consumer: lv.KafkaConsumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    for _ in range(PATIENCE_S):
        found += [record.value for record in consumer.poll(timeout=1)]
        if len(found) >= count:
            break
    return found


def test_E7_a_producer_waits_for_replicas_that_are_held_back() -> None:
    with EmbeddedKafka(brokers=3) as kafka, lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=0) as producer:
        kafka.create_topic("t", 1)
        producer.send("t", b"0").result(PATIENCE_S)
        kafka.pause_replication(2)
        waiting = producer.send("t", b"1")
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        kafka.resume_replication(2)
        assert waiting.result(PATIENCE_S).offset == 1


def test_a_broker_that_stops_and_returns_costs_no_record() -> None:
    with EmbeddedKafka(brokers=3) as kafka:
        kafka.create_topic("t", 1)
        to = {"bootstrap_servers": kafka.bootstrap_servers}
        with lv.KafkaProducer(to, linger_ms=0) as producer, lv.KafkaConsumer(to, auto_offset_reset="earliest") as consumer:
            consumer.assign([TP])
            for number, node in enumerate((1, 2, 3)):
                producer.send("t", b"up %d" % number).result(PATIENCE_S)
                kafka.stop_node(node)
                producer.send("t", b"down %d" % number).result(PATIENCE_S)
                kafka.start_node(node)
            wanted = [b"%s %d" % (word, number) for number in range(3) for word in (b"up", b"down")]
            assert read(consumer, 6) == wanted


def test_M_A26_a_leader_that_lacks_records_is_noticed() -> None:
    with EmbeddedKafka(brokers=3, replica_lag_time_max_ms=100) as kafka:
        kafka.create_topic("t", 1)
        to = {"bootstrap_servers": kafka.bootstrap_servers}
        # An idempotent producer would notice the loss as well.
        with (
            lv.KafkaProducer(to, linger_ms=0, enable_idempotence=False) as producer,
            lv.KafkaConsumer(to, auto_offset_reset="none") as consumer,
        ):
            consumer.assign([TP])
            consumer.seek(TP, 0)
            producer.send("t", b"0").result(PATIENCE_S)
            kafka.pause_replication(3)
            producer.send("t", b"lost").result(PATIENCE_S)  # acknowledged once node 3 is out of sync
            assert read(consumer, 2) == [b"0", b"lost"]
            kafka.elect_leader("t", node=3)
            producer.send("t", b"new").result(PATIENCE_S)
            with pytest.raises(LogTruncationError) as cut:
                read(consumer, 1)
            assert (cut.value.offset, cut.value.divergent_offset) == (2, 1)


def test_nodes_are_stopped_and_started_once() -> None:
    with EmbeddedKafka(brokers=2) as kafka:
        kafka.create_topic("t", 1)
        with pytest.raises(ConfigError, match="there is no node 3; this EmbeddedKafka has 1, 2"):
            kafka.stop_node(3)
        with pytest.raises(IllegalStateError, match="node 2 is up already"):
            kafka.start_node(2)
        kafka.stop_node(2)
        with pytest.raises(IllegalStateError, match="node 2 is down already"):
            kafka.stop_node(2)
        with pytest.raises(IllegalStateError, match="node 2 is down and cannot lead t-0"):
            kafka.elect_leader("t", node=2)


def test_without_a_leader_a_replica_on_a_node_that_is_up_is_elected() -> None:
    with EmbeddedKafka(brokers=3, default_replication_factor=2) as kafka, lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        kafka.create_topic("t", 1)
        partition = admin.describe_topics(["t"])["t"].partitions[0]
        first, second = partition.replicas
        kafka.elect_leader("t", node=first)
        kafka.stop_node(second)
        with lv.KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            producer.send("t", b"lost").result(PATIENCE_S)
        kafka.stop_node(first)
        kafka.start_node(second)
        kafka.elect_leader("t")
        found = admin.describe_topics(["t"])["t"].partitions[0]
        assert (found.leader, found.replicas, found.isr) == (second, partition.replicas, (second,))
        with lv.KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers) as consumer:
            assert consumer.end_offsets([TP]) == {TP: 0}


def test_without_a_node_that_is_up_no_leader_is_elected() -> None:
    with EmbeddedKafka(brokers=3, default_replication_factor=2) as kafka, lv.KafkaAdmin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        kafka.create_topic("t", 1)
        before = admin.describe_topics(["t"])["t"].partitions[0]
        for node in before.replicas:
            kafka.stop_node(node)
        with pytest.raises(IllegalStateError, match="no node that has a replica of t-0 is up"):
            kafka.elect_leader("t")
        for node in reversed(before.replicas):
            kafka.start_node(node)
        after = admin.describe_topics(["t"])["t"].partitions[0]
        assert (after.replicas, after.leader, sorted(after.isr)) == (before.replicas, before.replicas[-1], sorted(before.replicas))


def test_F16_a_consumer_reads_from_the_replica_in_its_rack() -> None:
    with EmbeddedKafka(brokers=3, racks=["a", "b", "c"]) as kafka:
        kafka.create_topic("t", 1)
        kafka.elect_leader("t", node=1)
        to = {"bootstrap_servers": kafka.bootstrap_servers}
        with (
            lv.KafkaProducer(to, linger_ms=0) as producer,
            lv.KafkaConsumer(to, client_rack="b", auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign([TP])
            producer.send("t", b"0").result(PATIENCE_S)
            assert read(consumer, 1) == [b"0"]
            kafka.faults.blackhole("Fetch", node=1)
            producer.send("t", b"1").result(PATIENCE_S)
            assert read(consumer, 1) == [b"1"]


def test_each_broker_needs_a_rack() -> None:
    with pytest.raises(ConfigError, match="one rack for each of 3 brokers"):
        EmbeddedKafka(brokers=3, racks=["a"])
