"""The completion of a transaction whose outcome is decided: markers in its partitions, and the offsets of its groups.

Kafka's coordinator sends WriteTxnMarkers to the partitions' leaders. Here the step that decides the outcome writes them, unless a test has
requested a fault of WriteTxnMarkers: then a delayed or held one is carried out later, and a failed one is repeated after RETRY_MS. If
the disk fails, the step is repeated as well. A partition without a leader gets its marker when it has a leader again. The transaction is
complete when all markers are committed, so that no new leader can lack one.
"""

from __future__ import annotations

from levada.base.clock import NEVER_MS
from levada.broker.cluster.cluster import Cluster
from levada.broker.coordinators.internal_topics import GROUP_METADATA_TOPIC
from levada.broker.coordinators.transactions.transaction import EndMarkers
from levada.broker.log.end_transaction_marker import EndTransactionMarker
from levada.broker.node.purgatory import Delayed
from levada.broker.node.state import BrokerState
from levada.broker.replication.partition import NO_LEADER, Partition
from levada.broker.replication.waiting import PendingAppend
from levada.error_codes import ErrorCode
from levada.errors import BrokerError
from levada.logs import Log
from levada.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from levada.types import TopicPartition

_log = Log("levada.broker")

RETRY_MS = 100


def write_end_markers(state: BrokerState, markers: EndMarkers, now_ms: int) -> None:
    """Write the markers of a transaction to all its partitions. When all are committed, the coordinator completes the transaction."""
    fault = state.faults.next_fault(WriteTxnMarkersRequest.NAME, state.node_id)
    if not fault.applied or fault.error_code or fault.drop or fault.disconnect:
        state.call_at(now_ms + RETRY_MS, lambda at_ms: write_end_markers(state, markers, at_ms))
    elif fault.hold is not None and not fault.hold.is_released:
        fault.hold.keep(state.node_id, lambda at_ms: _write(state, markers, at_ms))
    elif fault.delay_ms:
        state.call_at(now_ms + fault.delay_ms, lambda at_ms: _write(state, markers, at_ms))
    else:
        _write(state, markers, now_ms)


def _write(state: BrokerState, markers: EndMarkers, now_ms: int) -> None:
    _Markers(state, markers).write(now_ms)


class _Markers:
    """Writes the markers of one transaction, and waits until all are committed. A marker that a new leader lacks is written again."""

    def __init__(self, state: BrokerState, markers: EndMarkers) -> None:
        self._state = state
        self._markers = markers
        self._marker = EndTransactionMarker(*markers.producer, markers.committed, markers.coordinator_epoch, markers.strict)
        self._pending: dict[TopicPartition, PendingAppend | None] = {
            name: None for name in markers.partitions if name.topic != GROUP_METADATA_TOPIC
        }

    def write(self, now_ms: int) -> None:
        """Write the markers that are missing, or that a new leader has lost. When all are committed, report to the coordinator."""
        try:
            self._write(self._state.wall_ms(now_ms))
        except BrokerError as error:
            _log.warning("the end of transaction %r was not written: %s", self._markers.transactional_id, error)
            # For any other error another coordinator has taken over: as in Kafka, the transaction stays as it is.
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._state.call_at(now_ms + RETRY_MS, self.write)

    def _write(self, wall_ms: int) -> None:
        for name in [name for name in self._pending if self._can_write(name)]:
            self._pending[name] = written = _write_marker(self._state, name, self._marker, wall_ms)
            if written is None:
                del self._pending[name]
        if self._is_done():
            self._complete(wall_ms)
        else:
            self._state.purgatory.add(Delayed(self._can_continue, self.write, self._pending, self._state), NEVER_MS)

    def _can_write(self, name: TopicPartition) -> bool:
        written, partition = self._pending[name], _find(self._state.cluster, name)
        has_leader = partition is None or partition.leader != NO_LEADER
        return has_leader and (written is None or written.is_lost)

    def _is_done(self) -> bool:
        return all(written is not None and self._is_settled(written) for written in self._pending.values())

    def _is_settled(self, written: PendingAppend) -> bool:
        return written.is_committed or not self._state.cluster.has(written.partition)

    def _can_continue(self) -> bool:
        return self._is_done() or any(self._can_write(name) for name in self._pending)

    def _complete(self, wall_ms: int) -> None:
        for name in self._markers.partitions:
            if name.topic == GROUP_METADATA_TOPIC:
                end_offsets(self._state.cluster, name, self._marker)
        self._state.cluster.transactions.complete(self._markers, wall_ms)


def end_offsets(cluster: Cluster, place: TopicPartition, marker: EndTransactionMarker) -> None:
    """Commit or drop a producer's pending offsets, for all groups in one partition of __consumer_offsets. marker: the marker of the
    transaction. place: the partition.
    """
    offsets, place_of = cluster.group_offsets, cluster.group_coordinators.place_of
    groups = [group for group in offsets.open_groups(marker.producer_id) if place_of(group) == place]
    offsets.end_transaction(marker.producer_id, committed=marker.committed, groups=groups)
    cluster.internal_topics.end_transaction(place, marker)


def _write_marker(state: BrokerState, name: TopicPartition, marker: EndTransactionMarker, wall_ms: int) -> PendingAppend | None:
    partition = _find(state.cluster, name)
    if partition is None:
        return None  # The topic was deleted during the transaction: there is nothing to end.
    written = PendingAppend.of(partition, partition.append_marker(marker, wall_ms))
    state.cluster.replicate(partition)
    state.cluster.notify_watchers(partition)
    return written


def _find(cluster: Cluster, name: TopicPartition) -> Partition | None:
    topic = cluster.topic(name.topic)
    return topic.partitions[name.partition] if topic is not None and name.partition < len(topic.partitions) else None
