"""An admin client of a cluster's controllers (KIP-919): bootstrap.controllers instead of bootstrap.servers."""

from __future__ import annotations

import asyncio
import time

import pytest

import levada as lv
import levada.aio
from kafka_cluster import KafkaCluster
from levada.errors import BrokerError, ConfigError, UnsupportedVersionError
from levada.testing import EmbeddedKafka


@pytest.mark.kafka
def test_X9_controllers_tell_of_the_quorum_and_change_settings(real_kafka: KafkaCluster) -> None:
    (node,) = real_kafka.nodes
    with lv.KafkaAdmin(bootstrap_controllers=node.address_of("CONTROLLER")) as admin:
        cluster = admin.describe_cluster()
        assert [known.port for known in cluster.nodes] == [node.ports["CONTROLLER"]]
        assert (cluster.cluster_id, cluster.controller) == (real_kafka.cluster_id, cluster.nodes[0])
        assert admin.describe_metadata_quorum().leader_id == node.id
        assert "metadata.version" in admin.describe_features().finalized
        group = lv.ConfigResource(lv.ConfigResourceType.TOPIC, "set-by-a-controller")
        admin.create_topics([lv.NewTopic(group.name, 1)])
        admin.incremental_alter_configs({group: {"retention.ms": "1234567"}})
    with lv.KafkaAdmin(bootstrap_servers=real_kafka.bootstrap_servers) as admin:
        # The broker hears of it from the controller.
        deadline = time.monotonic() + 30
        while admin.describe_configs([group])[group]["retention.ms"].value != "1234567":
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.kafka
def test_X9_controllers_on_asyncio(kafka44: KafkaCluster) -> None:
    async def run() -> int:
        async with levada.aio.KafkaAdmin(bootstrap_controllers=kafka44.nodes[0].address_of("CONTROLLER")) as admin:
            return (await admin.describe_metadata_quorum()).leader_id

    assert asyncio.run(run()) == 1


@pytest.mark.kafka
def test_X9_controllers_know_no_topics_and_no_groups(kafka44: KafkaCluster) -> None:
    with lv.KafkaAdmin(bootstrap_controllers=kafka44.nodes[0].address_of("CONTROLLER")) as admin:
        with pytest.raises(UnsupportedVersionError, match="Metadata"):
            admin.list_topics(timeout=5)
        with pytest.raises(UnsupportedVersionError, match="it is a controller"):
            admin.list_offsets({lv.TopicPartition("t", 0): lv.OffsetSpec.LATEST}, timeout=5)
        with pytest.raises(UnsupportedVersionError, match="FindCoordinator"):
            admin.list_consumer_group_offsets("g", timeout=5)


@pytest.mark.kafka
def test_X9_a_controller_that_is_taken_for_a_broker(kafka44: KafkaCluster) -> None:
    admin = lv.KafkaAdmin(bootstrap_servers=kafka44.nodes[0].address_of("CONTROLLER"))
    with admin, pytest.raises(UnsupportedVersionError, match=r"controllers into bootstrap\.controllers"):
        admin.list_topics(timeout=5)


def test_X9_a_broker_that_is_taken_for_a_controller(embedded: EmbeddedKafka) -> None:
    admin = lv.KafkaAdmin(bootstrap_controllers=embedded.bootstrap_servers)
    with admin, pytest.raises(BrokerError, match=r"bootstrap\.controllers names a node that is no controller"):
        admin.describe_cluster(timeout=5)


@pytest.mark.kafka
def test_X9_a_controller_that_is_asked_for_brokers(kafka44: KafkaCluster) -> None:
    admin = lv.KafkaAdmin(bootstrap_servers=kafka44.nodes[0].address_of("CONTROLLER"))
    with admin, pytest.raises(BrokerError, match=r"bootstrap\.servers names a controller"):
        admin.describe_cluster(timeout=5)


def test_X9_servers_and_controllers_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match=r"'bootstrap\.servers' and 'bootstrap\.controllers' exclude each other"):
        lv.KafkaAdmin(bootstrap_servers="b:1", bootstrap_controllers="c:1")
    with pytest.raises(ConfigError, match=r"'bootstrap\.servers' is required"):
        lv.KafkaAdmin()
    with pytest.raises(ConfigError, match="it is an option of the admin"):
        lv.KafkaProducer({"bootstrap.controllers": "c:1"})
