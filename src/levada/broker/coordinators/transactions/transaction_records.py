"""Transactional ids as records of __transaction_state: written with each change, and read when a broker starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from levada.broker.coordinators.logs import CoordinatorLog, CoordinatorRecord, CoordinatorWrite
from levada.broker.coordinators.transactions.transaction import ProducerIdAndEpoch, Transaction
from levada.broker.coordinators.transactions.transaction_states import State
from levada.errors import ProtocolError
from levada.logs import Log
from levada.protocol.prefixed import TRANSACTION_RECORDS, encode_prefixed
from levada.protocol.records.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from levada.types import TopicPartition

_log = Log("levada.broker")
_KEY_VERSION = 0
_STATUS = (State.EMPTY, State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
"""The states in the order of their numbers in a record. States that do not last are never written."""


class TransactionRecords:
    """Writes transactional ids as records of __transaction_state.

    place_of: returns the partition of this topic to which a transactional id belongs. version: the version of the records, which is 1 from
    transaction.version 1 on.
    """

    def __init__(self, log: CoordinatorLog, place_of: Callable[[str], TopicPartition], version: int) -> None:
        self._log = log
        self._place_of = place_of
        self._version = version

    def keep(self, transaction: Transaction) -> None:
        """Write the present state of a transactional id as a record."""
        key = _key(transaction.id)
        value = encode_prefixed(_value(transaction, with_other_ids=self._version > 0), self._version)
        self._log.append(self._place_of(transaction.id), [CoordinatorRecord(key, value)], transaction.updated_ms)

    def forget(self, transactional_id: str) -> None:
        """Write a tombstone for a transactional id."""
        self._log.append(self._place_of(transactional_id), [CoordinatorRecord(_key(transactional_id), None)])


def transactions_in(written: Iterable[CoordinatorWrite]) -> list[Transaction]:
    """Return the transactional ids that the records describe. Records of unknown kinds or versions are skipped. Ids whose last record is
    a tombstone or has an unknown status are left out.
    """
    found: dict[str, Transaction | None] = {}
    for one in written:
        found.update(_decoded(one))
    return [transaction for transaction in found.values() if transaction is not None]


def _decoded(written: CoordinatorWrite) -> Iterator[tuple[str, Transaction | None]]:
    for record in written.records:
        try:
            decoded = TRANSACTION_RECORDS.decode(record.key, record.value)
        except ProtocolError as fault:
            _log.warning("%s: a record is skipped: %s", written.place, fault)
            continue
        if isinstance(decoded.key, TransactionLogKey):
            value = decoded.value
            is_known = isinstance(value, TransactionLogValue) and value.transaction_status < len(_STATUS)
            transactional_id = decoded.key.transactional_id
            yield transactional_id, _transaction(transactional_id, value) if is_known else None  # type: ignore[arg-type]


def _transaction(transactional_id: str, value: TransactionLogValue) -> Transaction:
    found = Transaction(transactional_id, value.producer_id, value.transaction_timeout_ms, value.transaction_last_update_timestamp_ms)
    found.producer = ProducerIdAndEpoch(value.producer_id, value.producer_epoch)
    found.previous_producer_id, found.next_producer_id = value.previous_producer_id, value.next_producer_id
    found.state = _STATUS[value.transaction_status]
    found.started_ms = value.transaction_start_timestamp_ms
    for topic in value.transaction_partitions or ():
        found.partitions.update(dict.fromkeys(TopicPartition(topic.topic, partition) for partition in topic.partition_ids))
    return found


def _value(transaction: Transaction, *, with_other_ids: bool) -> TransactionLogValue:
    by_topic: dict[str, list[int]] = {}
    for tp in transaction.partitions:
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    partitions = [PartitionsSchema(topic=topic, partition_ids=numbers) for topic, numbers in by_topic.items()]
    value = TransactionLogValue(
        producer_id=transaction.producer.producer_id,
        producer_epoch=transaction.producer.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=_STATUS.index(transaction.state),
        transaction_partitions=None if transaction.state is State.EMPTY else partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
    )
    if with_other_ids:
        value.previous_producer_id, value.next_producer_id = transaction.previous_producer_id, transaction.next_producer_id
    return value


def _key(transactional_id: str) -> bytes:
    return encode_prefixed(TransactionLogKey(transactional_id=transactional_id), _KEY_VERSION)
