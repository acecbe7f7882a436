"""metrics() of every client, in virtual time, where each number is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from math import isnan

import pytest

from levada.broker.node.node import BrokerNode
from levada.error_codes import ErrorCode
from levada.errors import BufferExhaustedError, RecordTooLargeError, TransactionOutcomeUnknownError
from levada.testing import Simulation
from levada.testing.simulation import EPOCH_MS
from levada.types import TopicPartition
from sim_kit import HOST, PORT
from sim_kit import broker as add_broker

SERVERS = f"{HOST}:{PORT}"


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=11) as sim:
        yield sim


@pytest.fixture
def broker(sim: Simulation) -> BrokerNode:
    node = add_broker(sim, wall_offset_ms=EPOCH_MS)
    for topic in ("t", "u"):
        node.create_topic(topic, 1)
    return node


def test_K25_a_producer_counts_records_batches_and_requests(sim: Simulation, broker: BrokerNode) -> None:
    with sim.producer(bootstrap_servers=SERVERS, client_id="p", linger_ms=50, compression_type="gzip") as producer:
        before = producer.metrics()
        assert before.value("record-send-total") == 0
        assert isnan(before.value("metadata-age"))
        for topic in ("t", "u"):
            producer.partitions_for(topic)
        for _ in range(10):
            producer.send("t", b"x" * 1000)
        producer.send("u", b"x")
        producer.flush()
        metrics = producer.metrics()
    assert {name.tags[0] for name in metrics} == {("client-id", "p")}
    assert metrics.value("record-send-total") == 11
    assert metrics.value("record-send-rate") == pytest.approx(11 / 30)
    assert metrics.value("record-send-total", topic="t") == 10
    assert metrics.value("records-per-request-avg") == 11
    assert metrics.value("compression-rate", topic="t") < 0.1
    assert metrics.value("batch-size-max") == metrics.value("byte-total", topic="t")
    assert 0 <= metrics.value("record-queue-time-max") <= 60
    assert metrics.value("request-latency-max") == metrics.value("request-latency-avg") == 2
    assert metrics.value("buffer-available-bytes") == metrics.value("buffer-total-bytes") == 33_554_432
    assert (metrics.value("record-error-total"), metrics.value("record-retry-total"), metrics.value("waiting-threads")) == (0, 0, 0)
    # ApiVersions and Metadata to the bootstrap address; ApiVersions, InitProducerId, Metadata and one Produce to the node.
    assert metrics.value("request-total", node_id="node-1") >= 2
    total = sum(value for name, value in metrics.items() if name.name == "request-total" and name.group == "producer-node-metrics")
    assert metrics.value("request-total") == total == metrics.value("response-total")
    assert metrics.value("outgoing-byte-total") > metrics.value("byte-total", topic="t")
    assert (metrics.value("connection-count"), metrics.value("requests-in-flight")) == (metrics.value("connection-creation-total"), 0)


def test_B11_K25_a_producer_counts_what_goes_wrong(sim: Simulation, broker: BrokerNode) -> None:
    with sim.producer(bootstrap_servers=SERVERS, linger_ms=0, max_request_size=60_000, buffer_memory=80_000, max_block_ms=500) as producer:
        producer.send("t", b"first").result()
        producer.partitions_for("u")
        broker.faults.fail_next("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
        producer.send("t", b"again").result()
        broker.faults.fail_next("Produce", ErrorCode.INVALID_REQUIRED_ACKS)
        assert producer.send("t", b"refused").exception() is not None
        with pytest.raises(RecordTooLargeError):
            producer.send("t", b"x" * 70_000).result()
        broker.faults.delay("Produce", ms=2_000)
        producer.send("t", b"x" * 50_000)
        with pytest.raises(BufferExhaustedError):
            producer.send("u", b"x" * 50_000).result()
        metrics = producer.metrics()
        assert metrics.value("record-retry-total") == metrics.value("record-retry-total", topic="t") == 2
        assert (metrics.value("record-error-total"), metrics.value("record-error-total", topic="u")) == (3, 1)
        assert metrics.value("buffer-exhausted-total") == 1
        assert metrics.value("bufferpool-wait-time-ns-total") == 500_000_000
        assert metrics.value("bufferpool-wait-ratio") == pytest.approx(0.5 / 30)
        assert metrics.value("requests-in-flight") == 1
        assert metrics.value("buffer-available-bytes") < 30_000


def test_K25_sizes_of_records_are_those_before_compression(sim: Simulation, broker: BrokerNode) -> None:
    with sim.producer(bootstrap_servers=SERVERS, linger_ms=50, compression_type="gzip") as producer:
        assert isnan(producer.metrics().value("record-size-avg"))
        for size in (100, 1_000, 400):
            producer.send("t", b"x" * size)
        producer.flush()
        metrics = producer.metrics()
        # A record has about ten bytes beside its value, and the length of that.
        assert 1_000 < metrics.value("record-size-max") < 1_020
        assert 500 < metrics.value("record-size-avg") < 520
        pa = pytest.importorskip("pyarrow")
        rows = pa.table({"value": pa.array([b"x" * 2_000], pa.binary())})
        producer.send_arrow("t", rows, value="value")
        producer.flush()
        assert 2_000 < producer.metrics().value("record-size-max") < 2_020


def test_K25_the_time_in_calls_is_counted(sim: Simulation, broker: BrokerNode) -> None:
    with sim.producer(bootstrap_servers=SERVERS, transactional_id="tx", linger_ms=0) as producer:

        def took_ms(api: str, call: Callable[[], object]) -> list[str]:
            """Slow one request down, and return which times have grown by that."""
            before = producer.metrics()
            broker.faults.delay(api, ms=300)
            call()
            return [
                name.name.removesuffix("-time-ns-total")
                for name, total in producer.metrics().items()
                if name.name.endswith("-time-ns-total") and total - before[name] >= 300_000_000
            ]

        def send_and_flush() -> None:
            producer.send("t", b"v")
            producer.flush()

        offsets = {TopicPartition("t", 0): 1}
        assert took_ms("InitProducerId", producer.init_transactions) == ["txn-init"]
        for ends, end in (("txn-commit", producer.commit_transaction), ("txn-abort", producer.abort_transaction)):
            producer.begin_transaction()
            topic = {"txn-commit": "t", "txn-abort": "u"}[ends]
            assert took_ms("Metadata", lambda topic=topic: producer.send(topic, b"v")) == ["metadata-wait"]  # type: ignore[misc]
            assert took_ms("Produce", send_and_flush) == ["flush"]
            assert took_ms("TxnOffsetCommit", lambda: producer.send_offsets_to_transaction(offsets, "g")) == ["txn-send-offsets"]
            assert took_ms("EndTxn", end) == [ends]
        producer.begin_transaction()
        producer.send("t", b"v").result()
        broker.faults.drop_response("EndTxn")
        with pytest.raises(TransactionOutcomeUnknownError):
            producer.commit_transaction(timeout=1)
        assert took_ms("InitProducerId", producer.begin_transaction) == ["txn-begin"]


def test_K25_rates_and_averages_are_about_the_last_minute(sim: Simulation, broker: BrokerNode) -> None:
    with sim.producer(bootstrap_servers=SERVERS) as producer:
        producer.send("t", b"v").result()
        sim.advance(70_000)
        metrics = producer.metrics()
        assert (metrics.value("record-send-rate"), metrics.value("record-send-total")) == (0, 1)
        assert isnan(metrics.value("batch-size-avg"))
        assert 60 < metrics.value("metadata-age") < 80


def test_K25_topics_that_are_not_used_any_more_are_not_counted(sim: Simulation, broker: BrokerNode) -> None:
    with sim.producer(bootstrap_servers=SERVERS, metadata_max_idle_ms=5_000, metadata_max_age_ms=5_000) as producer:
        producer.send("t", b"v").result()
        assert any(("topic", "t") in name.tags for name in producer.metrics())
        sim.advance(60_000)
        assert not any(("topic", "t") in name.tags for name in producer.metrics())


def test_a_consumer_counts_fetches_and_knows_its_lag(sim: Simulation, broker: BrokerNode) -> None:
    with sim.producer(bootstrap_servers=SERVERS) as producer:
        producer.send_many("t", [b"%d" % number for number in range(100)])
    with sim.consumer(bootstrap_servers=SERVERS, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("t", 0), TopicPartition("u", 0)])
        assert isnan(consumer.metrics().value("records-lag-max"))
        records = consumer.poll(timeout=5, max_records=30)
        metrics = consumer.metrics()
        assert metrics.value("records-consumed-total") == len(records) == 30
        assert metrics.value("records-lag-max") == metrics.value("records-lag", topic="t", partition="0") == 70
        assert metrics.value("records-lead", topic="t", partition="0") == 30
        assert metrics.value("fetch-total") >= 1
        assert metrics.value("fetch-size-max") == metrics.value("bytes-consumed-total") > 100
        assert metrics.value("fetch-latency-max") >= 2
        rows = consumer.poll_arrow(timeout=5)
        assert rows is not None
        assert consumer.metrics().value("records-consumed-total") == 30 + rows.num_rows == 100


def test_F28_a_consumer_counts_each_topic_that_is_assigned(sim: Simulation, broker: BrokerNode) -> None:
    with sim.producer(bootstrap_servers=SERVERS) as producer:
        for topic, count in (("t", 100), ("u", 10)):
            producer.send_many(topic, [b"%d" % number for number in range(count)])
    both = [TopicPartition("t", 0), TopicPartition("u", 0)]
    with sim.consumer(bootstrap_servers=SERVERS, auto_offset_reset="earliest") as consumer:
        consumer.assign(both)
        handed: Counter[str] = Counter()
        for take in (lambda: consumer.poll(timeout=5, max_records=15), lambda: consumer.poll_arrow(timeout=5, max_records=20)):
            for _ in range(2):
                found = take()
                if isinstance(found, list):
                    handed.update(record.topic for record in found)
                elif found is not None:
                    handed.update(found["topic"].to_pylist())
        metrics = consumer.metrics()
        for topic in ("t", "u"):
            assert metrics.value("records-consumed-total", topic=topic) == handed[topic], handed
            assert metrics.value("bytes-consumed-total", topic=topic) > 0
            assert metrics.value("fetch-size-max", topic=topic) <= metrics.value("bytes-consumed-total", topic=topic)
        assert metrics.value("records-consumed-total") == handed.total() == 70
        whole = metrics.value("bytes-consumed-total")
        assert whole == sum(metrics.value("bytes-consumed-total", topic=topic) for topic in ("t", "u"))
        consumer.assign(both[:1])
        tags = {tag for name in consumer.metrics() for tag in name.tags}
        assert ("topic", "t") in tags
        assert ("topic", "u") not in tags


def test_F28_a_consumer_knows_its_lead_and_what_a_request_brings(sim: Simulation, broker: BrokerNode) -> None:
    with sim.producer(bootstrap_servers=SERVERS) as producer:
        producer.send_many("t", [b"%d" % number for number in range(100)])
    tp = TopicPartition("t", 0)
    with sim.consumer(bootstrap_servers=SERVERS, auto_offset_reset="earliest") as consumer:
        consumer.assign([tp, TopicPartition("u", 0)])
        assert consumer.current_lead(tp) is None
        assert isnan(consumer.metrics().value("records-lead-min"))
        consumer.seek(TopicPartition("u", 0), 0)
        assert len(consumer.poll(timeout=5)) == 100
        consumer.poll(timeout=1)
        metrics = consumer.metrics()
        assert (consumer.current_lead(tp), consumer.current_lag(tp)) == (100, 0)
        assert metrics.value("records-lead", topic="t", partition="0") == 100
        assert metrics.value("records-lead-min") == metrics.value("records-lead", topic="u", partition="0") == 0
        assert metrics.value("preferred-read-replica", topic="t", partition="0") == -1
        assert metrics.value("records-per-request-avg") == pytest.approx(100 / metrics.value("fetch-total"))
        assert metrics.value("assigned-partitions") == 2


def test_a_consumer_tells_how_long_its_program_is_away(sim: Simulation, broker: BrokerNode) -> None:
    """As Java counts it: from one poll to the next, and the part of that spent in poll itself."""
    with sim.consumer(bootstrap_servers=SERVERS) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        assert consumer.metrics().value("last-poll-seconds-ago") == -1
        assert isnan(consumer.metrics().value("time-between-poll-avg"))
        consumer.poll(timeout=1)
        sim.advance(3_000)
        assert consumer.metrics().value("last-poll-seconds-ago") == 4
        consumer.poll(timeout=1)
        metrics = consumer.metrics()
        assert metrics.value("time-between-poll-avg") == metrics.value("time-between-poll-max") == 4_000
        assert metrics.value("poll-idle-ratio-avg") == pytest.approx((1 + 1_000 / 5_000) / 2)


def test_a_consumer_counts_its_commits(sim: Simulation, broker: BrokerNode) -> None:
    tp = TopicPartition("t", 0)
    with sim.consumer(bootstrap_servers=SERVERS, group_id="g", enable_auto_commit=False) as consumer:
        consumer.assign([tp])
        consumer.commit({tp: 1})
        consumer.commit({tp: 2})
        consumer.committed([tp])
        metrics = consumer.metrics()
        assert (metrics.value("commit-total"), metrics.value("commit-latency-max")) == (2, 2)
        assert metrics.value("commit-sync-time-ns-total") >= 4_000_000
        assert metrics.value("committed-time-ns-total") == 2_000_000


def test_admin_and_client_count_requests(sim: Simulation, broker: BrokerNode) -> None:
    with sim.admin(bootstrap_servers=SERVERS) as admin, sim.client(bootstrap_servers=SERVERS) as client:
        admin.list_topics()
        assert admin.metrics().value("request-total") >= 2
        assert {name.group for name in admin.metrics()} == {"admin-client-metrics", "admin-client-node-metrics"}
        client.api_versions()
        assert {name.group for name in client.metrics()} == {"client-metrics", "client-node-metrics"}


def test_connections_that_ended_are_counted(sim: Simulation, broker: BrokerNode) -> None:
    with sim.producer(bootstrap_servers=SERVERS) as producer:
        producer.send("t", b"v").result()
        made = producer.metrics().value("connection-creation-total")
        broker.faults.disconnect("Produce")
        producer.send("t", b"v").result()
        metrics = producer.metrics()
        assert metrics.value("connection-creation-total") == made + 1
        assert metrics.value("connection-close-total") == 1
        assert metrics.value("connection-close-rate") == pytest.approx(1 / 30)
        assert metrics.value("connection-creation-rate") == pytest.approx((made + 1) / 30)
        assert metrics.value("connection-count") == made
