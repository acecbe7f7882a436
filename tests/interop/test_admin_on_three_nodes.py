"""KafkaAdmin on three nodes, a real Kafka's and the embedded broker's: moves of partitions, elections, brokers that are down (X4)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

import levada as lv
from kafka_cluster import KafkaCluster
from levada.errors import BrokerError
from levada.testing import EmbeddedKafka

PATIENCE_S = 60


class Three(NamedTuple):
    """A cluster of three nodes; stop and start take a node by its id."""

    servers: str
    stop: Callable[[int], None]
    start: Callable[[int], None]


@pytest.fixture(params=["embedded", pytest.param("kafka-4.4.0", marks=[pytest.mark.kafka, pytest.mark.matrix])])
def three(request: pytest.FixtureRequest) -> Iterator[Three]:
    if request.param == "embedded":
        with EmbeddedKafka(brokers=3) as kafka:
            yield Three(kafka.bootstrap_servers, kafka.stop_node, kafka.start_node)
        return
    cluster: KafkaCluster = request.getfixturevalue("kafka_cluster")
    by_id = dict(enumerate(cluster.nodes, 1))
    yield Three(cluster.bootstrap_servers, lambda number: by_id[number].kill(), lambda number: by_id[number].restart())


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_X4_a_partition_goes_to_other_nodes_and_its_preferred_leader_comes_back(three: Three) -> None:
    topic = f"moved-{uuid4().hex}"
    tp = lv.TopicPartition(topic, 0)
    with lv.KafkaAdmin(bootstrap_servers=three.servers) as admin:
        admin.create_topics([lv.NewTopic(topic, assignment={0: [1]})])

        def partition() -> Any:
            found = admin.outcomes(admin.describe_topics, [topic])[topic]
            return None if isinstance(found, lv.KafkaError) else found.partitions[0]

        until(lambda: partition() is not None)
        with lv.KafkaProducer(bootstrap_servers=three.servers) as producer:
            producer.send(topic, b"value", partition=0).result()
        admin.alter_partition_reassignments({tp: [2, 3]})
        until(lambda: not admin.list_partition_reassignments([tp]) and partition().replicas == (2, 3) and len(partition().isr) == 2)
        found = admin.describe_replica_log_dirs([lv.TopicPartitionReplica(topic, 0, node) for node in (1, 2, 3)])
        assert [where.current is not None for where in found.values()] == [False, True, True]
        assert admin.list_offsets({tp: "latest"})[tp].offset == 1  # type: ignore[union-attr]

        three.stop(2)
        until(lambda: bool(partition().leader == 3))
        assert partition().isr == (3,)
        with pytest.raises(BrokerError, match="PREFERRED_LEADER_NOT_AVAILABLE"):
            admin.elect_leaders("Preferred", [tp])
        until(lambda: admin.describe_cluster(include_fenced_brokers=True).fenced == {2})
        assert [node.id for node in admin.describe_cluster().nodes] == [1, 3]

        three.start(2)
        until(lambda: len(partition().isr) == 2)
        assert admin.elect_leaders("Preferred", [tp]) in ({tp: True}, {tp: False})
        until(lambda: bool(partition().leader == 2))
        assert admin.elect_leaders("Preferred", [tp]) == {tp: False}
