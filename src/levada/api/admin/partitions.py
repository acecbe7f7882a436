"""Partitions: offsets, deletion of records, leaders, reassignments, and log folders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from levada.admin import log_dirs, partitions
from levada.admin.log_dirs import LogDirDescription, ReplicaLogDirs
from levada.admin.partitions import PartitionReassignment
from levada.api import arguments
from levada.api.admin import admin_arguments
from levada.api.admin.core import AdminCore
from levada.api.client import Operation
from levada.types import IsolationLevel, OffsetAndTimestamp, OffsetSpec, PartitionInfo, TopicPartition, TopicPartitionReplica


def list_offsets(
    admin: AdminCore,
    /,
    specs: Mapping[TopicPartition, OffsetSpec | str | datetime | int],
    *,
    isolation_level: IsolationLevel | str = IsolationLevel.READ_UNCOMMITTED,
    timeout: float | None = None,
) -> Operation[dict[TopicPartition, OffsetAndTimestamp | None]]:
    """Look up an offset of each partition; None if there is no such record (Kafka since 0.10.1).

    specs: an OffsetSpec or its name, such as "latest"; or a time (an aware datetime or milliseconds since the epoch) for the first record
    at or after it. isolation_level: with "read_committed", "latest" is the beginning of the first open transaction, if there is one. The
    timestamp is -1 for specs of the log's ends. Raises UnknownTopicOrPartitionError, and UnsupportedVersionError for a spec that the
    brokers do not know.
    """
    wanted = {arguments.topic_partition(tp): admin_arguments.offset_spec(tp, spec) for tp, spec in specs.items()}
    level = admin_arguments.isolation_level(isolation_level)
    return admin.operation(partitions.list_offsets(wanted, level, admin.attempts(), admin.spawn), "list offsets", timeout)


def delete_records(
    admin: AdminCore, /, before: Mapping[TopicPartition, int], *, timeout: float | None = None
) -> Operation[dict[TopicPartition, int]]:
    """Delete the records before an offset of each partition; return the new start offset of each (Kafka since 0.11).

    before: -1 deletes all committed records. Raises OffsetOutOfRangeError for an offset behind the partition's end, BrokerError
    (POLICY_VIOLATION) for a topic with cleanup.policy=compact, and others.
    """
    wanted = {arguments.topic_partition(tp): admin_arguments.offset_before(tp, offset) for tp, offset in before.items()}
    flow = partitions.delete_records(wanted, admin.attempts(), admin.spawn, timeout_ms=admin.request_timeout_ms)
    return admin.operation(flow, "delete records", timeout)


def elect_leaders(
    admin: AdminCore,
    /,
    election_type: str = "Preferred",
    partitions_to_elect: Iterable[TopicPartition | PartitionInfo] | None = None,
    *,
    timeout: float | None = None,
) -> Operation[dict[TopicPartition, bool]]:
    """Elect leaders of partitions, by default of all that need it; True: one was elected, False: none was needed (Kafka since 2.2).

    election_type: with "Preferred", the first replica becomes the leader if it is in sync. With "Unclean", a replica becomes the leader
    that is not in sync, if none is: records may be lost (2.4). Raises BrokerError: PREFERRED_LEADER_NOT_AVAILABLE,
    ELIGIBLE_LEADERS_NOT_AVAILABLE and others.
    """
    election = admin_arguments.election_type(election_type)
    wanted = None if partitions_to_elect is None else arguments.topic_partitions(partitions_to_elect)
    flow = partitions.elect_leaders(election, wanted, admin.attempts(), timeout_ms=admin.request_timeout_ms)
    return admin.operation(flow, "elect leaders", timeout)


def alter_partition_reassignments(
    admin: AdminCore, /, reassignments: Mapping[TopicPartition, Sequence[int] | None], *, timeout: float | None = None
) -> Operation[dict[TopicPartition, None]]:
    """Begin to move partitions to other brokers; list_partition_reassignments() has those in progress (Kafka since 2.4).

    reassignments: the ids of the brokers that are to have replicas, the preferred leader first; None cancels a reassignment in progress.
    Raises BrokerError: INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS and others.
    """
    wanted = admin_arguments.reassignments(reassignments)
    flow = partitions.alter_partition_reassignments(wanted, admin.attempts(), timeout_ms=admin.request_timeout_ms)
    return admin.operation(flow, "alter partition reassignments", timeout)


def list_partition_reassignments(
    admin: AdminCore, /, of_partitions: Iterable[TopicPartition | PartitionInfo] | None = None, *, timeout: float | None = None
) -> Operation[dict[TopicPartition, PartitionReassignment]]:
    """Return the reassignments in progress, by default of all partitions (Kafka since 2.4)."""
    wanted = None if of_partitions is None else arguments.topic_partitions(of_partitions)
    flow = partitions.list_partition_reassignments(wanted, admin.attempts(), timeout_ms=admin.request_timeout_ms)
    return admin.operation(flow, "list partition reassignments", timeout)


def describe_log_dirs(
    admin: AdminCore, /, broker_ids: Iterable[int] | None = None, *, timeout: float | None = None
) -> Operation[dict[int, dict[str, LogDirDescription]]]:
    """Return the folders in which brokers keep logs, and the replicas in them, by broker and path; by default of all brokers
    (since 1.0).
    """
    wanted = None if broker_ids is None else admin_arguments.node_ids(broker_ids)
    return admin.operation(log_dirs.describe_log_dirs(wanted, admin.attempts(), admin.spawn), "describe log dirs", timeout)


def describe_replica_log_dirs(
    admin: AdminCore, /, replicas: Iterable[TopicPartitionReplica], *, timeout: float | None = None
) -> Operation[dict[TopicPartitionReplica, ReplicaLogDirs]]:
    """Return the folder of each replica. The path is None if the broker does not have it (Kafka since 1.0)."""
    wanted = [admin_arguments.replica(one) for one in replicas]
    return admin.operation(log_dirs.describe_replica_log_dirs(wanted, admin.attempts(), admin.spawn), "describe replica log dirs", timeout)


def alter_replica_log_dirs(
    admin: AdminCore, /, assignment: Mapping[TopicPartitionReplica, str], *, timeout: float | None = None
) -> Operation[dict[TopicPartitionReplica, None]]:
    """Move replicas to other folders of their brokers; describe_replica_log_dirs() shows the progress (Kafka since 1.1).

    assignment: the absolute path of the new folder. Raises BrokerError: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR and others;
    REPLICA_NOT_AVAILABLE means that the replica does not exist yet, and will be created in that folder.
    """
    wanted = {admin_arguments.replica(one): admin_arguments.folder(path) for one, path in assignment.items()}
    return admin.operation(log_dirs.alter_replica_log_dirs(wanted, admin.attempts(), admin.spawn), "alter replica log dirs", timeout)
