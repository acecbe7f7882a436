"""The cluster: its brokers, its finalized features, and the quorum of its controllers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from levada.acls import AclOperation
from levada.admin.enum_names import KafkaWord
from levada.admin.group_types import operations
from levada.admin.per_key import Attempts
from levada.admin.requests import Asked, Outcome, carry_out, from_any, of_all
from levada.base.flow import ANY_NODE, Call, Flow
from levada.client.metadata.metadata_source import BROKERS, CONTROLLERS, FIRST_VERSION_OF_CONTROLLERS, check_endpoint
from levada.client.network.api_versions import handshake_request
from levada.client.requests.fan_out import Whom
from levada.error_codes import ErrorCode
from levada.errors import UnsupportedVersionError
from levada.protocol.messages import describe_quorum
from levada.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from levada.protocol.messages.describe_cluster import OPERATIONS_NOT_ASKED, DescribeClusterRequest, DescribeClusterResponse
from levada.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse
from levada.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from levada.protocol.messages.unregister_broker import UnregisterBrokerRequest
from levada.protocol.messages.unregister_controller import UnregisterControllerRequest
from levada.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from levada.types import Node

FIRST_VERSION_WITH_FENCED = 2
FIRST_UPDATE_VERSION_WITH_TYPES = 1
FIRST_METADATA_VERSION_WITH_OPERATIONS = 8
METADATA_TOPIC = "__cluster_metadata"
NO_EPOCH = -1
NOT_TOLD_MS = -1


class ClusterDescription(NamedTuple):
    """The brokers of a cluster. controller: the broker that forwards requests to the controller, None if the brokers name no controller.

    Brokers before 0.10 name no controller, and brokers before 0.10.1 have no cluster id. authorized_operations: the operations that this
    user may do with the cluster, None if they were not requested. fenced: the ids of brokers that are registered but not in use, for
    example because they are down; empty unless they were requested.
    """

    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]
    authorized_operations: frozenset[AclOperation] | None = None
    fenced: frozenset[int] = frozenset()


class FeatureLevels(NamedTuple):
    """The lowest and the highest level of a feature, both included."""

    min_version: int
    max_version: int


class FeatureMetadata(NamedTuple):
    """The finalized features of a cluster, and the features that the broker which answered supports (KIP-584), by name.

    epoch: grows with each change of the finalized features; None before the first. Brokers before 2.7 report no features.
    """

    finalized: Mapping[str, FeatureLevels]
    supported: Mapping[str, FeatureLevels]
    epoch: int | None


class UpgradeType(KafkaWord):
    """The change of a feature's level that is allowed. UPGRADE: only to a higher level. SAFE_DOWNGRADE: also to a lower level, if no
    metadata are lost. UNSAFE_DOWNGRADE: also if metadata are lost.
    """

    UPGRADE = "Upgrade"
    SAFE_DOWNGRADE = "SafeDowngrade"
    UNSAFE_DOWNGRADE = "UnsafeDowngrade"
    UNKNOWN = "Unknown"


_UPGRADES = {UpgradeType.UPGRADE: 1, UpgradeType.SAFE_DOWNGRADE: 2, UpgradeType.UNSAFE_DOWNGRADE: 3}


class FeatureUpdate(NamedTuple):
    """The new level of a feature. Level 0 removes the feature from the finalized features."""

    max_version: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


class QuorumReplica(NamedTuple):
    """A node's replica of the metadata log. Times are in ms since the epoch, None if the leader does not know them.

    directory_id: the id of the log directory with the replica, None before Kafka 3.9.
    """

    node_id: int
    directory_id: UUID | None
    log_end_offset: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


class RaftEndpoint(NamedTuple):
    """A listener of a controller."""

    name: str
    host: str
    port: int


class QuorumDescription(NamedTuple):
    """The controllers of a cluster in KRaft mode (KIP-595). voters elect the leader; observers, such as brokers, only follow it.

    endpoints: the listeners of each voter, by the voter's id; empty before Kafka 3.9.
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[RaftEndpoint, ...]]


# Brokers


def describe_cluster(
    attempts: Attempts, *, authorized_operations: bool = False, fenced: bool = False, of_controllers: bool = False
) -> Flow[ClusterDescription]:
    """Ask any node for the nodes of the cluster. authorized_operations: also ask for the operations that this user may do.

    fenced: include brokers that are registered but not in use (Kafka since 4.0). of_controllers: ask a controller, which returns the
    controllers in place of the brokers.
    """
    endpoint = CONTROLLERS if of_controllers else BROKERS
    return from_any("describe cluster", attempts, lambda: _describe_cluster(authorized_operations, fenced, endpoint))


def _describe_cluster(authorized_operations: bool, fenced: bool, endpoint_type: int) -> Flow[ClusterDescription]:
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=authorized_operations, endpoint_type=endpoint_type, include_fenced_brokers=fenced
    )
    try:
        oldest = FIRST_VERSION_WITH_FENCED if fenced else FIRST_VERSION_OF_CONTROLLERS if endpoint_type == CONTROLLERS else 0
        response: DescribeClusterResponse = yield Call(request, min_version=oldest)
    except UnsupportedVersionError:
        if oldest:
            raise
        return (yield from _by_metadata(authorized_operations))
    check_endpoint(response, endpoint_type)
    nodes = tuple(sorted(Node(broker.broker_id, broker.host, broker.port, broker.rack) for broker in response.brokers))
    return ClusterDescription(
        response.cluster_id,
        _named(nodes, response.controller_id),
        nodes,
        operations(response.cluster_authorized_operations, OPERATIONS_NOT_ASKED),
        frozenset(broker.broker_id for broker in response.brokers if broker.is_fenced),
    )


def _by_metadata(authorized_operations: bool) -> Flow[ClusterDescription]:
    """Describe the cluster with a Metadata request, because brokers before 2.8 do not have DescribeCluster.

    authorized_operations: whether to include the operations that this user may perform on the cluster.
    """
    request = MetadataRequest(topics=[], include_cluster_authorized_operations=authorized_operations)
    oldest = FIRST_METADATA_VERSION_WITH_OPERATIONS if authorized_operations else 0
    response: MetadataResponse = yield Call(request, min_version=oldest)
    nodes = tuple(sorted(Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers))
    may = operations(response.cluster_authorized_operations, OPERATIONS_NOT_ASKED)
    return ClusterDescription(response.cluster_id, _named(nodes, response.controller_id), nodes, may)


def _named(nodes: Iterable[Node], node_id: int) -> Node | None:
    return next((node for node in nodes if node.id == node_id), None)


def unregister_broker(broker_id: int, attempts: Attempts) -> Flow[None]:
    """Remove the registration of a broker that will not come back from a cluster in KRaft mode."""
    asked = Asked(
        lambda _: f"unregister broker {broker_id}",
        lambda _: UnregisterBrokerRequest(broker_id=broker_id),
        lambda response: {None: Outcome(response.error_code, response.error_message)},
        ErrorCode.BROKER_ID_NOT_REGISTERED,
    )
    return of_all(asked, attempts, route=_any)


def unregister_controller(controller_id: int, attempts: Attempts) -> Flow[None]:
    """Remove the registration of a controller that will not come back from a cluster in KRaft mode (Kafka since 4.4).

    The voters of the quorum stay as they are; remove_raft_voter() changes them.
    """
    asked = Asked(
        lambda _: f"unregister controller {controller_id}",
        lambda _: UnregisterControllerRequest(controller_id=controller_id),
        lambda response: {None: Outcome(response.error_code, response.error_message)},
    )
    return of_all(asked, attempts, route=_any)


# Features


def describe_features(attempts: Attempts) -> Flow[FeatureMetadata]:
    """Ask any broker for the finalized and the supported features."""
    return from_any("describe features", attempts, _describe_features)


def _describe_features() -> Flow[FeatureMetadata]:
    response = yield Call(handshake_request())
    finalized = {one.name: FeatureLevels(one.min_version_level, one.max_version_level) for one in response.finalized_features}
    supported = {one.name: FeatureLevels(one.min_version, one.max_version) for one in response.supported_features}
    epoch = response.finalized_features_epoch
    return FeatureMetadata(finalized, supported, None if epoch == NO_EPOCH else epoch)


def update_features(
    updates: Mapping[str, FeatureUpdate], attempts: Attempts, *, timeout_ms: int, validate_only: bool
) -> Flow[dict[str, None]]:
    """Change the finalized levels of features. Return a dict that maps each feature to None.

    timeout_ms: how long the broker may take. validate_only: check the changes without making them. If features have failed, the error of
    the first one is raised, with the outcome of each.
    """

    def request(wanted: list[str]) -> UpdateFeaturesRequest:
        keys = [
            FeatureUpdateKey(
                feature=name,
                max_version_level=updates[name].max_version,
                upgrade_type=_UPGRADES[updates[name].upgrade_type],
            )
            for name in wanted
        ]
        return UpdateFeaturesRequest(timeout_ms=timeout_ms, feature_updates=keys, validate_only=validate_only)

    def outcomes(response: Any) -> dict[str, Outcome]:
        # Since version 2 (Kafka 4.0) all are changed, or none for one reason.
        told = dict.fromkeys(updates, Outcome(response.error_code, response.error_message))
        return told | {one.feature: Outcome(one.error_code, one.error_message) for one in response.results}

    asked = Asked(lambda name: f"update feature '{name}'", request, outcomes, min_version=FIRST_UPDATE_VERSION_WITH_TYPES)
    return carry_out(asked, updates, attempts)


# The quorum


def describe_metadata_quorum(attempts: Attempts) -> Flow[QuorumDescription]:
    """Ask any broker for the state of the controller quorum. The broker forwards the request to the quorum's leader."""
    topics = [describe_quorum.TopicData(topic_name=METADATA_TOPIC, partitions=[describe_quorum.PartitionData()])]

    def outcomes(response: DescribeQuorumResponse) -> dict[None, Outcome]:
        if response.error_code:
            return {None: Outcome(response.error_code, response.error_message)}
        (part,) = (part for topic in response.topics for part in topic.partitions)
        return {None: Outcome(part.error_code, part.error_message, _quorum(part, response.nodes))}

    asked = Asked(lambda _: "describe the metadata quorum", lambda _: DescribeQuorumRequest(topics=topics), outcomes)
    return of_all(asked, attempts, route=_any)


def add_raft_voter(
    voter_id: int, directory_id: UUID, endpoints: Sequence[RaftEndpoint], attempts: Attempts, *, cluster_id: str | None, timeout_ms: int
) -> Flow[None]:
    """Make an observer a voter of the controller quorum (KIP-853). directory_id: the id of its log directory.

    endpoints: the listeners of the controller. cluster_id: if it is given, any other cluster refuses the request. timeout_ms: how long the
    broker may take.
    """
    listeners = [Listener(name=one.name, host=one.host, port=one.port) for one in endpoints]
    asked = Asked(
        lambda _: f"add voter {voter_id} with directory {directory_id}",
        lambda _: AddRaftVoterRequest(
            cluster_id=cluster_id, timeout_ms=timeout_ms, voter_id=voter_id, voter_directory_id=directory_id, listeners=listeners
        ),
        lambda response: {None: Outcome(response.error_code, response.error_message)},
        ErrorCode.DUPLICATE_VOTER,
    )
    return of_all(asked, attempts, route=_any)


def remove_raft_voter(voter_id: int, directory_id: UUID, attempts: Attempts, *, cluster_id: str | None) -> Flow[None]:
    """Make a voter of the controller quorum an observer (KIP-853). directory_id: the id of its log directory.

    cluster_id: if it is given, any other cluster refuses the request.
    """
    asked = Asked(
        lambda _: f"remove voter {voter_id} with directory {directory_id}",
        lambda _: RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id),
        lambda response: {None: Outcome(response.error_code, response.error_message)},
        ErrorCode.VOTER_NOT_FOUND,
    )
    return of_all(asked, attempts, route=_any)


def _any(thing: object) -> Whom:
    return ANY_NODE


def _quorum(part: describe_quorum.PartitionResponse, nodes: Iterable[describe_quorum.Node]) -> QuorumDescription:
    return QuorumDescription(
        part.leader_id,
        part.leader_epoch,
        part.high_watermark,
        tuple(_replica(one) for one in part.current_voters),
        tuple(_replica(one) for one in part.observers),
        {node.node_id: tuple(RaftEndpoint(one.name, one.host, one.port) for one in node.listeners) for node in nodes},
    )


def _replica(told: describe_quorum.ReplicaState) -> QuorumReplica:
    fetched, caught_up = told.last_fetch_timestamp, told.last_caught_up_timestamp
    return QuorumReplica(
        told.replica_id,
        told.replica_directory_id if told.replica_directory_id.int else None,
        told.log_end_offset,
        None if fetched == NOT_TOLD_MS else fetched,
        None if caught_up == NOT_TOLD_MS else caught_up,
    )
