"""Committed offsets as records of __consumer_offsets: written with each commit, and read when a broker starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

from levada.broker.coordinators.logs import CoordinatorLog, CoordinatorRecord, CoordinatorWrite
from levada.errors import ProtocolError
from levada.logs import Log
from levada.protocol.prefixed import GROUP_RECORDS, encode_prefixed
from levada.protocol.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from levada.types import OffsetAndMetadata, TopicPartition

_log = Log("levada.broker")
_KEY_VERSION = 0
_WITH_EXPIRY, _WITH_TOPIC_ID = 1, 4
_NO_EXPIRY = -1


class OffsetRecords:
    """Writes offsets as records of __consumer_offsets.

    place_of: returns the partition of this topic to which a group belongs. id_of: returns the id of a topic by name, ZERO_UUID if there is
    no such topic.
    """

    def __init__(self, log: CoordinatorLog, place_of: Callable[[str], TopicPartition], id_of: Callable[[str], UUID]) -> None:
        self._log = log
        self._place_of = place_of
        self._id_of = id_of

    def commit(self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], now_ms: int, retention_ms: int) -> None:
        """Write committed offsets as records. now_ms: milliseconds since the epoch. retention_ms: how long to retain the offsets; if
        negative, as long as the broker's settings say.
        """
        expires_ms = now_ms + retention_ms if retention_ms >= 0 else _NO_EXPIRY
        records = [self._record(group, tp, offset, now_ms, expires_ms) for tp, offset in offsets.items()]
        self._log.append(self._place_of(group), records, now_ms)

    def commit_in_transaction(
        self, group: str, producer_id: int, epoch: int, offsets: Mapping[TopicPartition, OffsetAndMetadata], now_ms: int
    ) -> None:
        """Write the pending offsets of an open transaction as records.

        epoch: the producer epoch. now_ms: the time in ms since the epoch.
        """
        records = [self._record(group, tp, offset, now_ms, _NO_EXPIRY) for tp, offset in offsets.items()]
        self._log.append_in_transaction(self._place_of(group), records, producer_id, epoch, now_ms)

    def end_transaction(self, group: str, producer_id: int, epoch: int, *, committed: bool) -> None:
        """Write the marker that ends a transaction with pending offsets of a group.

        epoch: the producer epoch. committed: True for a commit marker, False for an abort marker.
        """
        self._log.end_transaction(self._place_of(group), producer_id, epoch, committed=committed)

    def delete(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Write tombstones for the offsets of these partitions."""
        records = [CoordinatorRecord(_key(group, tp), None) for tp in partitions]
        if records:
            self._log.append(self._place_of(group), records)

    def _record(self, group: str, tp: TopicPartition, offset: OffsetAndMetadata, now_ms: int, expires_ms: int) -> CoordinatorRecord:
        value = OffsetCommitValue(offset=offset.offset, metadata=offset.metadata, commit_timestamp=now_ms, expire_timestamp=expires_ms)
        version = _WITH_EXPIRY
        if expires_ms == _NO_EXPIRY:
            value.leader_epoch, value.topic_id, version = offset.leader_epoch, self._id_of(tp.topic), _WITH_TOPIC_ID
        return CoordinatorRecord(_key(group, tp), encode_prefixed(value, version))


def offsets_in(written: CoordinatorWrite) -> dict[str, dict[TopicPartition, tuple[OffsetAndMetadata | None, int, int]]]:
    """Return the offsets in one write, by group and partition: the offset, or None if it was removed; the time of its commit in ms since
    the epoch; and its retention time in ms, -1 if the broker's settings decide.

    Records of unknown kinds or versions are skipped.
    """
    found: dict[str, dict[TopicPartition, tuple[OffsetAndMetadata | None, int, int]]] = {}
    for record in written.records:
        try:
            decoded = GROUP_RECORDS.decode(record.key, record.value)
        except ProtocolError as fault:
            _log.warning("%s: a record is skipped: %s", written.place, fault)
            continue
        key, value = decoded.key, decoded.value
        if not isinstance(key, OffsetCommitKey):
            continue
        tp = TopicPartition(key.topic, key.partition)
        if isinstance(value, OffsetCommitValue):
            retention_ms = value.expire_timestamp - value.commit_timestamp if value.expire_timestamp >= 0 else _NO_EXPIRY
            offset = OffsetAndMetadata(value.offset, value.leader_epoch, value.metadata)
            found.setdefault(key.group, {})[tp] = (offset, value.commit_timestamp, retention_ms)
        else:
            found.setdefault(key.group, {})[tp] = (None, 0, _NO_EXPIRY)
    return found


def _key(group: str, tp: TopicPartition) -> bytes:
    return encode_prefixed(OffsetCommitKey(group=group, topic=tp.topic, partition=tp.partition), _KEY_VERSION)
