"""A partition: its replicas, its ISR and its leader, and what may be appended (KIP-101, KIP-392, KIP-455).

A record is committed when all in-sync replicas have it. The high watermark is the offset after the last committed record: consumers read
up to it, and producers with acks=all get their response when their records are below it. So any in-sync replica that becomes leader has
all records that were acknowledged with acks=all. Only an unclean election, of a replica that is not in sync, or an
election with `lose_from`, by which a test loses records, loses some. Three rules ensure this:

- The leader counts what a follower has copied since the leader's election. What the follower had before may come from a leader that lost
  it.
- A replica joins the ISR when it has everything up to the leader's end. It leaves the ISR when it has not caught up for
  replica.lag.time.max.ms, or when its node stops.
- The high watermark does not move while the ISR is smaller than min.insync.replicas, unless all replicas are in it.

In Kafka followers fetch continuously, and a new leader learns the high watermark from these fetches. Here replicate() is one step after
each append, which may leave out followers, and a new leader from the ISR knows the high watermark at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from levada.broker.cluster.replica_assignment import Reassignment
from levada.broker.config.checks import MAX_INT64
from levada.broker.config.topics import TopicConfig
from levada.broker.log.end_transaction_marker import EndTransactionMarker
from levada.broker.log.leader_epochs import LeaderEpochs
from levada.broker.log.log import PartitionLog
from levada.broker.log.partition_transactions import PartitionTransactions
from levada.broker.log.producer_state import ProducerStates
from levada.broker.log.storage import NO_FILES
from levada.broker.log.validation import compressed_for, stamped_by_its_producer, validated
from levada.broker.replication.replica import Replica, ReplicaFiles
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, OffsetOutOfRangeError, OutOfOrderSequenceError
from levada.protocol.schema import RecordBytes
from levada.record.batch import RecordBatch
from levada.types import NO_TIMESTAMP, TimestampType, TopicPartition

NO_LEADER = -1


class Appended(NamedTuple):
    """The offsets of a batch that was appended; for a duplicate, the offsets of the original batch. log_append_time_ms: -1 if the records
    kept the producer's timestamps; for a duplicate, as in Kafka, always the largest timestamp of the original batch.
    """

    base_offset: int
    end_offset: int
    log_append_time_ms: int = NO_TIMESTAMP


class Partition:
    """A partition with its replicas.

    replicas: the replicas by node id, the preferred leader first. isr: the ids of the in-sync nodes. leader: the id of the leader, -1 while
    no node can lead. reassignment: the reassignment in progress, None if there is none.
    """

    def __init__(self, name: TopicPartition, config: TopicConfig, replicas: tuple[int, ...]) -> None:
        self.name = name
        self._config = config
        self._configs: Mapping[int, TopicConfig] = {}
        self.replicas = {node_id: Replica(config) for node_id in replicas}
        self.isr = replicas
        self.leader = replicas[0]
        self.is_internal = False
        self.leader_epoch = 0
        self.reassignment: Reassignment | None = None
        self._files: Callable[[int], ReplicaFiles] = lambda node_id: NO_FILES
        self._leading = self.replicas[self.leader]
        self._leading.lead(self.leader_epoch)

    def keep_in(self, files: Callable[[int], ReplicaFiles]) -> None:
        """Load the replicas from files, and store them there from now on. files: returns the files of a node's replica. The partition must
        not have records yet.
        """
        self._files = files
        for node_id, replica in self.replicas.items():
            replica.keep_in(files(node_id))

    def resume(self) -> None:
        """Elect a leader after the replicas were loaded from files. The replica with the newest log becomes leader, because it has every
        committed record.
        """
        logs = {node_id: (replica.epochs.current, replica.log.end_offset) for node_id, replica in self.replicas.items()}
        newest = max(logs.values())
        self.isr = tuple(node_id for node_id, log in logs.items() if log == newest)
        self.leader, self.leader_epoch = self.isr[0], newest[0]
        self._leading = self.replicas[self.leader]
        self._begin_epoch()

    @property
    def config(self) -> TopicConfig:
        """The topic's settings at the leader's node."""
        return self._configs.get(self.leader, self._config)

    # The leader's replica. Without a leader, that of the last leader.

    @property
    def log(self) -> PartitionLog:
        """The leader's log."""
        return self._leading.log

    @property
    def epochs(self) -> LeaderEpochs:
        """The leader epochs in the leader's log."""
        return self._leading.epochs

    @property
    def producers(self) -> ProducerStates:
        """The leader's producer state."""
        return self._leading.producers

    @property
    def transactions(self) -> PartitionTransactions:
        """The transactions in the leader's log."""
        return self._leading.transactions

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset. Consumers with read_committed can read the records before it."""
        return self._leading.last_stable_offset

    def readable_end(self, isolation_level: int) -> int:
        """Return the offset up to which a consumer with this isolation level can read."""
        return self._leading.readable_end(isolation_level)

    def holds(self, end_offset: int, epoch: int) -> bool:
        """Return whether the leader's log still has the records before `end_offset`. epoch: the leader epoch in which the last of them was
        appended.
        """
        return end_offset <= self.log.end_offset and self.epochs.at(end_offset - 1) == epoch

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether a producer has already written to the partition in its open transaction. If so, the coordinator need not verify
        the transaction again.
        """
        return self.transactions.first_offset_of(producer_id) is not None and self.producers.epoch_of(producer_id) == epoch

    # Appending

    def append(self, data: RecordBytes, now_ms: int, *, allow_zstd: bool = True) -> Appended:
        """Check the records that were produced, and append them as one batch. A duplicate is not appended; its result has the offsets of
        the original.

        now_ms: milliseconds since the epoch. allow_zstd: whether the request's version allows zstd. Raises BrokerError with Kafka's error
        code.
        """
        batch = validated(data, self.name, self.config, now_ms, allow_zstd=allow_zstd)
        duplicate = self.producers.check(batch)
        if duplicate is not None:
            return Appended(duplicate.base_offset, duplicate.last_offset + 1, duplicate.timestamp)
        self._check_transaction(batch)
        if not self.config.uses_append_time and batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
            batch = stamped_by_its_producer(batch)
        return self._write(compressed_for(batch, self.name, self.config), now_ms)

    def append_marker(self, marker: EndTransactionMarker, now_ms: int) -> Appended:
        """Append the marker that ends a transaction. now_ms: milliseconds since the epoch. Raises INVALID_PRODUCER_EPOCH,
        TRANSACTION_COORDINATOR_FENCED or, if the disk fails, KAFKA_STORAGE_ERROR (BrokerError).
        """
        self.producers.check_marker(marker.producer_id, marker.epoch, marker.coordinator_epoch, strict=marker.strict)
        return self._write(marker.encode(now_ms), now_ms)

    def _write(self, batch: RecordBatch, now_ms: int) -> Appended:
        append_time = now_ms if self.config.uses_append_time else None
        base_offset = self._leading.append(batch, log_append_time_ms=append_time)
        return Appended(base_offset, self.log.end_offset, NO_TIMESTAMP if append_time is None else append_time)

    def _check_transaction(self, batch: RecordBatch) -> None:
        is_open = self.transactions.first_offset_of(batch.producer_id) is not None
        may_begin = self.transactions.may_begin_with(batch.producer_id, batch.base_sequence)
        if batch.is_transactional and not is_open and not may_begin:
            raise OutOfOrderSequenceError(f"{self.name}: a transaction does not begin with sequence {batch.base_sequence}")
        if not batch.is_transactional and is_open:
            raise BrokerError(
                f"{self.name}: producer {batch.producer_id} wrote a plain batch into its open transaction", code=ErrorCode.INVALID_TXN_STATE
            )

    def check_leader_epoch(self, epoch: int) -> None:
        """Raise FENCED_LEADER_EPOCH if the leader epoch in a request is older than the current one, UNKNOWN_LEADER_EPOCH if it is newer
        (KIP-320). epoch: -1 if the request has none, which is no error.
        """
        if epoch == -1 or epoch == self.leader_epoch:
            return
        code = ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise BrokerError(f"{self.name}: leader epoch {epoch}, current {self.leader_epoch}", code=code)

    def configure(self, config: TopicConfig, at: Mapping[int, TopicConfig]) -> None:
        """Apply changed topic settings. at: the settings at nodes whose broker settings differ from the cluster's, by node id."""
        self._config = config
        self._configs = at
        for node_id, replica in self.replicas.items():
            replica.configure(at.get(node_id, config))

    # DeleteRecords

    def delete_records(self, offset: int) -> int:
        """Raise the log start offset (DeleteRecords); return the offset, or the high watermark for -1. If the log starts after the offset
        already, nothing changes. Followers raise theirs with the next replication.

        offset: the new log start offset, or -1 for the high watermark. Raises OFFSET_OUT_OF_RANGE for another negative offset and above the
        high watermark, POLICY_VIOLATION unless cleanup.policy includes delete.
        """
        wanted = self.log.high_watermark if offset == -1 else offset
        if not 0 <= wanted <= self.log.high_watermark:
            raise OffsetOutOfRangeError(f"{self.name}: offset {offset}, high watermark {self.log.high_watermark}")
        if not self.config.deletes:
            raise BrokerError(f"{self.name}: cleanup.policy is not delete", code=ErrorCode.POLICY_VIOLATION)
        self._leading.delete_before(wanted)
        return wanted

    def low_watermark(self, alive: Collection[int]) -> int:
        """Return the lowest log start offset of the leader and of the replicas on nodes that are alive."""
        return min(replica.log.start_offset for node_id, replica in self.replicas.items() if node_id in alive or replica is self._leading)

    # Replication

    def nearest(self, in_rack: Collection[int], offset: int) -> int:
        """Return the node from which a consumer should fetch the record at an offset: the leader, or a follower in the consumer's rack
        (KIP-392).

        in_rack: the nodes in the consumer's rack. A follower is returned only if the leader is in another rack, and the follower is in sync
        and has the offset. Among several, the one with the newest log is chosen.
        """
        ends = {
            node_id: replica.log.end_offset
            for node_id, replica in self.replicas.items()
            if node_id in in_rack and node_id in self.isr and replica.log.start_offset <= offset <= replica.log.end_offset
        }
        return self.leader if self.leader in ends else max(ends, key=lambda node_id: ends[node_id], default=self.leader)

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether the ISR has at least min.insync.replicas nodes, or all replicas if there are fewer."""
        in_sync = len(self.isr)
        return in_sync == len(self.replicas) or in_sync >= self.config.min_insync_replicas

    def check_in_sync(self) -> None:
        """Raise NOT_ENOUGH_REPLICAS if the ISR is too small for acks=all."""
        if not self.has_enough_in_sync:
            raise BrokerError(
                f"{self.name}: {len(self.isr)} replicas in sync, {self.config.min_insync_replicas} needed",
                code=ErrorCode.NOT_ENOUGH_REPLICAS,
            )

    def replicate(self, nodes: Collection[int], now_ms: int) -> None:
        """Let the followers on these nodes copy the records that they do not have and join the ISR. Then advance the high watermark to the
        offset that all in-sync replicas have reached, unless the ISR is too small.

        A reassignment is completed when all its target nodes are in sync. Without a leader, nothing happens.
        """
        if self.leader == NO_LEADER:
            return
        if len(self.replicas) == 1:
            self._commit()
        else:
            self._copy_to(nodes, now_ms)
        if self.reassignment is not None and self.reassignment.is_done(self.isr):
            self._keep_only(self.reassignment.target, nodes, now_ms)

    def _copy_to(self, nodes: Collection[int], now_ms: int) -> None:
        followers = [replica for node_id, replica in self.replicas.items() if node_id in nodes and replica is not self._leading]
        for replica in followers:
            replica.follow(self._leading, now_ms)
        self.isr = tuple(node_id for node_id in self.replicas if node_id in self.isr or node_id in nodes)
        self._commit()
        for replica in followers:
            replica.log.advance_high_watermark(self.log.high_watermark)

    def drop_lagging(self, since_ms: int) -> bool:
        """Remove from the ISR the replicas that are behind and were last caught up before `since_ms`; then advance the high watermark.
        Returns whether the ISR has changed.
        """
        lagging = {node_id for node_id in self.isr if self._is_behind(node_id) and self.replicas[node_id].caught_up_ms < since_ms}
        self.isr = tuple(node_id for node_id in self.isr if node_id not in lagging)
        self._commit()
        return bool(lagging)

    def _is_behind(self, node_id: int) -> bool:
        replica = self.replicas[node_id]
        return replica is not self._leading and replica.fetched_offset < self.log.end_offset

    def _commit(self) -> None:
        if not self.has_enough_in_sync:
            return
        end_offset = self.log.end_offset
        for node_id in self.isr:
            if node_id != self.leader:  # The leader does not fetch from other nodes.
                end_offset = min(end_offset, self.replicas[node_id].fetched_offset)
        self.log.advance_high_watermark(end_offset)

    # Elections

    def elect(self, node_id: int, now_ms: int, *, lose_from: int | None = None) -> None:
        """Make a node the leader, in a new leader epoch. If the node has no replica, it gets that of the former leader, as in a
        reassignment.

        If the node is not in sync, the election is unclean: the records that the node does not have are lost. lose_from: first delete, at
        the new leader, the batches with records at or after this offset, as if its disk had not been flushed; None deletes none.
        """
        if node_id not in self.replicas:
            self._reassign_leader(node_id)
        elected = self.replicas[node_id]
        if lose_from is not None:
            elected.truncate(lose_from)
        if node_id in self.isr and lose_from is None:
            elected.log.advance_high_watermark(self.log.high_watermark)
        else:
            self.isr = (node_id,)
        self.leader = node_id
        self._leading = elected
        self._begin_epoch()
        for replica in self.replicas.values():
            replica.fetched_offset, replica.caught_up_ms = 0, now_ms
        self._commit()

    # Reassignment

    @property
    def original_replicas(self) -> tuple[int, ...]:
        """The nodes with replicas, without the nodes that a reassignment in progress adds."""
        return tuple(self.replicas) if self.reassignment is None else self.reassignment.before

    def reassign(self, target: tuple[int, ...]) -> None:
        """Begin a reassignment to the target nodes, in place of a reassignment in progress. replicate() completes it."""
        wanted = Reassignment(self.original_replicas, target)
        for node_id in [known for known in self.replicas if known not in wanted.meanwhile]:
            self._drop(node_id)
        for node_id in wanted.meanwhile:
            if node_id not in self.replicas:
                self.replicas[node_id] = Replica(self._configs.get(node_id, self._config))
                self.replicas[node_id].keep_in(self._files(node_id))
        self._order(wanted.meanwhile)
        self.reassignment = wanted

    def cancel_reassignment(self, alive: Collection[int], now_ms: int) -> None:
        """Cancel the reassignment in progress. Raises NO_REASSIGNMENT_IN_PROGRESS if there is none."""
        if self.reassignment is None:
            raise BrokerError(f"{self.name} is not being reassigned", code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        self._keep_only(self.reassignment.before, alive, now_ms)

    def _keep_only(self, wanted: tuple[int, ...], alive: Collection[int], now_ms: int) -> None:
        self.reassignment = None
        self.isr = tuple(node_id for node_id in wanted if node_id in self.isr)
        self._order(wanted + tuple(node_id for node_id in self.replicas if node_id not in wanted))
        if self.leader not in wanted:
            self.elect_any([node_id for node_id in alive if node_id in wanted], now_ms)
        for node_id in [known for known in self.replicas if known not in wanted]:
            self._drop(node_id)

    def _order(self, wanted: tuple[int, ...]) -> None:
        self.replicas = {node_id: self.replicas[node_id] for node_id in wanted}

    def _drop(self, node_id: int) -> None:
        self.replicas.pop(node_id).files.delete()
        self.isr = tuple(known for known in self.isr if known != node_id)

    def _begin_epoch(self) -> None:
        self.leader_epoch += 1
        self._leading.lead(self.leader_epoch)

    def _reassign_leader(self, node_id: int) -> None:
        self._leading.files.move_to(node_id)
        former = next(known for known, replica in self.replicas.items() if replica is self._leading)
        self.replicas = {node_id if known == former else known: replica for known, replica in self.replicas.items()}
        self.isr = tuple(node_id if known == former else known for known in self.isr)

    def leave(self, node_id: int, alive: Collection[int], now_ms: int) -> None:
        """Remove a node that has stopped from the ISR, and elect another leader if it was the leader.

        The last in-sync node stays in the ISR, because other replicas may not have all records. alive: the ids of the running nodes.
        """
        others = tuple(known for known in self.isr if known != node_id)
        self.isr = others or self.isr
        if self.leader == node_id:
            self.elect_any(alive, now_ms)
        else:
            self._commit()

    def candidates(self, alive: Collection[int]) -> list[int]:
        """Return the nodes that are alive and have replicas: those in sync first, otherwise the preferred ones first."""
        return sorted((node_id for node_id in self.replicas if node_id in alive), key=lambda node_id: node_id not in self.isr)

    def elect_any(self, alive: Collection[int], now_ms: int) -> None:
        """Elect a leader from the ISR or, with unclean.leader.election.enable, from all replicas. If no such node is alive, the partition
        has no leader.
        """
        candidates = self.candidates(alive)
        if candidates and (candidates[0] in self.isr or self.config.may_elect_unclean):
            self.elect(candidates[0], now_ms)
        elif self.leader != NO_LEADER:
            self.leader = NO_LEADER
            self.leader_epoch += 1

    # Retention and expiration

    def retain(self, now_ms: int) -> None:
        """Delete old segments as retention.ms and retention.bytes require, if cleanup.policy includes delete. Nothing is deleted while
        records are not committed yet. now_ms: milliseconds since the epoch.

        Followers raise their log start offset with the next replication.
        """
        if self.config.deletes and self.log.high_watermark == self.log.end_offset:
            age = self.config.retention_ms
            oldest_ms = now_ms - age if age >= 0 else -1
            self._leading.retain(retention_bytes=self.config.retention_bytes, oldest_timestamp_ms=oldest_ms)

    def expire_producers(self, before_ms: int) -> None:
        """Remove producers whose timestamp is before `before_ms` (ms since the epoch), except those with an open transaction."""
        for replica in self.replicas.values():
            replica.producers.expire(before_ms, keep=replica.transactions.open_producers)

    def forget_producers(self) -> None:
        """Remove all producers, except those with an open transaction."""
        self.expire_producers(MAX_INT64)
