"""Kafka's internal topics: the coordinators' state, as records that any consumer can read (KIP-98, KIP-932).

The modules *_records.py have the formats of these records.

- A topic is created when a coordinator is first needed, or, as in Kafka, by CreateTopics or by a Metadata request that may create topics.
- Its partitions are led by the coordinators (Placement). All nodes share one log per partition, so replicas are never behind.
- Coordinators work with objects in memory. Without a data directory, they write nothing before a client first asks for a partition of
  these topics, to read, write or look up offsets. Then they write their present state, as compaction would have left it, and from then on
  each change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol
from uuid import UUID

from levada.broker.cluster.storage import ClusterStorage, StoredTopic
from levada.broker.config.settings import BrokerSettings
from levada.broker.config.topics import TopicConfig
from levada.broker.coordinators.groups.group_records import GroupRecords
from levada.broker.coordinators.groups.groups import StoredGroups
from levada.broker.coordinators.groups.offset_records import OffsetRecords
from levada.broker.coordinators.logs import CoordinatorLogs
from levada.broker.coordinators.placement import Placement
from levada.broker.coordinators.share.share_records import ShareRecords, shares_in
from levada.broker.coordinators.transactions.transaction_records import TransactionRecords, transactions_in
from levada.broker.coordinators.transactions.transactions import Transactions
from levada.broker.log.end_transaction_marker import EndTransactionMarker
from levada.broker.replication.partition import NO_LEADER, Appended, Partition
from levada.broker.replication.replica import ReplicaFiles
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.logs import Log
from levada.protocol.schema import ZERO_UUID
from levada.record.batch import RecordBatch
from levada.types import Node, TopicPartition

_log = Log("levada.broker")

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""Kafka's name for the controllers' log. It is not a topic, and no topic of this name can be created."""
ADMIN_CLIENT_ID = "__admin_client"
"""Kafka lets clients with this id write to internal topics. Coordinators read these records only when a broker starts."""

_EPOCHS = "internal_topic_epochs"
_MOST_REPLICAS = 3
_SEGMENT_BYTES = {"segment.bytes": "104857600"}
_PRODUCER = {"compression.type": "producer"}
# Kafka's transaction.state.log.min.isr and share.coordinator.state.topic.min.isr, or the number of replicas if that is lower.
_MIN_IN_SYNC = 2
_CONFIGS = {
    GROUP_METADATA_TOPIC: {**_PRODUCER, "cleanup.policy": "compact", **_SEGMENT_BYTES},
    TRANSACTION_STATE_TOPIC: {
        "compression.type": "uncompressed",
        "cleanup.policy": "compact",
        **_SEGMENT_BYTES,
        "unclean.leader.election.enable": "false",
    },
    SHARE_GROUP_STATE_TOPIC: {**_PRODUCER, "cleanup.policy": "delete", **_SEGMENT_BYTES, "retention.ms": "-1"},
}


def is_internal(name: str) -> bool:
    """Return whether a topic name is that of an internal topic. The topic may not exist yet."""
    return name in _CONFIGS


def check_may_exist(name: str) -> None:
    """Raise INVALID_REQUEST, with Kafka's message, if this is the name of the controllers' metadata log."""
    if name == CLUSTER_METADATA_TOPIC:
        raise BrokerError(f"Creation of internal topic {name} is prohibited.", code=ErrorCode.INVALID_REQUEST)


class Placements(NamedTuple):
    """The placements of groups, transactional ids and share partitions, each with an internal topic of its own."""

    groups: Placement
    transactions: Placement
    shares: Placement


def placements(
    settings: BrokerSettings, kept: Iterable[StoredTopic], nodes: Mapping[int, Node], create: Callable[[str], object]
) -> Placements:
    """Return the placements of a cluster's coordinators.

    kept: the stored topics; an internal topic among them keeps its number of partitions. create: creates an internal topic by name.
    """
    partitions = {
        GROUP_METADATA_TOPIC: settings.offsets_topic_num_partitions,
        TRANSACTION_STATE_TOPIC: settings.transaction_state_log_num_partitions,
        SHARE_GROUP_STATE_TOPIC: settings.share_coordinator_state_topic_num_partitions,
    }
    partitions.update((topic.name, len(topic.assignment)) for topic in kept if is_internal(topic.name))
    return Placements(*(Placement(name, count, nodes, partial(create, name)) for name, count in partitions.items()))


class InternalPartition(Partition):
    """A partition of an internal topic. All its replicas share one log, so none is ever behind.

    placement: decides which node leads. alive: returns the ids of the nodes that are up, in order.
    """

    def __init__(
        self,
        name: TopicPartition,
        config: TopicConfig,
        replicas: tuple[int, ...],
        placement: Placement,
        logs: CoordinatorLogs,
        alive: Callable[[], list[int]],
    ) -> None:
        super().__init__(name, config, replicas)
        self.is_internal = True
        self._placement = placement
        self._logs = logs
        self._alive = alive
        self._leading = logs.replica(name)
        self._put_on(replicas)
        self.leader_epoch = -1
        self.follow()

    def _put_on(self, replicas: Iterable[int]) -> None:
        self.replicas = dict.fromkeys(replicas, self._leading)
        self.isr = tuple(node_id for node_id in self.replicas if node_id in self._alive()) or tuple(self.replicas)

    def follow(self) -> bool:
        """Make the node that coordinates this partition its leader; if that node is down, the partition has no leader. Returns whether the
        leader or the epoch has changed.

        If the new leader has no replica, it gets that of the preferred leader.
        """
        leader, epoch = self._placement.leader_and_epoch(self.name.partition)
        if leader not in self._alive():
            leader = NO_LEADER
        if (leader, epoch) == (self.leader, self.leader_epoch):
            return False
        if leader not in self.replicas and leader != NO_LEADER:
            self._put_on([leader, *list(self.replicas)[1:]])
        self.leader = leader
        if epoch != self.leader_epoch:
            self.leader_epoch = epoch
            self._leading.lead(epoch)
        return True

    def keep_in(self, files: Callable[[int], ReplicaFiles]) -> None:
        """Do nothing: CoordinatorLogs stores the log."""

    def resume(self) -> None:
        """Make the coordinator the leader after a restart, if it is up. Any replica can lead, because all share the stored log."""
        self.follow()

    def _write(self, batch: RecordBatch, now_ms: int) -> Appended:
        self._logs.open(self.name)
        return super()._write(batch, now_ms)

    def replicate(self, nodes: Collection[int], now_ms: int) -> None:
        """Add those of the nodes that have replicas to the ISR, and commit all records: all replicas share one log."""
        self.isr = tuple(node_id for node_id in self.replicas if node_id in self.isr or node_id in nodes)
        self._commit()

    def _commit(self) -> None:
        self.log.advance_high_watermark(self.log.end_offset)

    def drop_lagging(self, since_ms: int) -> bool:
        """Return False: no replica lags, because all replicas share one log."""
        return False

    def elect(self, node_id: int, now_ms: int, *, lose_from: int | None = None) -> None:
        """Make a node the leader and the coordinator. No record is lost, because all replicas share one log.

        now_ms and lose_from are not used.
        """
        self._placement.move_partition(self.name.partition, node_id)

    def elect_any(self, alive: Collection[int], now_ms: int) -> None:
        """Make the coordinator the leader if it is up; otherwise the partition has no leader."""
        self.follow()

    def leave(self, node_id: int, alive: Collection[int], now_ms: int) -> None:
        """Remove a node that has stopped from the ISR, unless it is the last one in it, and make the present coordinator the leader. If the
        coordinator is down, there is no leader.

        alive and now_ms are not used.
        """
        self.isr = tuple(known for known in self.isr if known != node_id) or self.isr
        self.follow()

    def reassign(self, target: tuple[int, ...]) -> None:
        """Move the replicas to other nodes at once. If the leader is not among them, the first target node that is up becomes leader; if
        none is up, there is no leader.
        """
        self._put_on(target)
        if self.leader not in target:
            self.elect(next((node_id for node_id in target if node_id in self._alive()), target[0]), 0)

    def retain(self, now_ms: int) -> None:
        """Do nothing: internal topics are compacted, without retention."""


class _Topic(Protocol):
    """The attributes of a topic that InternalTopics uses."""

    @property
    def id(self) -> UUID:
        """The topic id."""
        ...

    @property
    def partitions(self) -> Sequence[Partition]:
        """The partitions of the topic, in order."""
        ...


class InternalTopics:
    """The partitions of a cluster's internal topics, and the coordinators' records in them.

    storage: stores the coordinators' logs. If it stores none, the logs are in memory, and the coordinators write no records before a client
    first asks for a partition of an internal topic. alive: returns the ids of the nodes that are up, in order. topics: the topics of the
    cluster by name. changed: called with a partition when its leader changes and, after a client has asked for a partition, when it gets
    records.
    """

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        placements: Placements,
        stored_groups: StoredGroups,
        stored_transactions: Transactions,
        storage: ClusterStorage,
        alive: Callable[[], list[int]],
        topics: Mapping[str, _Topic],
        changed: Callable[[Partition], None],
    ) -> None:
        groups, transactions, shares = placements
        self._placements = {placement.topic: placement for placement in placements}
        self._groups = stored_groups
        self._transactions = stored_transactions
        self._storage = storage
        self._logs = storage.coordinators or CoordinatorLogs(settings)
        self._alive = alive
        self._topics = topics
        self._changed = changed
        self._is_written = False
        self._is_observed = False
        self._kept_shares = ShareRecords(self._logs, shares.place_of)
        self._kept_transactions = TransactionRecords(self._logs, transactions.place_of, min(settings.transaction_version, 1))
        self._kept_offsets = OffsetRecords(self._logs, groups.place_of, self._id_of)
        self._kept_groups = GroupRecords(self._logs, groups.place_of)
        if storage.coordinators is not None:
            self._restore()
        stored_groups.share_states.watch(shares.need)
        for placement in placements:
            placement.watch(partial(self._follow, placement.topic))
            placement.watch(self._keep_epochs)

    def placement(self, name: str) -> Placement:
        """Return the placement of the coordinators that use an internal topic."""
        return self._placements[name]

    def partition(self, name: TopicPartition, config: TopicConfig, replicas: tuple[int, ...]) -> InternalPartition:
        """Create a partition of an internal topic."""
        return InternalPartition(name, config, replicas, self._placements[name.topic], self._logs, self._alive)

    def config(self, name: str, replicas: int) -> dict[str, str | None]:
        """Return the settings with which an internal topic is created. replicas: its replication factor."""
        in_sync = {} if name == GROUP_METADATA_TOPIC else {"min.insync.replicas": str(min(_MIN_IN_SYNC, replicas))}
        return {**_CONFIGS[name], **in_sync}

    def assignment(self, name: str, nodes: Iterable[int]) -> list[tuple[int, ...]]:
        """Return the nodes for the replicas of each partition of a new internal topic: at most three, the node that coordinates first."""
        placement, known = self._placements[name], sorted(nodes)
        leaders = (placement.leader_and_epoch(index)[0] for index in range(placement.partitions))
        return [tuple(dict.fromkeys([leader, *known]))[:_MOST_REPLICAS] for leader in leaders]

    def written(self) -> set[str]:
        """Return the names of the internal topics that have records."""
        return {place.topic for place in self._logs.places()}

    def observe(self, now_ms: int) -> None:
        """Prepare for a client that uses internal topics. In the first call, the coordinators write their present state as records, unless
        storage already has it; they write later changes when they happen. now_ms: milliseconds since the epoch.
        """
        if self._is_observed:
            return
        self._is_observed = True
        self._logs.watch(self._tell)
        if self._is_written:
            return
        self._is_written = True
        self._groups.share_states.keep_all(self._kept_shares, now_ms)
        self._transactions.keep_all(self._kept_transactions)
        self._groups.offsets.keep_all(self._kept_offsets)
        self._groups.keep_all(self._kept_groups, now_ms)

    def end_transaction(self, place: TopicPartition, marker: EndTransactionMarker) -> None:
        """Write the marker of a transaction in a partition of an internal topic, if the client itself has written to it in the
        transaction.
        """
        if self._logs.replica(place).transactions.first_offset_of(marker.producer_id) is not None:
            self._logs.end_transaction(place, marker.producer_id, marker.epoch, committed=marker.committed)

    def delete(self, name: str) -> None:
        """Delete all records of an internal topic, and with them the state of its coordinators. As in Kafka, members and producers have to
        begin anew.
        """
        if name == GROUP_METADATA_TOPIC:
            self._groups.clear()
        elif name == TRANSACTION_STATE_TOPIC:
            self._transactions.clear()
        else:
            self._groups.share_states.clear()
        self._logs.delete(name)

    def _follow(self, name: str) -> None:
        topic = self._topics.get(name)
        for partition in () if topic is None else topic.partitions:
            if isinstance(partition, InternalPartition) and partition.follow():
                self._changed(partition)

    def _tell(self, place: TopicPartition) -> None:
        topic = self._topics.get(place.topic)
        if topic is not None:
            self._changed(topic.partitions[place.partition])

    def _id_of(self, name: str) -> UUID:
        topic = self._topics.get(name)
        return ZERO_UUID if topic is None else topic.id

    def _keep_epochs(self) -> None:
        epochs = {name: {str(index): epoch for index, epoch in one.epochs.items()} for name, one in self._placements.items() if one.epochs}
        try:
            self._storage.keep_section(_EPOCHS, epochs)
        except BrokerError as fault:
            # The leader has changed even if the disk fails. It is stored with the next change.
            _log.error("the leader epochs of internal topics cannot be stored, and may go back at the next start: %s", fault)

    def _restore_epochs(self) -> None:
        """Continue after the newest epoch that each partition had before a restart. An epoch in which nothing was written is only in the
        stored section.
        """
        newest = {
            TopicPartition(name, int(index)): epoch
            for name, epochs in (self._storage.section(_EPOCHS) or {}).items()
            for index, epoch in epochs.items()
        }
        for place in self._logs.places():
            newest[place] = max(newest.get(place, 0), self._logs.replica(place).epochs.current)
        for place, epoch in newest.items():
            if place.topic in self._placements:
                self._placements[place.topic].continue_from(place.partition, epoch)

    def _restore(self) -> None:
        self._is_written = True
        written = list(self._logs.read())
        self._restore_epochs()
        offsets, shares, groups = self._groups.offsets, self._groups.share_states, self._groups
        for one in written:
            if one.place.topic == GROUP_METADATA_TOPIC:
                offsets.restore(one, self._placements[GROUP_METADATA_TOPIC].place_of)
            if one.place.topic == SHARE_GROUP_STATE_TOPIC:
                for key, partition, is_kept in shares_in(one):
                    shares.restore(key, partition, is_kept=is_kept)
        shares.keep_in(self._kept_shares)
        self._transactions.restore(transactions_in(one for one in written if one.place.topic == TRANSACTION_STATE_TOPIC))
        offsets.keep_in(self._kept_offsets)
        groups.kept = self._kept_groups
        groups.classic, groups.consumer = groups.kept.restore(one for one in written if one.place.topic == GROUP_METADATA_TOPIC)
        self._transactions.keep_in(self._kept_transactions)
