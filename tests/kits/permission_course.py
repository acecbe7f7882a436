"""What a user asks for in a course of the differential test of permissions, about names of its own: every API but those in NOT_ASKED."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any
from uuid import UUID, uuid4

import levada as lv
from broker_kit import fetch_request, make_batch, produce_request
from levada.acls import OPERATIONS
from levada.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_share_group_offsets,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_txn_markers,
)
from levada.protocol.schema import Request

RULES = 10
TOPIC, BROKER, GROUP = 2, 4, 32

_LOGIN = "is part of every login, and needs no permission"
_TOKENS = "needs a broker that gives tokens: tests/unit/broker/test_broker_delegation_tokens.py"
_QUORUM = "changes who votes in the controllers' quorum, which the tests that come after need"
NOT_ASKED: Mapping[str, str] = {
    "ApiVersions": _LOGIN,
    "SaslHandshake": _LOGIN,
    "SaslAuthenticate": _LOGIN,
    "GetTelemetrySubscriptions": "needs no permission",
    "PushTelemetry": "needs no permission",
    "CreateDelegationToken": _TOKENS,
    "DescribeDelegationToken": _TOKENS,
    "RenewDelegationToken": _TOKENS,
    "ExpireDelegationToken": _TOKENS,
    "AddRaftVoter": _QUORUM,
    "RemoveRaftVoter": _QUORUM,
    "UnregisterController": _QUORUM,
    "StreamsGroupDescribe": "the embedded broker has no groups of Kafka Streams",
}
"""The APIs that a course leaves out, and why."""


class Course:
    """What a user asks for, with names of its own."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.prefix = f"p{uuid4().hex[:8]}"
        self.topics = [f"{self.prefix}-{name}" for name in ("a1", "a2", "b")]
        self.groups = [f"{self.prefix}-{name}" for name in ("a1", "b")]
        self.ids = list(self.groups)

    def rules(self) -> list[lv.AclBinding]:
        """Return rules that the user, or somebody else, is mentioned in."""
        return [self.rule() for _ in range(self.random.randint(0, RULES))]

    def rule(self) -> lv.AclBinding:
        choose = self.random.choice
        kind = choose(
            [lv.ResourceType.TOPIC, lv.ResourceType.TOPIC, lv.ResourceType.GROUP, lv.ResourceType.TRANSACTIONAL_ID, lv.ResourceType.CLUSTER]
        )
        pattern = lv.ResourcePattern(kind, "kafka-cluster")
        if kind is not lv.ResourceType.CLUSTER:
            names = [(f"{self.prefix}-a1", lv.PatternType.LITERAL), (f"{self.prefix}-a", lv.PatternType.PREFIXED)]
            names += [(self.prefix, lv.PatternType.PREFIXED), ("*", lv.PatternType.LITERAL), (f"{self.prefix}-b", lv.PatternType.LITERAL)]
            pattern = lv.ResourcePattern(kind, *choose(names))
        return lv.AclBinding(
            pattern,
            lv.AccessControlEntry(
                principal=choose(["User:alice", "User:alice", "User:alice", "User:*", "User:bob"]),
                operation=choose([*OPERATIONS[kind], lv.AclOperation.ALL]),
                permission_type=choose([lv.AclPermissionType.ALLOW] * 4 + [lv.AclPermissionType.DENY]),
                host=choose(["*", "*", "127.0.0.1", "10.0.0.1"]),
            ),
        )

    def questions(self, ids: Mapping[str, UUID]) -> Iterator[tuple[Request[Any], int]]:
        """Yield everything that the user asks for, and in which version. The order matters: groups and topics come to be, and go.

        ids: of the topics.
        """
        yield from self.about_topics()
        for topic in self.topics:
            yield from self.by_id(ids[topic])
        yield from self.about_the_cluster()
        yield from self.about_groups()
        yield from self.about_share_groups()
        for topic in self.topics:
            yield from self.shared(ids[topic])
        yield from self.about_transactions()
        yield from self.about_users()
        yield from self.changes()

    def about_topics(self) -> Iterator[tuple[Request[Any], int]]:
        named = [*self.topics, f"{self.prefix}-missing"]
        asked: dict[str, Any] = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
        wanted = [metadata.MetadataRequestTopic(name=name) for name in named]
        yield metadata.MetadataRequest(topics=wanted, **asked), 12
        yield metadata.MetadataRequest(topics=wanted, **asked, include_cluster_authorized_operations=True), 9
        yield metadata.MetadataRequest(topics=None), 12
        for name in named:
            yield produce_request(name, make_batch(b"v")), 12
            yield fetch_request(name), 12
        yield (
            list_offsets.ListOffsetsRequest(
                replica_id=-1,
                topics=[
                    list_offsets.ListOffsetsTopic(name=name, partitions=[list_offsets.ListOffsetsPartition(timestamp=-1)]) for name in named
                ],
            ),
            7,
        )
        of_epochs = offset_for_leader_epoch
        yield (
            of_epochs.OffsetForLeaderEpochRequest(
                replica_id=-1,
                topics=[of_epochs.OffsetForLeaderTopic(topic=name, partitions=[of_epochs.OffsetForLeaderPartition()]) for name in named],
            ),
            4,
        )
        yield (
            describe_producers.DescribeProducersRequest(
                topics=[describe_producers.TopicRequest(name=name, partition_indexes=[0]) for name in named]
            ),
            0,
        )
        for name in (*named, "1", self.groups[0]):
            for kind in (TOPIC, BROKER, GROUP):
                resource = describe_configs.DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=["retention.ms"]
                )
                if (kind == BROKER) == (name == "1"):
                    yield describe_configs.DescribeConfigsRequest(resources=[resource]), 4

    def by_id(self, topic_id: UUID) -> Iterator[tuple[Request[Any], int]]:
        """Ask about a topic by its id, in the versions that do."""
        asked = metadata.MetadataRequestTopic(name=None, topic_id=topic_id)
        yield metadata.MetadataRequest(topics=[asked], allow_auto_topic_creation=False), 12
        data = produce.PartitionProduceData(index=0, records=make_batch(b"v"))
        topic = produce.TopicProduceData(topic_id=topic_id, partition_data=[data])
        yield produce.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 13
        wanted = fetch.FetchTopic(topic_id=topic_id, partitions=[fetch.FetchPartition(partition_max_bytes=1000)])
        yield fetch.FetchRequest(max_bytes=1000, session_epoch=-1, topics=[wanted]), 13
        commit = offset_commit.OffsetCommitRequestPartition(committed_offset=1)
        committed = offset_commit.OffsetCommitRequestTopic(topic_id=topic_id, partitions=[commit])
        yield offset_commit.OffsetCommitRequest(group_id=f"{self.groups[0]}-ids", topics=[committed]), 10
        looked_up = offset_fetch.OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0])
        of_group = offset_fetch.OffsetFetchRequestGroup(group_id=f"{self.groups[0]}-ids", topics=[looked_up])
        yield offset_fetch.OffsetFetchRequest(groups=[of_group]), 10

    def about_the_cluster(self) -> Iterator[tuple[Request[Any], int]]:
        named = [*self.topics, f"{self.prefix}-missing"]
        yield describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True), 2
        wanted = [describe_topic_partitions.TopicRequest(name=name) for name in named]
        yield describe_topic_partitions.DescribeTopicPartitionsRequest(topics=wanted), 0
        more = [create_partitions.CreatePartitionsTopic(name=name, count=2) for name in named]
        yield create_partitions.CreatePartitionsRequest(topics=more, timeout_ms=10_000, validate_only=True), 3
        led = [elect_leaders.TopicPartitions(topic=self.topics[0], partitions=[0])]
        yield elect_leaders.ElectLeadersRequest(topic_partitions=led), 2
        moved = alter_partition_reassignments.ReassignablePartition(replicas=None)
        of_topic = alter_partition_reassignments.ReassignableTopic(name=self.topics[0], partitions=[moved])
        yield alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=[of_topic]), 1
        yield list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None), 0
        yield describe_log_dirs.DescribeLogDirsRequest(topics=[]), 4
        topic = alter_replica_log_dirs.AlterReplicaLogDirTopic(name=self.topics[0], partitions=[0])
        directory = alter_replica_log_dirs.AlterReplicaLogDir(path="/nowhere", topics=[topic])
        yield alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=[directory]), 2
        update = update_features.FeatureUpdateKey(feature="no.such.feature", max_version_level=1)
        yield update_features.UpdateFeaturesRequest(feature_updates=[update], timeout_ms=10_000, validate_only=True), 1
        yield list_config_resources.ListConfigResourcesRequest(resource_types=[16]), 1
        yield unregister_broker.UnregisterBrokerRequest(broker_id=999), 0
        of_metadata = describe_quorum.TopicData(topic_name="__cluster_metadata", partitions=[describe_quorum.PartitionData()])
        yield describe_quorum.DescribeQuorumRequest(topics=[of_metadata]), 1

    def about_groups(self) -> Iterator[tuple[Request[Any], int]]:
        find = find_coordinator.FindCoordinatorRequest
        for kind in (0, 1):
            yield find(key_type=kind, coordinator_keys=self.groups), 4
        yield find(key_type=2, coordinator_keys=[f"{self.groups[0]}:AAAAAAAAAAAAAAAAAAAAAQ:0"]), 6
        for group in self.groups:
            commit = [
                offset_commit.OffsetCommitRequestTopic(
                    name=name, partitions=[offset_commit.OffsetCommitRequestPartition(committed_offset=1)]
                )
                for name in self.topics
            ]
            yield offset_commit.OffsetCommitRequest(group_id=group, topics=commit), 9
            member: dict[str, Any] = {"group_id": group, "member_id": "unknown"}
            yield join_group.JoinGroupRequest(
                group_id=group, session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="consumer",
                protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"")],
            ), 7  # fmt: skip
            yield heartbeat.HeartbeatRequest(**member), 4
            yield sync_group.SyncGroupRequest(**member, protocol_type="consumer", protocol_name="range"), 5
            yield leave_group.LeaveGroupRequest(group_id=group, members=[leave_group.MemberIdentity(member_id="unknown")]), 5
            named = [offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in self.topics]
            for topics in (named, None):
                yield offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=topics)]), 8
        yield describe_groups.DescribeGroupsRequest(groups=self.groups, include_authorized_operations=True), 5
        yield list_groups.ListGroupsRequest(), 4
        heartbeat_of = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest
        for name in self.topics:
            yield heartbeat_of(
                group_id=f"{self.groups[0]}-consumers", member_id=f"of {name}", member_epoch=0, rebalance_timeout_ms=1000,
                subscribed_topic_names=[name], topic_partitions=[],
            ), 1  # fmt: skip
        yield (
            consumer_group_describe.ConsumerGroupDescribeRequest(
                group_ids=[f"{self.groups[0]}-consumers", *self.groups], include_authorized_operations=True
            ),
            1,
        )

    def about_share_groups(self) -> Iterator[tuple[Request[Any], int]]:
        group = f"{self.groups[0]}-shares"
        for name in self.topics:
            yield (
                share_group_heartbeat.ShareGroupHeartbeatRequest(
                    group_id=group, member_id=f"of {name}", member_epoch=0, subscribed_topic_names=[name]
                ),
                1,
            )
        yield share_group_describe.ShareGroupDescribeRequest(group_ids=[group, *self.groups], include_authorized_operations=True), 1
        empty = f"{self.groups[0]}-empty"
        of_alter, of_describe, of_delete = alter_share_group_offsets, describe_share_group_offsets, delete_share_group_offsets
        yield (
            of_alter.AlterShareGroupOffsetsRequest(
                group_id=empty,
                topics=[
                    of_alter.AlterShareGroupOffsetsRequestTopic(
                        topic_name=name, partitions=[of_alter.AlterShareGroupOffsetsRequestPartition(start_offset=0)]
                    )
                    for name in self.topics
                ],
            ),
            0,
        )
        named = [of_describe.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0]) for name in self.topics]
        yield (
            of_describe.DescribeShareGroupOffsetsRequest(
                groups=[of_describe.DescribeShareGroupOffsetsRequestGroup(group_id=empty, topics=named)]
            ),
            0,
        )
        yield (
            of_delete.DeleteShareGroupOffsetsRequest(
                group_id=empty, topics=[of_delete.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in self.topics]
            ),
            0,
        )

    def shared(self, topic_id: UUID) -> Iterator[tuple[Request[Any], int]]:
        """Open a share session for a topic, acknowledge what was not handed out, and close the session."""
        who: dict[str, Any] = {"group_id": f"{self.groups[0]}-shares", "member_id": str(topic_id)}
        asked: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1000, "max_records": 1, "batch_size": 1}
        wanted = share_fetch.FetchTopic(topic_id=topic_id, partitions=[share_fetch.FetchPartition()])
        yield share_fetch.ShareFetchRequest(**who, **asked, share_session_epoch=0, topics=[wanted]), 1
        accepted = share_acknowledge.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
        of_partition = share_acknowledge.AcknowledgePartition(acknowledgement_batches=[accepted])
        said = share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=[of_partition])
        for epoch in (1, -1):
            yield share_acknowledge.ShareAcknowledgeRequest(**who, share_session_epoch=epoch, topics=[said]), 1

    def about_transactions(self) -> Iterator[tuple[Request[Any], int]]:
        yield init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4
        for one in self.ids:
            yield init_producer_id.InitProducerIdRequest(transactional_id=one, transaction_timeout_ms=10_000), 4
            # A producer id that the coordinator does not know for this transactional id.
            who: dict[str, Any] = {"transactional_id": one, "producer_id": 1 << 40, "producer_epoch": 0}
            yield (
                add_partitions_to_txn.AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=one,
                    v3_and_below_producer_id=1 << 40,
                    v3_and_below_topics=[add_partitions_to_txn.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in self.topics],
                ),
                3,
            )
            yield add_offsets_to_txn.AddOffsetsToTxnRequest(**who, group_id=self.groups[0]), 3
            commit = [
                txn_offset_commit.TxnOffsetCommitRequestTopic(
                    name=name, partitions=[txn_offset_commit.TxnOffsetCommitRequestPartition(committed_offset=1)]
                )
                for name in self.topics
            ]
            yield txn_offset_commit.TxnOffsetCommitRequest(**who, group_id=self.groups[0], topics=commit), 3
            yield end_txn.EndTxnRequest(**who, committed=True), 3
        yield describe_transactions.DescribeTransactionsRequest(transactional_ids=self.ids), 0
        yield list_transactions.ListTransactionsRequest(), 0
        of_markers = write_txn_markers
        marked = of_markers.WritableTxnMarkerTopic(name=f"{self.prefix}-missing", partition_indexes=[0])
        yield (
            of_markers.WriteTxnMarkersRequest(
                markers=[of_markers.WritableTxnMarker(producer_id=1 << 40, producer_epoch=0, coordinator_epoch=0, topics=[marked])]
            ),
            1,
        )

    def about_users(self) -> Iterator[tuple[Request[Any], int]]:
        entity = alter_client_quotas.EntityData(entity_type="user", entity_name=self.prefix)
        limit = alter_client_quotas.OpData(key="producer_byte_rate", value=1e6)
        entry = alter_client_quotas.EntryData(entity=[entity], ops=[limit])
        yield alter_client_quotas.AlterClientQuotasRequest(entries=[entry], validate_only=True), 1
        component = describe_client_quotas.ComponentData(entity_type="user", match_type=0, match=self.prefix)
        yield describe_client_quotas.DescribeClientQuotasRequest(components=[component]), 1
        user = describe_user_scram_credentials.UserName(name=self.prefix)
        yield describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=[user]), 0
        deletion = alter_user_scram_credentials.ScramCredentialDeletion(name=self.prefix, mechanism=1)
        yield alter_user_scram_credentials.AlterUserScramCredentialsRequest(deletions=[deletion]), 0

    def changes(self) -> Iterator[tuple[Request[Any], int]]:
        yield (
            create_topics.CreateTopicsRequest(
                topics=[
                    create_topics.CreatableTopic(name=f"{self.prefix}-{name}", num_partitions=1, replication_factor=1)
                    for name in ("a3", "c")
                ],
                timeout_ms=10_000,
            ),
            7,
        )
        created = [metadata.MetadataRequestTopic(name=f"{self.prefix}-{name}") for name in ("a4", "d")]
        yield metadata.MetadataRequest(topics=created, allow_auto_topic_creation=True), 12
        yield (
            delete_records.DeleteRecordsRequest(
                topics=[
                    delete_records.DeleteRecordsTopic(name=name, partitions=[delete_records.DeleteRecordsPartition(offset=0)])
                    for name in self.topics
                ],
                timeout_ms=10_000,
            ),
            2,
        )
        change = incremental_alter_configs.AlterableConfig(name="retention.ms", config_operation=0, value="5000000")
        for name in self.topics:
            resource = incremental_alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[change])
            yield incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource]), 1
        replaced = alter_configs.AlterableConfig(name="retention.ms", value="6000000")
        for kind, name in [*((TOPIC, name) for name in self.topics), (GROUP, self.groups[0])]:
            whole = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[replaced] if kind == TOPIC else [])
            yield alter_configs.AlterConfigsRequest(resources=[whole]), 2
        of_delete = offset_delete
        for group in self.groups:
            yield (
                of_delete.OffsetDeleteRequest(
                    group_id=group,
                    topics=[
                        of_delete.OffsetDeleteRequestTopic(name=name, partitions=[of_delete.OffsetDeleteRequestPartition()])
                        for name in self.topics
                    ],
                ),
                0,
            )
        yield delete_groups.DeleteGroupsRequest(groups_names=self.groups), 2
        yield delete_topics.DeleteTopicsRequest(topic_names=[*self.topics, f"{self.prefix}-missing"], timeout_ms=10_000), 5
        anything: dict[str, Any] = {"resource_type_filter": 7, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
        everybody: dict[str, Any] = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
        yield describe_acls.DescribeAclsRequest(**anything, **everybody), 3
        creation = create_acls.AclCreation(
            resource_type=7, resource_name="u", resource_pattern_type=3, principal="User:u", host="*", operation=13, permission_type=3
        )
        yield create_acls.CreateAclsRequest(creations=[creation]), 3
        yield delete_acls.DeleteAclsRequest(filters=[delete_acls.DeleteAclsFilter(**anything, **everybody)]), 3
