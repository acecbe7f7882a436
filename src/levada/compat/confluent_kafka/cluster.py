"""ClusterMetadata and its parts, which list_topics() of every client returns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from levada import KafkaAdmin, PartitionInfo
from levada import errors as levada_errors
from levada.compat.confluent_kafka.configuration import Settings, refused
from levada.compat.confluent_kafka.error import KafkaError, raising_kafka_exceptions, to_kafka_error
from levada.compat.confluent_kafka.message import seconds


class BrokerMetadata:
    """A broker."""

    def __init__(self, id: int, host: str, port: int) -> None:
        self.id, self.host, self.port = id, host, port

    def __repr__(self) -> str:
        return f"BrokerMetadata({self.id}, {self.host}:{self.port})"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.id}"


class PartitionMetadata:
    """A partition of a topic. leader: -1 without one. replicas, isrs: ids of brokers."""

    def __init__(self, info: PartitionInfo) -> None:
        self.id = info.partition
        self.leader = info.leader
        self.replicas = list(info.replicas)
        self.isrs = list(info.isr)
        self.error = KafkaError(info.error_code) if info.error_code else None

    def __repr__(self) -> str:
        return f"PartitionMetadata({self.id}{'' if self.error is None else f', {self.error}'})"

    def __str__(self) -> str:
        return str(self.id)


class TopicMetadata:
    """A topic. partitions: by number. error: why it could not be described, or None."""

    def __init__(self, topic: str, partitions: Iterable[PartitionInfo] = (), error: KafkaError | None = None) -> None:
        self.topic = topic
        self.partitions = {info.partition: PartitionMetadata(info) for info in partitions}
        self.error = error

    def __repr__(self) -> str:
        return f"TopicMetadata({self.topic}, {len(self.partitions)} partitions{'' if self.error is None else f', {self.error}'})"

    def __str__(self) -> str:
        return self.topic


class ClusterMetadata:
    """The cluster. controller_id: -1 if unknown. brokers: by id. topics: by name. orig_broker_id, orig_broker_name: here the controller."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, BrokerMetadata] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self.orig_broker_id = -1
        self.orig_broker_name: str | None = None

    def __repr__(self) -> str:
        return f"ClusterMetadata({self.cluster_id})"

    def __str__(self) -> str:
        return str(self.cluster_id)


class Cluster:
    """Describes the cluster for a client, with an admin client that is made when it is first needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._admin: KafkaAdmin | None = None

    def admin(self) -> KafkaAdmin:
        """Return the admin client; make it if there is none. Raises KafkaException for settings that levada refuses."""
        if self._admin is None:
            try:
                self._admin = KafkaAdmin(self._settings)
            except levada_errors.ConfigError as error:
                raise refused(error) from error
        return self._admin

    def close(self) -> None:
        """Close the admin client if there is one."""
        if self._admin is not None:
            self._admin.close()

    def list_topics(self, topic: str | None, timeout: float | None) -> ClusterMetadata:
        """Describe the brokers, and one topic, or all if topic is None. timeout: seconds for each of up to three requests; None or negative
        for levada's default.
        """
        admin, limit = self.admin(), seconds(timeout)
        with raising_kafka_exceptions("Failed to get metadata"):
            found = admin.describe_cluster(timeout=limit)
            names = admin.list_topics(internal=True, timeout=limit) if topic is None else [topic]
            topics: dict[str, Any] = admin.outcomes(admin.describe_topics, names, timeout=limit) if names else {}
        metadata = ClusterMetadata()
        metadata.cluster_id = found.cluster_id
        metadata.brokers = {node.id: BrokerMetadata(node.id, node.host, node.port) for node in found.nodes}
        if found.controller is not None:
            metadata.controller_id = metadata.orig_broker_id = found.controller.id
            metadata.orig_broker_name = f"{found.controller.address}/{found.controller.id}"
        for name, described in topics.items():
            failed = isinstance(described, levada_errors.KafkaError)
            metadata.topics[name] = (
                TopicMetadata(name, error=to_kafka_error(described)) if failed else TopicMetadata(name, described.partitions)
            )
        return metadata

    def cluster_id(self, timeout: float | None) -> str | None:
        """Return the id of the cluster. timeout: seconds; None or negative for levada's default."""
        admin = self.admin()
        with raising_kafka_exceptions("Failed to get the cluster id"):
            return admin.describe_cluster(timeout=seconds(timeout)).cluster_id
