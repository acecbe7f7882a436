"""Partitions: offsets, deletion of records, leaders, reassignments, and log directories."""

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
    """Look up an offset of each partition; None if there is no such record.

    specs: for each partition, an OffsetSpec or its name, such as "latest"; or a time (an aware datetime or milliseconds since the epoch) to
    find the first record at or after that time. isolation_level: with "read_committed", "latest" is the last stable offset. The timestamp
    in the result is -1 if the spec is the beginning or the end of the log. Raises UnknownTopicOrPartitionError. Raises
    UnsupportedVersionError if a broker is too old: all calls need 0.10.1, "read_committed" needs 0.11, and some specs need a newer release.
    """
    wanted = {arguments.topic_partition(tp): admin_arguments.offset_spec(tp, spec) for tp, spec in specs.items()}
    level = admin_arguments.isolation_level(isolation_level)
    return admin.operation(partitions.list_offsets(wanted, level, admin.attempts(), admin.spawn), "list offsets", timeout)


def delete_records(
    admin: AdminCore, /, before: Mapping[TopicPartition, int], *, timeout: float | None = None
) -> Operation[dict[TopicPartition, int]]:
    """Delete the records before an offset of each partition; return the new log start offset of each.

    before: the offset for each partition; -1 for the high watermark. Raises OffsetOutOfRangeError for an offset after the high watermark,
    BrokerError (POLICY_VIOLATION) for a topic with cleanup.policy=compact, UnsupportedVersionError on brokers before 0.11, and others.
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
    """Elect leaders of partitions; return for each whether a leader was elected: False if no election was needed.

    election_type: with "Preferred", the first replica becomes the leader if it is in sync. With "Unclean", a replica that is not in sync
    becomes the leader if no replica is in sync: records may be lost. partitions_to_elect: None for all partitions that need an election.

    Raises BrokerError (PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE and others), UnsupportedVersionError on brokers
    before 2.2, for "Unclean" before 2.4.
    """
    election = admin_arguments.election_type(election_type)
    wanted = None if partitions_to_elect is None else arguments.topic_partitions(partitions_to_elect)
    flow = partitions.elect_leaders(election, wanted, admin.attempts(), timeout_ms=admin.request_timeout_ms)
    return admin.operation(flow, "elect leaders", timeout)


def alter_partition_reassignments(
    admin: AdminCore, /, reassignments: Mapping[TopicPartition, Sequence[int] | None], *, timeout: float | None = None
) -> Operation[dict[TopicPartition, None]]:
    """Begin to move partitions to other brokers; list_partition_reassignments() returns the moves in progress. Return a dict that maps each
    partition to None.

    reassignments: for each partition, the ids of the brokers that shall have replicas, the preferred leader first; None cancels a
    reassignment in progress. Raises BrokerError (INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS and others),
    UnsupportedVersionError on brokers before 2.4.
    """
    wanted = admin_arguments.reassignments(reassignments)
    flow = partitions.alter_partition_reassignments(wanted, admin.attempts(), timeout_ms=admin.request_timeout_ms)
    return admin.operation(flow, "alter partition reassignments", timeout)


def list_partition_reassignments(
    admin: AdminCore, /, of_partitions: Iterable[TopicPartition | PartitionInfo] | None = None, *, timeout: float | None = None
) -> Operation[dict[TopicPartition, PartitionReassignment]]:
    """Return the reassignments in progress, by partition. of_partitions: None for all partitions.

    Raises UnsupportedVersionError on brokers before 2.4.
    """
    wanted = None if of_partitions is None else arguments.topic_partitions(of_partitions)
    flow = partitions.list_partition_reassignments(wanted, admin.attempts(), timeout_ms=admin.request_timeout_ms)
    return admin.operation(flow, "list partition reassignments", timeout)


def describe_log_dirs(
    admin: AdminCore, /, broker_ids: Iterable[int] | None = None, *, timeout: float | None = None
) -> Operation[dict[int, dict[str, LogDirDescription]]]:
    """Return the log directories of brokers and the replicas in them, by broker id and path.

    broker_ids: None for all brokers. Raises UnsupportedVersionError on brokers before 1.0.
    """
    wanted = None if broker_ids is None else admin_arguments.node_ids(broker_ids)
    return admin.operation(log_dirs.describe_log_dirs(wanted, admin.attempts(), admin.spawn), "describe log dirs", timeout)


def describe_replica_log_dirs(
    admin: AdminCore, /, replicas: Iterable[TopicPartitionReplica], *, timeout: float | None = None
) -> Operation[dict[TopicPartitionReplica, ReplicaLogDirs]]:
    """Return the log directory of each replica. Its `current` is None if the broker does not have the replica.

    Raises UnsupportedVersionError on brokers before 1.0.
    """
    wanted = [admin_arguments.replica(one) for one in replicas]
    return admin.operation(log_dirs.describe_replica_log_dirs(wanted, admin.attempts(), admin.spawn), "describe replica log dirs", timeout)


def alter_replica_log_dirs(
    admin: AdminCore, /, assignment: Mapping[TopicPartitionReplica, str], *, timeout: float | None = None
) -> Operation[dict[TopicPartitionReplica, None]]:
    """Move replicas to other log directories of their brokers; describe_replica_log_dirs() shows the progress. Return a dict that maps each
    replica to None.

    assignment: for each replica, the absolute path of the new directory. Raises BrokerError (LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR and
    others), UnsupportedVersionError on brokers before 1.1. BrokerError (REPLICA_NOT_AVAILABLE) means that the replica does not exist yet,
    and will be created in that directory.
    """
    wanted = {admin_arguments.replica(one): admin_arguments.folder(path) for one, path in assignment.items()}
    return admin.operation(log_dirs.alter_replica_log_dirs(wanted, admin.attempts(), admin.spawn), "alter replica log dirs", timeout)
