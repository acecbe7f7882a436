"""KafkaAdmin of the blocking API. Its operations are in levada.api.admin (ADR 54)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from levada.api.admin import acls, cluster, configs, group_offsets, groups, partitions, quotas, topics, transactions, users
from levada.api.admin.core import AdminCore, outcomes_of
from levada.api.client import Operation
from levada.api.engine_setup import Connector
from levada.base.unsupported_names import ADMIN, lacks
from levada.client.requests.group_offsets import Committed
from levada.config import AdminConfig
from levada.errors import KafkaError
from levada.sync.client import KafkaClient
from levada.sync.connect import connect
from levada.sync.driver import Driver
from levada.types import PartitionInfo, TopicPartition

if TYPE_CHECKING:
    from typing import Unpack

    from levada.config.typed import AdminSettings

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


def _call(operation: Callable[Concatenate[AdminCore, P], Operation[T]]) -> Callable[Concatenate[KafkaAdmin, P], T]:
    """Return a method that runs an operation and waits for its result. The method has the arguments and the docstring of the operation."""

    @wraps(operation)
    def method(self: KafkaAdmin, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(operation(self._core, *args, **kwargs))

    return method


@lacks(ADMIN)
class KafkaAdmin(KafkaClient):
    """Manages topics, partitions, settings, brokers, transactions, groups and their offsets, and sends any other request().

    Settings are Kafka's, dotted in a mapping or with underscores as keywords; see docs/CONFIGURATION.md. Timeouts are in seconds, by
    default default.api.timeout.ms. Any thread may use it. docs/ADMIN.md lists the calls and the brokers that they need.

    Every call raises BootstrapError when no broker can be reached, TimeoutError when its time is over, UnsupportedVersionError when the
    brokers are too old, and the error of a broker that refuses. A call about several topics, partitions or ids tries all of them, and then
    raises the first error. Its notes and its `outcomes` say what happened to each; its `results` has the values of those that succeeded.
    outcomes() returns all of that instead of raising.
    """

    _core: AdminCore

    @AdminConfig.in_help
    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        _connect: Connector[Driver] = connect,
        **settings: Unpack[AdminSettings],
    ) -> None:
        parsed = AdminConfig.parse(config, **settings)
        self._start(parsed, "admin", _connect)
        self._core = AdminCore(parsed, self._engine)

    def outcomes(self, call: Callable[P, dict[K, V]], /, *args: P.args, **kwargs: P.kwargs) -> dict[K, V | KafkaError]:
        """Make a call about several keys, such as topics, and return the outcome of each: its value, or its error.

        Example: `admin.outcomes(admin.describe_topics, ["orders", "payments"])`. When the time of the call is over, the outcome of a key
        without an answer is a TimeoutError. Raises only errors about the whole call, such as BootstrapError.
        """
        try:
            return {**call(*args, **kwargs)}
        except KafkaError as error:
            return outcomes_of(error)

    # Topics

    create_topics = _call(topics.create_topics)
    create_partitions = _call(topics.create_partitions)
    delete_topics = _call(topics.delete_topics)
    delete_topics_by_id = _call(topics.delete_topics_by_id)
    describe_topics = _call(topics.describe_topics)
    describe_topics_by_id = _call(topics.describe_topics_by_id)
    list_topics = _call(topics.list_topics)

    # Partitions and replicas

    list_offsets = _call(partitions.list_offsets)
    delete_records = _call(partitions.delete_records)
    elect_leaders = _call(partitions.elect_leaders)
    alter_partition_reassignments = _call(partitions.alter_partition_reassignments)
    list_partition_reassignments = _call(partitions.list_partition_reassignments)
    describe_log_dirs = _call(partitions.describe_log_dirs)
    describe_replica_log_dirs = _call(partitions.describe_replica_log_dirs)
    alter_replica_log_dirs = _call(partitions.alter_replica_log_dirs)

    # Settings

    describe_configs = _call(configs.describe_configs)
    incremental_alter_configs = _call(configs.incremental_alter_configs)
    list_config_resources = _call(configs.list_config_resources)

    # The cluster

    describe_cluster = _call(cluster.describe_cluster)
    describe_features = _call(cluster.describe_features)
    update_features = _call(cluster.update_features)
    describe_metadata_quorum = _call(cluster.describe_metadata_quorum)
    add_raft_voter = _call(cluster.add_raft_voter)
    remove_raft_voter = _call(cluster.remove_raft_voter)
    unregister_broker = _call(cluster.unregister_broker)
    unregister_controller = _call(cluster.unregister_controller)

    # Users and what they may use

    describe_user_scram_credentials = _call(users.describe_user_scram_credentials)
    alter_user_scram_credentials = _call(users.alter_user_scram_credentials)
    create_delegation_token = _call(users.create_delegation_token)
    renew_delegation_token = _call(users.renew_delegation_token)
    expire_delegation_token = _call(users.expire_delegation_token)
    describe_delegation_token = _call(users.describe_delegation_token)
    describe_client_quotas = _call(quotas.describe_client_quotas)
    alter_client_quotas = _call(quotas.alter_client_quotas)

    # Who may do what

    describe_acls = _call(acls.describe_acls)
    create_acls = _call(acls.create_acls)
    delete_acls = _call(acls.delete_acls)

    # Transactions

    describe_transactions = _call(transactions.describe_transactions)
    list_transactions = _call(transactions.list_transactions)
    describe_producers = _call(transactions.describe_producers)
    fence_producers = _call(transactions.fence_producers)
    abort_transaction = _call(transactions.abort_transaction)
    commit_detached = _call(transactions.commit_detached)
    abort_detached = _call(transactions.abort_detached)
    end_transactions = _call(transactions.end_transactions)

    # Groups

    list_groups = _call(groups.list_groups)
    describe_consumer_groups = _call(groups.describe_consumer_groups)
    describe_classic_groups = _call(groups.describe_classic_groups)
    describe_share_groups = _call(groups.describe_share_groups)
    describe_streams_groups = _call(groups.describe_streams_groups)
    delete_consumer_groups = _call(groups.delete_consumer_groups)
    remove_members_from_consumer_group = _call(groups.remove_members_from_consumer_group)

    # Offsets of groups

    alter_consumer_group_offsets = _call(group_offsets.alter_consumer_group_offsets)
    delete_consumer_group_offsets = _call(group_offsets.delete_consumer_group_offsets)
    list_share_group_offsets = _call(group_offsets.list_share_group_offsets)
    alter_share_group_offsets = _call(group_offsets.alter_share_group_offsets)
    delete_share_group_offsets = _call(group_offsets.delete_share_group_offsets)

    @overload
    def list_consumer_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition | PartitionInfo] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> Committed: ...
    @overload
    def list_consumer_group_offsets(
        self,
        group_id: Mapping[str, Iterable[TopicPartition | PartitionInfo] | None],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[str, Committed]: ...
    def list_consumer_group_offsets(
        self,
        group_id: str | Mapping[str, Iterable[TopicPartition | PartitionInfo] | None],
        partitions: Iterable[TopicPartition | PartitionInfo] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> Committed | dict[str, Committed]:
        """Return the committed offset of each partition of a group; None for a partition without one.

        group_id: the group; or a mapping from several group ids to their partitions or None. Then the result is by group id. partitions:
        None for all partitions with a committed offset.

        require_stable: whether to wait for open transactions that may change the offsets. Raises TimeoutError if a transaction stays open,
        and UnsupportedVersionError if the group's coordinator is older than Kafka 2.5. With require_stable, name the partitions: for None,
        a coordinator leaves out partitions whose first offset is part of an open transaction.

        A group that does not exist has no committed offsets.
        """
        if isinstance(group_id, Mapping):
            return self._run(group_offsets.list_offsets_of_groups(self._core, group_id, require_stable=require_stable, timeout=timeout))
        wanted = group_offsets.list_offsets_of_group(self._core, group_id, partitions, require_stable=require_stable, timeout=timeout)
        return self._run(wanted)
