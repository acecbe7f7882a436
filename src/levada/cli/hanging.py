"""Finds open transactions, and hanging ones: open transactions that no coordinator will end (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from levada import KafkaAdmin, KafkaError, ProducerState, TopicPartition, TransactionDescription, TransactionState

NO_EPOCH = 0
"""Coordinator epoch to send for a producer that has not ended any transaction in the partition yet."""


class OpenTransaction(NamedTuple):
    """An open transaction in a partition. Consumers with isolation.level=read_committed wait before start_offset.

    last_timestamp: timestamp of its last record, in ms since the epoch. transactional_id: "" if no coordinator knows the producer.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: int
    transactional_id: str = ""

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


def open_transactions(admin: KafkaAdmin, timeout: float | None = None) -> dict[str, TransactionDescription]:
    """Return the open transactions that coordinators know, by transactional id. Raises UnsupportedVersionError (brokers before 3.0)."""
    names = [one.transactional_id for one in admin.list_transactions(states=[TransactionState.ONGOING], timeout=timeout)]
    described = admin.outcomes(admin.describe_transactions, names, timeout=timeout) if names else {}
    # An error means that the transaction has ended meanwhile, or that this user may not see it.
    return {name: found for name, found in described.items() if not isinstance(found, KafkaError)}


def opened_before(limit_ms: float, producers: Mapping[TopicPartition, Iterable[ProducerState]]) -> list[OpenTransaction]:
    """Return the open transactions whose last record is older than limit_ms, a time in ms since the epoch."""
    return [
        OpenTransaction(
            tp.topic,
            tp.partition,
            producer.producer_id,
            producer.producer_epoch,
            NO_EPOCH if producer.coordinator_epoch is None else producer.coordinator_epoch,
            producer.current_transaction_start_offset,
            producer.last_timestamp,
        )
        for tp, some in sorted(producers.items())
        for producer in some
        if producer.current_transaction_start_offset is not None and producer.last_timestamp < limit_ms
    ]


def hanging(
    opened: Iterable[OpenTransaction], ids: Mapping[int, str], descriptions: Mapping[str, TransactionDescription]
) -> list[OpenTransaction]:
    """Return the hanging transactions: their coordinator does not know the producer, or does not know that the partition takes part.

    ids: transactional ids by producer id. descriptions: the coordinators' descriptions by transactional id.
    """
    named = [one._replace(transactional_id=ids.get(one.producer_id, "")) for one in opened]
    return [one for one in named if (known := descriptions.get(one.transactional_id)) is None or one.tp not in known.partitions]
