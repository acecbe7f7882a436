"""The share partitions that a node leads: opened for members, read from their logs, and released as sessions end (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from levada.base.clock import NEVER_MS
from levada.broker.cluster.cluster import Cluster
from levada.broker.cluster.topic import Topic
from levada.broker.config.group_config import GroupConfig
from levada.broker.log.offset_lookup import EARLIEST, LATEST, NOTHING, find
from levada.broker.log.partition_transactions import AbortedTransaction
from levada.broker.node.purgatory import Purgatory, Timers
from levada.broker.replication.partition import Partition
from levada.broker.share.acknowledgements import Acknowledgement
from levada.broker.share.share_partition import Acquired, Asked, LogBatch, SharePartition
from levada.broker.share.share_sessions import ShareSession, ShareSessions
from levada.broker.share.share_states import ShareKey, ShareState
from levada.errors import UnknownTopicOrPartitionError
from levada.protocol.schema import RecordBytes
from levada.record.batch import RecordBatch
from levada.record.memory_records import read_batches
from levada.types import IsolationLevel

_LIST_OFFSETS_VERSION = 11


class OpenShare(NamedTuple):
    """A share partition that is up to date with its log and its locks, together with the partition and the group's settings."""

    key: ShareKey
    state: ShareState
    share: SharePartition
    partition: Partition
    config: GroupConfig

    @property
    def has_room(self) -> bool:
        """Whether members could acquire records: those in flight that are available again, or new ones if the log has any."""
        return self.share.has_room(self.config.share_limits)

    @property
    def available_bytes(self) -> int:
        """The size in bytes of the log from the first record that members could acquire to the end of what they can read; 0 if they cannot
        acquire any.
        """
        if not self.has_room:
            return 0
        return self.partition.log.bytes_between(self.share.fetch_offset, self.partition.readable_end(self.config.share_isolation_level))


class Delivery(NamedTuple):
    """The answer for one partition: the bytes of its batches, and the records in them that the member has acquired."""

    records: RecordBytes
    acquired: Sequence[Acquired]


class SharePartitions:
    """The share partitions whose partitions a node leads. slots: the maximum number of share sessions. wall_ms: converts the node's time to
    milliseconds since the epoch.
    """

    def __init__(
        self, *, node_id: int, cluster: Cluster, slots: int, timers: Timers, purgatory: Purgatory, wall_ms: Callable[[int], int]
    ) -> None:
        self.sessions = ShareSessions(slots)
        self._node_id = node_id
        self._cluster = cluster
        self._timers = timers
        self._purgatory = purgatory
        self._wall_ms = wall_ms
        self._timed: dict[ShareKey, int] = {}

    def open(self, group: str, topic: Topic, partition: Partition, now_ms: int) -> OpenShare:
        """Return the share partition of a group for a partition that this node leads, brought up to date with its leader, its log and its
        expired locks. If its start offset is not decided yet, share.auto.offset.reset decides it.

        Raises UNKNOWN_TOPIC_OR_PARTITION if the group has no state for the partition, as before it subscribes to the topic.
        """
        key = ShareKey(group, topic.id, partition.name.partition)
        state = self._cluster.share_states.find(key)
        if state is None:
            raise UnknownTopicOrPartitionError(f"share group '{group}' has not subscribed to {partition.name.topic}")
        config = self._cluster.group_config(group)
        led_by = self._node_id, partition.leader_epoch
        if state.partition is None:
            state.partition = SharePartition(self._first_offset(partition, config, now_ms))
        elif state.led_by != led_by:
            state.partition.change_leader()
        state.led_by = led_by
        state.partition.follow_log(partition.log.start_offset, partition.log.end_offset)
        opened = OpenShare(key, state, state.partition, partition, config)
        if opened.share.expire(config.share_limits, now_ms):
            self._store(key, state, now_ms)
        return opened

    def acquire(self, opened: OpenShare, member: str, asked: Asked, max_bytes: int, now_ms: int, *, at_least_one: bool) -> Delivery:
        """Read batches from a partition and acquire records in them for a member. at_least_one: read one batch even if it is larger than
        max_bytes.
        """
        share, log = opened.share, opened.partition.log
        readable = opened.available_bytes
        data = log.read(share.fetch_offset, min(max_bytes, readable), at_least_one=at_least_one and readable > 0)
        batches = list(read_batches(data))
        acquired = share.acquire(member, asked, self._spans(opened, batches), opened.config.share_limits, now_ms)
        self._watch_locks(opened, now_ms)
        return Delivery(_holding(data, batches, acquired), acquired)

    def acknowledge(self, opened: OpenShare, member: str, told: Sequence[Acknowledgement], now_ms: int) -> None:
        """Apply a member's acknowledgements like SharePartition.acknowledge(), and store the result."""
        opened.share.acknowledge(member, told, opened.config.share_limits, now_ms)
        self._store(opened.key, opened.state, now_ms)
        self._watch_locks(opened, now_ms)
        self._purgatory.wake(opened.key, now_ms)

    def end_session(self, session: ShareSession, now_ms: int) -> None:
        """Close a share session, and release the records that its member has acquired in the partitions of the session. After the group's
        last session here, start offsets that were not stored are forgotten.
        """
        self.sessions.close(session)
        keys = [ShareKey(session.group, part.topic_id, part.partition) for part in session.parts]
        for key in keys:
            state = self._led(key)
            limits = self._cluster.group_config(key.group).share_limits
            if state is not None and state.partition is not None and state.partition.release_all_of(session.member, limits):
                self._store(key, state, now_ms)
        if not self.sessions.has_any(session.group):
            self._forget_unstored(session.group)
        for key in keys:
            self._purgatory.wake(key, now_ms)

    def end_sessions_of(self, connection: int, now_ms: int) -> None:
        """Close the share sessions of a connection that was closed."""
        for session in self.sessions.of_connection(connection):
            self.end_session(session, now_ms)

    # Inside

    def _store(self, key: ShareKey, state: ShareState, now_ms: int) -> None:
        self._cluster.share_states.store(key, state, self._wall_ms(now_ms))

    def _first_offset(self, partition: Partition, config: GroupConfig, now_ms: int) -> int:
        """Return the offset at which a group begins to read a partition, as share.auto.offset.reset says."""
        timestamp = LATEST
        if config.share_reset_to_earliest:
            timestamp = EARLIEST
        elif config.share_reset_by_ms is not None:
            timestamp = max(self._wall_ms(now_ms) - config.share_reset_by_ms, 0)
        found = find(partition, timestamp, _LIST_OFFSETS_VERSION, IsolationLevel.READ_UNCOMMITTED)
        return partition.log.high_watermark if found == NOTHING else found.offset

    def _spans(self, opened: OpenShare, batches: Sequence[RecordBatch]) -> list[LogBatch]:
        if opened.config.share_isolation_level is not IsolationLevel.READ_COMMITTED or not batches:
            return [LogBatch(batch.base_offset, batch.last_offset) for batch in batches]
        aborted = opened.partition.transactions.aborted_between(batches[0].base_offset, batches[-1].next_offset)
        return [LogBatch(batch.base_offset, batch.last_offset, _is_aborted(batch, aborted)) for batch in batches]

    def _watch_locks(self, opened: OpenShare, now_ms: int) -> None:
        """Set a timer for the time when the next lock of a share partition expires."""
        key, at_ms = opened.key, opened.share.next_deadline_ms
        if at_ms < self._timed.get(key, NEVER_MS):
            self._timed[key] = at_ms
            self._timers.schedule(("share locks", key), at_ms, lambda late_ms: self._locks_ended(key, late_ms))

    def _locks_ended(self, key: ShareKey, now_ms: int) -> None:
        del self._timed[key]
        state = self._led(key)
        topic = self._cluster.topic_by_id(key.topic_id)
        if state is not None and state.partition is not None and topic is not None:
            self._watch_locks(self.open(key.group, topic, topic.partitions[key.partition], now_ms), now_ms)
            self._purgatory.wake(key, now_ms)

    def _led(self, key: ShareKey) -> ShareState | None:
        """Return the state of a share partition if this node has read it as the present leader of the partition, otherwise None."""
        state = self._cluster.share_states.find(key)
        topic = self._cluster.topic_by_id(key.topic_id)
        if state is None or topic is None:
            return None
        return state if state.led_by == (self._node_id, topic.partitions[key.partition].leader_epoch) else None

    def _forget_unstored(self, group: str) -> None:
        for key, state in self._cluster.share_states.of_group(group).items():
            if self._led(key) is state:
                state.forget_unstored()


def _is_aborted(batch: RecordBatch, aborted: Iterable[AbortedTransaction]) -> bool:
    if batch.is_control or not batch.is_transactional:
        return False
    return any(one.producer_id == batch.producer_id and one.first_offset <= batch.base_offset <= one.last_offset for one in aborted)


def _holding(data: memoryview, batches: Sequence[RecordBatch], acquired: Sequence[Acquired]) -> RecordBytes:
    """Return the bytes from the first to the last batch that has acquired records."""
    if not acquired:
        return b""
    before = sum(batch.size_bytes for batch in batches if batch.last_offset < acquired[0].first)
    behind = sum(batch.size_bytes for batch in batches if batch.base_offset > acquired[-1].last)
    return data[before : len(data) - behind]
