"""The cluster: its brokers, features, and the quorum of its controllers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from levada.admin import cluster
from levada.admin.cluster import ClusterDescription, FeatureMetadata, FeatureUpdate, QuorumDescription, RaftEndpoint
from levada.api import arguments
from levada.api.admin import admin_arguments
from levada.api.admin.core import AdminCore
from levada.api.client import Operation


def describe_cluster(
    admin: AdminCore,
    /,
    *,
    include_authorized_operations: bool = False,
    include_fenced_brokers: bool = False,
    timeout: float | None = None,
) -> Operation[ClusterDescription]:
    """Return the id and the brokers of the cluster; with bootstrap.controllers, its controllers in place of the brokers.

    include_authorized_operations: whether to include the operations that this user may perform on the cluster (Kafka since 2.3).
    include_fenced_brokers: whether to include brokers that are registered but fenced (Kafka since 4.0). For either, older brokers raise
    UnsupportedVersionError.
    """
    flow = cluster.describe_cluster(
        admin.attempts(),
        authorized_operations=include_authorized_operations,
        fenced=include_fenced_brokers,
        of_controllers=admin.is_of_controllers,
    )
    return admin.operation(flow, "describe cluster", timeout)


def unregister_broker(admin: AdminCore, /, broker_id: int, *, timeout: float | None = None) -> Operation[None]:
    """Remove the registration of a broker that will not come back, in KRaft mode.

    A broker that still runs registers again when it is next started. Raises BrokerError (BROKER_ID_NOT_REGISTERED), UnsupportedVersionError
    on brokers before 3.3.
    """
    flow = cluster.unregister_broker(arguments.whole("broker_id", broker_id), admin.attempts())
    return admin.operation(flow, "unregister broker", timeout)


def unregister_controller(admin: AdminCore, /, controller_id: int, *, timeout: float | None = None) -> Operation[None]:
    """Remove the registration of a controller that will not come back, in KRaft mode.

    The voters of the quorum stay as they are; remove_raft_voter() changes them. Raises BrokerError (CONTROLLER_ID_NOT_REGISTERED),
    UnsupportedVersionError on brokers before 4.4.
    """
    flow = cluster.unregister_controller(arguments.whole("controller_id", controller_id), admin.attempts())
    return admin.operation(flow, "unregister controller", timeout)


def describe_features(admin: AdminCore, /, *, timeout: float | None = None) -> Operation[FeatureMetadata]:
    """Return the cluster's finalized features, such as transaction.version, and those that the broker which answers supports.

    Brokers before 2.7 report no features.
    """
    return admin.operation(cluster.describe_features(admin.attempts()), "describe features", timeout)


def update_features(
    admin: AdminCore, /, updates: Mapping[str, int | FeatureUpdate], *, validate_only: bool = False, timeout: float | None = None
) -> Operation[dict[str, None]]:
    """Change the levels of features. Return a dict that maps each feature to None.

    updates: for each feature name, the new level, which must be higher than the current one; or a FeatureUpdate, which may also lower it.
    validate_only: whether only to check the updates.

    Raises BrokerError (INVALID_UPDATE_VERSION, FEATURE_UPDATE_FAILED and others), UnsupportedVersionError on brokers before 3.3. Brokers
    since 4.0 change either all features or none, and then give the same reason for each.
    """
    wanted = admin_arguments.feature_updates(updates)
    flow = cluster.update_features(wanted, admin.attempts(), timeout_ms=admin.request_timeout_ms, validate_only=validate_only)
    return admin.operation(flow, "update features", timeout)


def describe_metadata_quorum(admin: AdminCore, /, *, timeout: float | None = None) -> Operation[QuorumDescription]:
    """Return the voters and observers of a cluster in KRaft mode, and how far each has read the metadata log.

    Raises UnsupportedVersionError on brokers before 3.3, and in a cluster with ZooKeeper.
    """
    return admin.operation(cluster.describe_metadata_quorum(admin.attempts()), "describe metadata quorum", timeout)


def add_raft_voter(
    admin: AdminCore,
    /,
    voter_id: int,
    voter_directory_id: UUID,
    endpoints: Iterable[RaftEndpoint],
    *,
    cluster_id: str | None = None,
    timeout: float | None = None,
) -> Operation[None]:
    """Make a controller that is an observer a voter (KIP-853).

    voter_directory_id: as in describe_metadata_quorum(). endpoints: the listeners of the controller. cluster_id: if given, the call fails
    in any other cluster. Raises BrokerError (DUPLICATE_VOTER and others), and UnsupportedVersionError for a static quorum
    (controller.quorum.voters) and on brokers before 3.9.
    """
    listeners = [admin_arguments.raft_endpoint(one) for one in endpoints]
    voter, limit_ms = arguments.whole("voter_id", voter_id), admin.request_timeout_ms
    directory = admin_arguments.directory_id(voter_directory_id)
    flow = cluster.add_raft_voter(voter, directory, listeners, admin.attempts(), cluster_id=cluster_id, timeout_ms=limit_ms)
    return admin.operation(flow, "add raft voter", timeout)


def remove_raft_voter(
    admin: AdminCore, /, voter_id: int, voter_directory_id: UUID, *, cluster_id: str | None = None, timeout: float | None = None
) -> Operation[None]:
    """Make a controller that is a voter an observer (KIP-853).

    voter_directory_id: as in describe_metadata_quorum(). cluster_id: if given, the call fails in any other cluster. Raises BrokerError
    (VOTER_NOT_FOUND and others), and UnsupportedVersionError for a static quorum (controller.quorum.voters) and on brokers before 3.9.
    """
    voter, directory = arguments.whole("voter_id", voter_id), admin_arguments.directory_id(voter_directory_id)
    flow = cluster.remove_raft_voter(voter, directory, admin.attempts(), cluster_id=cluster_id)
    return admin.operation(flow, "remove raft voter", timeout)
