"""The APIs that this broker serves, one module each, with the handler of its requests and its error response."""

from __future__ import annotations

from collections.abc import Mapping

from levada.broker.apis.cluster import (
    add_raft_voter,
    alter_replica_log_dirs,
    api_versions,
    describe_cluster,
    describe_log_dirs,
    describe_quorum,
    get_telemetry_subscriptions,
    push_telemetry,
    remove_raft_voter,
    unregister_broker,
    unregister_controller,
    update_features,
)
from levada.broker.apis.configs import (
    alter_client_quotas,
    alter_configs,
    describe_client_quotas,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from levada.broker.apis.data import delete_records, fetch, list_offsets, offset_for_leader_epoch, produce
from levada.broker.apis.groups import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from levada.broker.apis.security import (
    alter_user_scram_credentials,
    create_acls,
    create_delegation_token,
    delete_acls,
    describe_acls,
    describe_delegation_token,
    describe_user_scram_credentials,
    expire_delegation_token,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
)
from levada.broker.apis.share import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    describe_share_group_offsets,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
)
from levada.broker.apis.topics import (
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    describe_topic_partitions,
    elect_leaders,
    list_partition_reassignments,
    metadata,
)
from levada.broker.apis.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from levada.broker.node.state import Api

SERVED: Mapping[int, Api] = {
    api.request.API_KEY: api
    for api in (
        produce.API,
        fetch.API,
        list_offsets.API,
        metadata.API,
        offset_commit.API,
        offset_fetch.API,
        find_coordinator.API,
        api_versions.API,
        create_topics.API,
        delete_topics.API,
        delete_records.API,
        describe_configs.API,
        incremental_alter_configs.API,
        init_producer_id.API,
        offset_for_leader_epoch.API,
        add_partitions_to_txn.API,
        add_offsets_to_txn.API,
        end_txn.API,
        write_txn_markers.API,
        describe_producers.API,
        describe_transactions.API,
        list_transactions.API,
        txn_offset_commit.API,
        offset_delete.API,
        get_telemetry_subscriptions.API,
        push_telemetry.API,
        join_group.API,
        heartbeat.API,
        leave_group.API,
        sync_group.API,
        describe_groups.API,
        list_groups.API,
        delete_groups.API,
        consumer_group_heartbeat.API,
        consumer_group_describe.API,
        sasl_handshake.API,
        sasl_authenticate.API,
        create_delegation_token.API,
        renew_delegation_token.API,
        expire_delegation_token.API,
        describe_delegation_token.API,
        describe_client_quotas.API,
        alter_client_quotas.API,
        describe_user_scram_credentials.API,
        alter_user_scram_credentials.API,
        share_group_heartbeat.API,
        share_fetch.API,
        share_acknowledge.API,
        share_group_describe.API,
        describe_share_group_offsets.API,
        alter_share_group_offsets.API,
        delete_share_group_offsets.API,
        describe_acls.API,
        create_acls.API,
        delete_acls.API,
        add_raft_voter.API,
        alter_configs.API,
        alter_partition_reassignments.API,
        alter_replica_log_dirs.API,
        create_partitions.API,
        describe_cluster.API,
        describe_log_dirs.API,
        describe_quorum.API,
        describe_topic_partitions.API,
        elect_leaders.API,
        list_config_resources.API,
        list_partition_reassignments.API,
        remove_raft_voter.API,
        unregister_broker.API,
        unregister_controller.API,
        update_features.API,
    )
}

NAMES: frozenset[str] = frozenset(api.request.NAME for api in SERVED.values())

FAIL_BY_PARTITION = frozenset(
    api.request.NAME
    for api in (
        produce.API,
        fetch.API,
        list_offsets.API,
        offset_commit.API,
        offset_fetch.API,
        offset_for_leader_epoch.API,
        add_partitions_to_txn.API,
        write_txn_markers.API,
        txn_offset_commit.API,
        describe_producers.API,
        delete_records.API,
        share_fetch.API,
        share_acknowledge.API,
    )
)
"""The APIs of which a test can let a single partition fail."""

TELEMETRY = frozenset(api.request.NAME for api in (get_telemetry_subscriptions.API, push_telemetry.API))
"""The APIs that are only offered if the broker accepts client metrics."""

NEWEST_BEFORE_KIP_890: Mapping[str, int] = {"Produce": 11, "EndTxn": 4, "WriteTxnMarkers": 1, "TxnOffsetCommit": 4, "ListTransactions": 1}
"""The newest versions with a transaction.version below 2, for APIs that otherwise have newer ones."""
