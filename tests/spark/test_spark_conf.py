"""What of Spark's own configuration a Python source can see: nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import levada as lv

pytestmark = pytest.mark.spark

CLUSTER = "spark.kafka.clusters.main.auth.bootstrap.servers"


class Probe(DataSource):
    """A source of one row: the session that its planner sees."""

    @classmethod
    def name(cls) -> str:
        return "probe-of-the-conf"

    def schema(self) -> str:
        return "session string"

    def reader(self, schema: Any) -> DataSourceReader:
        return ProbeReader()


class ProbeReader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(str(SparkSession.getActiveSession()))]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        yield (str(partition.value),)


@pytest.fixture
def with_cluster(spark: Any) -> Iterator[Any]:
    spark.conf.set(CLUSTER, "secure:9093")
    yield spark
    spark.conf.unset(CLUSTER)


def test_no_python_source_sees_a_session(with_cluster: Any) -> None:
    with_cluster.dataSource.register(Probe)
    assert [row.session for row in with_cluster.read.format("probe-of-the-conf").load().collect()] == ["None"]


def test_delegation_tokens_of_sparks_configuration_have_no_effect(with_cluster: Any, embedded: Any, new_topic: Any) -> None:
    topic = new_topic(embedded)
    with lv.KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        producer.send(topic, b"v")
    reader = with_cluster.read.format("levada").option("kafka.bootstrap.servers", embedded.bootstrap_servers)
    assert reader.option("subscribe", topic).load().count() == 1
