"""The folders in which brokers keep their logs (KIP-113)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from levada.admin.cluster import describe_cluster
from levada.admin.per_key import Attempts
from levada.admin.requests import Asked, Outcome, carry_out
from levada.base.flow import Flow
from levada.client.requests.destination import ThisNode
from levada.client.requests.fan_out import Spawn
from levada.client.requests.partition_answer import by_topic
from levada.errors import BrokerError, broker_error
from levada.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from levada.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResult
from levada.types import TopicPartition, TopicPartitionReplica

NOT_TOLD = -1


class LogDirReplica(NamedTuple):
    """A replica in a log directory. size_bytes: the size of its log. offset_lag: the number of offsets from the end of its log to the
    partition's high watermark, at least 0. For a future replica, which alter_replica_log_dirs() has created: the number of offsets to the
    end of the current replica, which the future replica replaces once it has caught up.
    """

    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """A log directory of a broker. error: why the directory cannot be used, None if it can be used.

    total_bytes, usable_bytes: the size and the free space of its volume, None if the broker does not report them (before Kafka 3.3).
    is_cordoned: whether the directory gets no new replicas (since Kafka 4.3).
    """

    error: BrokerError | None
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool
    replicas: Mapping[TopicPartition, LogDirReplica]


class ReplicaLogDirs(NamedTuple):
    """The log directory of a replica. current: None if the broker does not have the replica.

    future: the log directory to which the replica is being moved, None if it is not being moved.
    """

    current: str | None = None
    current_offset_lag: int | None = None
    future: str | None = None
    future_offset_lag: int | None = None


def describe_log_dirs(
    broker_ids: Collection[int] | None, attempts: Attempts, spawn: Spawn
) -> Flow[dict[int, dict[str, LogDirDescription]]]:
    """Describe the log directories of brokers. broker_ids: None for all brokers. The result is by broker id, then by path."""
    if broker_ids is None:
        broker_ids = [node.id for node in (yield from describe_cluster(attempts)).nodes]
    asked = Asked(
        lambda broker_id: f"describe the log dirs of broker {broker_id}",
        lambda wanted: DescribeLogDirsRequest(topics=None),
        lambda response: dict.fromkeys(broker_ids, Outcome(response.error_code, None, _dirs(response.results))),
    )
    return (yield from carry_out(asked, broker_ids, attempts, route=ThisNode, spawn=spawn))


def describe_replica_log_dirs(
    replicas: Collection[TopicPartitionReplica], attempts: Attempts, spawn: Spawn
) -> Flow[dict[TopicPartitionReplica, ReplicaLogDirs]]:
    """Return the current and the future log directory of each replica."""

    def outcomes(response: Any) -> dict[TopicPartitionReplica, Outcome]:
        dirs = _dirs(response.results)
        return {replica: Outcome(response.error_code, None, _place(replica, dirs)) for replica in replicas}

    asked = Asked(lambda replica: f"describe the log dir of {_name(replica)}", _request, outcomes)
    return carry_out(asked, replicas, attempts, route=lambda replica: ThisNode(replica.broker_id), spawn=spawn)


def alter_replica_log_dirs(
    targets: Mapping[TopicPartitionReplica, str], attempts: Attempts, spawn: Spawn
) -> Flow[dict[TopicPartitionReplica, None]]:
    """Move replicas to other log directories of their brokers. Return a dict that maps each replica to None.

    targets: the path of the log directory for each replica. REPLICA_NOT_AVAILABLE is raised for a replica that the broker does not have
    yet; it will be created in that directory.
    """

    def request(wanted: list[TopicPartitionReplica]) -> AlterReplicaLogDirsRequest:
        dirs: dict[str, list[TopicPartition]] = {}
        for replica in wanted:
            dirs.setdefault(targets[replica], []).append(TopicPartition(replica.topic, replica.partition))
        return AlterReplicaLogDirsRequest(
            dirs=[
                AlterReplicaLogDir(
                    path=path,
                    topics=[
                        AlterReplicaLogDirTopic(name=name, partitions=[tp.partition for tp in of_topic])
                        for name, of_topic in by_topic(tps).items()
                    ],
                )
                for path, tps in dirs.items()
            ]
        )

    def outcomes(response: Any) -> dict[TopicPartitionReplica, Outcome]:
        codes = {(topic.topic_name, part.partition_index): part.error_code for topic in response.results for part in topic.partitions}
        return {one: Outcome(codes[one.topic, one.partition]) for one in targets if (one.topic, one.partition) in codes}

    asked = Asked(lambda replica: f"move {_name(replica)} to '{targets[replica]}'", request, outcomes)
    return carry_out(asked, targets, attempts, route=lambda replica: ThisNode(replica.broker_id), spawn=spawn)


def _request(wanted: Iterable[TopicPartitionReplica]) -> DescribeLogDirsRequest:
    topics = by_topic(TopicPartition(replica.topic, replica.partition) for replica in wanted).items()
    return DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=name, partitions=[tp.partition for tp in of_topic]) for name, of_topic in topics]
    )


def _dirs(results: Iterable[DescribeLogDirsResult]) -> dict[str, LogDirDescription]:
    return {
        told.log_dir: LogDirDescription(
            broker_error(told.error_code, f"log dir '{told.log_dir}'") if told.error_code else None,
            None if told.total_bytes == NOT_TOLD else told.total_bytes,
            None if told.usable_bytes == NOT_TOLD else told.usable_bytes,
            told.is_cordoned,
            {
                TopicPartition(topic.name, part.partition_index): LogDirReplica(part.partition_size, part.offset_lag, part.is_future_key)
                for topic in told.topics
                for part in topic.partitions
            },
        )
        for told in results
    }


def _place(replica: TopicPartitionReplica, dirs: Mapping[str, LogDirDescription]) -> ReplicaLogDirs:
    tp = TopicPartition(replica.topic, replica.partition)
    found = ReplicaLogDirs()
    for path, described in dirs.items():
        here = described.replicas.get(tp)
        if here is None:
            continue
        if here.is_future:
            found = found._replace(future=path, future_offset_lag=here.offset_lag)
        else:
            found = found._replace(current=path, current_offset_lag=here.offset_lag)
    return found


def _name(replica: TopicPartitionReplica) -> str:
    return f"the replica of {replica.topic}-{replica.partition} on broker {replica.broker_id}"
