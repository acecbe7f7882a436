"""AdminClient: each call that returns futures runs on a thread of its own, over levada's KafkaAdmin, and settles them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from threading import Thread
from types import TracebackType
from typing import Any, Self, TypeVar

import levada
from levada import KafkaAdmin
from levada import errors as levada_errors
from levada.compat.confluent_kafka.admin import conversions, scram
from levada.compat.confluent_kafka.admin.acls import AclBinding, AclBindingFilter, from_rules, to_filter, to_rule
from levada.compat.confluent_kafka.admin.types import (
    ConfigResource,
    ConsumerGroupDescription,
    DeletedRecords,
    DescribeClusterResult,
    ListConsumerGroupsResult,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
from levada.compat.confluent_kafka.cluster import Cluster, ClusterMetadata
from levada.compat.confluent_kafka.configuration import admin_configuration
from levada.compat.confluent_kafka.error import KafkaException, to_kafka_error
from levada.compat.confluent_kafka.events import ClientEvents, Events, client_id_of
from levada.compat.confluent_kafka.message import TopicPartition, from_committed, place, places, to_commit
from levada.compat.confluent_kafka.model import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    IsolationLevel,
    TopicCollection,
)
from levada.compat.confluent_kafka.not_there import ADMIN, lacks

K = TypeVar("K")
T = TypeVar("T")
Outcomes = Mapping[Any, Any]


@lacks(ADMIN)
class AdminClient:
    """An admin client with confluent-kafka's calls. Most return a future, or a dict of futures; `future.result()` raises KafkaException.

    request_timeout of a call: seconds; negative for levada's default. A call that also asks for the brokers may take twice as long.
    operation_timeout: has no effect, because levada waits for the brokers' answers. include_authorized_operations: has no effect.
    """

    def __init__(self, config: Mapping[str, Any], /, **keywords: Any) -> None:
        settings, own = admin_configuration(config, keywords)
        self._events = Events()
        self._reports = ClientEvents(self._events, own, client_id_of(settings, "admin"), "producer")
        self._cluster = Cluster(settings)
        try:
            self._admin: KafkaAdmin = self._cluster.admin()
        except KafkaException:
            self._reports.close()
            raise
        self._reports.watch(self._admin, self)

    # Topics

    def create_topics(
        self, new_topics: list[NewTopic], *, validate_only: bool = False, request_timeout: float = -1, operation_timeout: float = -1
    ) -> dict[str, Future[None]]:
        """Create topics; return a future per topic."""
        wanted = [conversions.new_topic(topic) for topic in _listed(new_topics, NewTopic)]
        return self._futures(
            {topic.name: topic.name for topic in wanted},
            self._admin.create_topics,
            wanted,
            validate_only=validate_only,
            timeout=_limit(request_timeout),
        )

    def delete_topics(self, topics: list[str], *, request_timeout: float = -1, operation_timeout: float = -1) -> dict[str, Future[None]]:
        """Delete topics; return a future per topic."""
        names = _listed(topics, str)
        return self._futures({name: name for name in names}, self._admin.delete_topics, names, timeout=_limit(request_timeout))

    def create_partitions(
        self,
        new_partitions: list[NewPartitions],
        *,
        validate_only: bool = False,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[str, Future[None]]:
        """Add partitions to topics; return a future per topic."""
        wanted = {
            one.topic: levada.NewPartitions(one.new_total_count, one.replica_assignment) for one in _listed(new_partitions, NewPartitions)
        }
        return self._futures(
            {topic: topic for topic in wanted},
            self._admin.create_partitions,
            wanted,
            validate_only=validate_only,
            timeout=_limit(request_timeout),
        )

    def describe_topics(
        self, topics: TopicCollection, *, include_authorized_operations: bool = False, request_timeout: float = -1
    ) -> dict[str, Future[Any]]:
        """Describe topics; return a future per topic, whose result is a TopicDescription."""
        if not isinstance(topics, TopicCollection):
            raise TypeError("Expected input to be instance of TopicCollection")
        names, limit = topics.topic_names, _limit(request_timeout)

        def call(timeout: float | None) -> Outcomes:
            nodes = {node.id: node for node in self._admin.describe_cluster(timeout=timeout).nodes}
            found: Outcomes = self._admin.outcomes(self._admin.describe_topics, names, timeout=timeout)
            return {name: conversions.unless_error(one, lambda topic: conversions.topic(topic, nodes)) for name, one in found.items()}

        return self._in_thread({name: name for name in names}, lambda: call(limit))

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """Describe the brokers, and one topic or all. Waits for the answer. timeout: as in Cluster.list_topics()."""
        return self._cluster.list_topics(topic, timeout)

    def cluster_id(self, timeout: float = -1) -> str | None:
        """Return the id of the cluster. Waits for the answer."""
        return self._cluster.cluster_id(timeout)

    def describe_cluster(
        self, *, include_authorized_operations: bool = False, request_timeout: float = -1
    ) -> Future[DescribeClusterResult]:
        """Describe the cluster; return a future."""
        limit = _limit(request_timeout)
        return self._future(lambda: conversions.cluster(self._admin.describe_cluster(timeout=limit)))

    # Settings

    def describe_configs(self, resources: list[ConfigResource], *, request_timeout: float = -1) -> dict[ConfigResource, Future[Any]]:
        """Describe the settings of resources; return a future per resource, whose result is a dict of ConfigEntry by name."""
        keys = {conversions.resource(one): one for one in _listed(resources, ConfigResource)}
        return self._futures(
            keys,
            self._admin.describe_configs,
            list(keys),
            convert=lambda entries: {name: conversions.entry(one) for name, one in entries.items()},
            include_synonyms=True,
            timeout=_limit(request_timeout),
        )

    def incremental_alter_configs(
        self, resources: list[ConfigResource], *, validate_only: bool = False, request_timeout: float = -1
    ) -> dict[ConfigResource, Future[None]]:
        """Change single settings, by the incremental_configs of each resource; return a future per resource."""
        keys = {conversions.resource(one): one for one in _listed(resources, ConfigResource)}
        changes = {key: conversions.changes(one) for key, one in keys.items()}
        return self._futures(
            keys, self._admin.incremental_alter_configs, changes, validate_only=validate_only, timeout=_limit(request_timeout)
        )

    # Partitions

    def list_offsets(
        self,
        topic_partition_offsets: dict[TopicPartition, OffsetSpec],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        request_timeout: float = -1,
    ) -> dict[TopicPartition, Future[Any]]:
        """Look up offsets; return a future per partition, whose result is a ListOffsetsResultInfo."""
        keys = {place(partition): partition for partition in topic_partition_offsets}
        specs = {place(partition): conversions.offset_spec(spec) for partition, spec in topic_partition_offsets.items()}
        return self._futures(
            keys,
            self._admin.list_offsets,
            specs,
            convert=conversions.listed_offset,
            isolation_level=levada.IsolationLevel(isolation_level.value),
            timeout=_limit(request_timeout),
        )

    def delete_records(
        self, topic_partition_offsets: list[TopicPartition], *, request_timeout: float = -1, operation_timeout: float = -1
    ) -> dict[TopicPartition, Future[DeletedRecords]]:
        """Delete the records before the offset of each partition; return a future per partition."""
        keys = {place(partition): partition for partition in topic_partition_offsets}
        before = {place(partition): partition.offset for partition in topic_partition_offsets}
        return self._futures(keys, self._admin.delete_records, before, convert=DeletedRecords, timeout=_limit(request_timeout))

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: list[TopicPartition] | None = None,
        *,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> Future[Any]:
        """Elect leaders; return a future, whose result has a KafkaError or None for each partition. partitions: None for all that need an
        election.
        """
        wanted, limit = None if partitions is None else places(partitions), _limit(request_timeout)
        kind = election_type.name.capitalize()
        return self._future(lambda: conversions.elected(self._admin.outcomes(self._admin.elect_leaders, kind, wanted, timeout=limit)))

    # Groups

    def list_consumer_groups(
        self,
        *,
        states: Iterable[ConsumerGroupState] = (),
        types: Iterable[ConsumerGroupType] = (),
        request_timeout: float = -1,
    ) -> Future[ListConsumerGroupsResult]:
        """List the groups of consumers; return a future. states, types: empty for all."""
        limit = _limit(request_timeout)
        wanted_states = [conversions.WORD_OF_STATE[state] for state in states]
        wanted_types = [kind.name.capitalize() for kind in types]
        return self._future(
            lambda: conversions.listed_groups(
                self._admin.list_groups(states=wanted_states, types=wanted_types, protocol_types=["consumer", ""], timeout=limit)
            )
        )

    def describe_consumer_groups(
        self, group_ids: list[str], *, include_authorized_operations: bool = False, request_timeout: float = -1
    ) -> dict[str, Future[ConsumerGroupDescription]]:
        """Describe groups; return a future per group. A group that does not exist is DEAD."""
        if not isinstance(group_ids, list):
            raise TypeError("Expected input to be list of group ids to be described")
        if not group_ids:
            raise ValueError("Expected at least one group to be described")
        limit = _limit(request_timeout)

        def call() -> Outcomes:
            nodes = {node.id: node for node in self._admin.describe_cluster(timeout=limit).nodes}
            found: Outcomes = self._admin.outcomes(self._admin.describe_consumer_groups, group_ids, timeout=limit)
            return {group_id: conversions.group(group_id, one, nodes) for group_id, one in found.items()}

        return self._in_thread({group_id: group_id for group_id in group_ids}, call)

    def delete_consumer_groups(self, group_ids: list[str], *, request_timeout: float = -1) -> dict[str, Future[None]]:
        """Delete groups without members; return a future per group."""
        if not isinstance(group_ids, list):
            raise TypeError("Expected input to be list of group ids to be deleted")
        if not group_ids:
            raise ValueError("Expected at least one group to be deleted")
        return self._futures(
            {group_id: group_id for group_id in group_ids},
            self._admin.delete_consumer_groups,
            group_ids,
            timeout=_limit(request_timeout),
        )

    def list_consumer_group_offsets(
        self,
        list_consumer_group_offsets_request: list[ConsumerGroupTopicPartitions],
        *,
        require_stable: bool = False,
        request_timeout: float = -1,
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        """Return a future for the group of the request, which has exactly one. Its result has the group's committed offsets."""
        request = _one_group(list_consumer_group_offsets_request)
        group_id, wanted = request.group_id, request.topic_partitions
        limit = _limit(request_timeout)

        def call() -> Outcomes:
            partitions = None if wanted is None else places(wanted)
            found = self._admin.list_consumer_group_offsets(group_id, partitions, require_stable=require_stable, timeout=limit)
            return {group_id: ConsumerGroupTopicPartitions(group_id, from_committed(found))}

        return self._in_thread({group_id: group_id}, call)

    def alter_consumer_group_offsets(
        self, alter_consumer_group_offsets_request: list[ConsumerGroupTopicPartitions], *, request_timeout: float = -1
    ) -> dict[str, Future[ConsumerGroupTopicPartitions]]:
        """Commit offsets for a group without members; return a future for the group of the request, which has exactly one.

        The partitions of its result have an error or None. Raises ValueError if there are no partitions, or one has no offset.
        """
        request = _one_group(alter_consumer_group_offsets_request)
        group_id, wanted = request.group_id, request.topic_partitions
        if not wanted:
            raise ValueError("'topic_partitions' cannot be empty")
        if any(partition.offset < 0 for partition in wanted):
            raise ValueError("Element of 'topic_partitions' must not have negative value for 'offset' field")
        limit = _limit(request_timeout)

        def call() -> Outcomes:
            outcomes: Outcomes = self._admin.outcomes(self._admin.alter_consumer_group_offsets, group_id, to_commit(wanted), timeout=limit)
            return {group_id: ConsumerGroupTopicPartitions(group_id, conversions.altered(wanted, outcomes))}

        return self._in_thread({group_id: group_id}, call)

    # Users and their rights

    def create_acls(self, acls: list[AclBinding], *, request_timeout: float = -1) -> dict[AclBinding, Future[None]]:
        """Create rules; return a future per rule."""
        keys = {to_rule(one): one for one in _listed(acls, AclBinding)}
        return self._futures(keys, self._admin.create_acls, list(keys), timeout=_limit(request_timeout))

    def describe_acls(self, acl_binding_filter: AclBindingFilter, *, request_timeout: float = -1) -> Future[list[AclBinding]]:
        """Return a future, whose result is a list of the rules that a filter matches."""
        wanted, limit = to_filter(acl_binding_filter), _limit(request_timeout)
        return self._future(lambda: from_rules(self._admin.describe_acls(wanted, timeout=limit)))

    def delete_acls(
        self, acl_binding_filters: list[AclBindingFilter], *, request_timeout: float = -1
    ) -> dict[AclBindingFilter, Future[list[AclBinding]]]:
        """Delete the rules that filters match; return a future per filter, whose result is a list of the deleted rules."""
        keys = {to_filter(one): one for one in _listed(acl_binding_filters, AclBindingFilter)}
        return self._futures(keys, self._admin.delete_acls, list(keys), convert=from_rules, timeout=_limit(request_timeout))

    def describe_user_scram_credentials(self, users: list[str] | None = None, *, request_timeout: float = -1) -> Any:
        """Return a future per user, whose result is a UserScramCredentialsDescription. users: None for all users with credentials; then the
        one future that is returned has a dict by user.
        """
        limit = _limit(request_timeout)
        if users is None:
            call = self._admin.describe_user_scram_credentials
            return self._future(lambda: {user: scram.described(user, found) for user, found in call(timeout=limit).items()})

        def outcomes() -> Outcomes:
            found: Outcomes = self._admin.outcomes(self._admin.describe_user_scram_credentials, users, timeout=limit)
            return {user: conversions.unless_error(one, partial(scram.described, user)) for user, one in found.items()}

        return self._in_thread({user: user for user in users}, outcomes)

    def alter_user_scram_credentials(
        self, alterations: list[scram.UserScramCredentialAlteration], *, request_timeout: float = -1
    ) -> dict[str, Future[None]]:
        """Create, replace and delete credentials; return a future per user."""
        if not alterations:
            raise ValueError("Expected at least one alteration")
        changes = [scram.to_levada(change) for change in alterations]
        users = {change.user: change.user for change in changes}
        return self._futures(users, self._admin.alter_user_scram_credentials, changes, timeout=_limit(request_timeout))

    # Callbacks, and the end

    def poll(self, timeout: float = -1) -> int:
        """Run error_cb and stats_cb if they are due; return the number of calls. Futures need no poll().

        timeout: seconds to wait for an error if there is nothing; 0 or negative does not wait.
        """
        if not (served := self._events.serve() + self._reports.serve()) and timeout > 0:
            self._events.wait(timeout)
            served = self._events.serve()
        return served

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._cluster.close()
        self._reports.close()

    # Threads and futures

    def _future(self, call: Callable[[], T]) -> Future[T]:
        return self._in_thread({0: 0}, lambda: {0: call()})[0]

    def _futures(
        self, keys: Mapping[Any, K], call: Callable[..., Any], /, *args: Any, convert: Callable[[Any], Any] | None = None, **kwargs: Any
    ) -> dict[K, Future[Any]]:
        """Make a call about several keys. keys: levada's keys, each with the key of its future. convert: makes the result of a future;
        without it, the result is None.
        """

        def outcomes() -> Outcomes:
            found: Outcomes = self._admin.outcomes(call, *args, **kwargs)
            return {key: conversions.unless_error(one, convert or (lambda result: None)) for key, one in found.items()}

        return self._in_thread(keys, outcomes)

    def _in_thread(self, keys: Mapping[Any, K], call: Callable[[], Outcomes]) -> dict[K, Future[Any]]:
        """Run a call on a new thread, and return a future for each key. The outcomes of the call, by levada's keys, settle the futures."""
        futures: dict[K, Future[Any]] = {theirs: Future() for theirs in keys.values()}
        for future in futures.values():
            future.set_running_or_notify_cancel()

        def run() -> None:
            outcomes: Outcomes
            try:
                outcomes = call()
            except Exception as error:
                outcomes = dict.fromkeys(keys, error)
            for ours, theirs in keys.items():
                _settle(futures[theirs], outcomes.get(ours))

        Thread(target=run, name="confluent-kafka-admin", daemon=True).start()
        return futures


def _settle(future: Future[Any], outcome: Any) -> None:
    if isinstance(outcome, levada_errors.KafkaError):
        future.set_exception(KafkaException(to_kafka_error(outcome)))
    elif isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _limit(timeout: float) -> float | None:
    """Return a request_timeout in levada's form: None for the default."""
    return None if timeout is None or timeout < 0 else timeout


def _listed(items: list[T], kind: type[T]) -> list[T]:
    if not isinstance(items, list) or not items:
        raise ValueError(f"Expected non-empty list of {kind.__name__} objects")
    if not all(isinstance(item, kind) for item in items):
        raise ValueError(f"Expected list of {kind.__name__} objects")
    return items


def _one_group(request: list[ConsumerGroupTopicPartitions]) -> ConsumerGroupTopicPartitions:
    if not isinstance(request, list):
        raise TypeError("request must be a list")
    if len(request) != 1:
        raise ValueError("Currently we support offsets of a single consumer group only")
    if not isinstance(request[0], ConsumerGroupTopicPartitions):
        raise TypeError("Expected list of 'ConsumerGroupTopicPartitions'")
    return request[0]
