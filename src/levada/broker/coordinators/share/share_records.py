"""The positions of share groups as records of __share_group_state: written with each change, and read when a broker starts.

Kafka writes changes, and a snapshot now and then. Here each record is a snapshot, since the records in flight form only a few ranges.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator

from levada.broker.coordinators.logs import CoordinatorLog, CoordinatorRecord, CoordinatorWrite
from levada.broker.share.in_flight import InFlightRange
from levada.broker.share.record_states import RecordState
from levada.broker.share.share_partition import SharePartition
from levada.broker.share.share_states import ShareKey, ShareState
from levada.errors import ProtocolError
from levada.logs import Log
from levada.protocol.prefixed import SHARE_RECORDS, encode_prefixed
from levada.protocol.records.share_snapshot import ShareSnapshotKey, ShareSnapshotValue, StateBatch
from levada.types import TopicPartition

_log = Log("levada.broker")
_VERSION = 0
_NOWHERE = -1
_DELIVERY_STATES = {0: RecordState.AVAILABLE, 2: RecordState.ACKNOWLEDGED, 4: RecordState.ARCHIVED}
_NUMBERS = {state: number for number, state in _DELIVERY_STATES.items()}


class ShareRecords:
    """Writes the states of share partitions as records of __share_group_state.

    place_of: returns the partition of this topic for a key in the form group:topic id:partition, as in FindCoordinator.
    """

    def __init__(self, log: CoordinatorLog, place_of: Callable[[str], TopicPartition]) -> None:
        self._log = log
        self._place_of = place_of

    def keep(self, key: ShareKey, state: ShareState, now_ms: int) -> None:
        """Write the present state of a share partition as a record. now_ms: milliseconds since the epoch."""
        self._append(key, encode_prefixed(_value(state, now_ms), _VERSION), now_ms)

    def forget(self, key: ShareKey) -> None:
        """Write a tombstone for the state of a share partition."""
        self._append(key, None, 0)

    def _append(self, key: ShareKey, value: bytes | None, now_ms: int) -> None:
        topic_id = urlsafe_b64encode(key.topic_id.bytes).decode().rstrip("=")
        record_key = ShareSnapshotKey(group_id=key.group, topic_id=key.topic_id, partition=key.partition)
        record = CoordinatorRecord(encode_prefixed(record_key, _VERSION), value)
        self._log.append(self._place_of(f"{key.group}:{topic_id}:{key.partition}"), [record], now_ms)


def shares_in(written: CoordinatorWrite) -> Iterator[tuple[ShareKey, SharePartition | None, bool]]:
    """Yield the share partitions in one write: the key, the state, and False if the state was deleted, otherwise True.

    The state is None if it was deleted, or if it is not decided yet where the group starts. Records of unknown kinds or versions are
    skipped.
    """
    for record in written.records:
        try:
            decoded = SHARE_RECORDS.decode(record.key, record.value)
            partition = _partition(decoded.value) if isinstance(decoded.value, ShareSnapshotValue) else None
        except (ProtocolError, KeyError) as fault:
            _log.warning("%s: a record is skipped: %s", written.place, fault)
            continue
        if isinstance(decoded.key, ShareSnapshotKey):
            key = ShareKey(decoded.key.group_id, decoded.key.topic_id, decoded.key.partition)
            yield key, partition, decoded.value is not None


def _value(state: ShareState, now_ms: int) -> ShareSnapshotValue:
    epoch = -1 if state.led_by is None else state.led_by[1]
    value = ShareSnapshotValue(leader_epoch=epoch, start_offset=_NOWHERE, create_timestamp=now_ms, write_timestamp=now_ms)
    if state.partition is not None and state.is_stored:
        value.start_offset = state.partition.start_offset
        value.delivery_complete_count = state.partition.finished
        value.state_batches = [_batch(found) for found in state.partition]
    return value


def _batch(found: InFlightRange) -> StateBatch:
    """Return a range of records in the stored form, which does not say who has acquired the records."""
    stored = found.stored()
    return StateBatch(
        first_offset=stored.first, last_offset=stored.last, delivery_state=_NUMBERS[stored.state], delivery_count=stored.deliveries
    )


def _partition(value: ShareSnapshotValue) -> SharePartition | None:
    """Convert a stored state; return None if the record has no state. Raises KeyError for an unknown record state."""
    if value.start_offset == _NOWHERE:
        return None
    ranges = [
        InFlightRange(one.first_offset, one.last_offset, one.first_offset, _DELIVERY_STATES[one.delivery_state], one.delivery_count)
        for one in value.state_batches
    ]
    return SharePartition(value.start_offset, ranges)
