"""Which open transactions nobody will end (KIP-664). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from levada import ProducerState, TopicPartition, TransactionDescription
from levada.cli.doctor.findings import Finding, Status, Step
from levada.cli.text import counted, named
from levada.exactly_once.batch import parsed

NO_EPOCH = 0
"""The coordinator's epoch for a producer that has ended no transaction in the partition."""


class OpenTransaction(NamedTuple):
    """A transaction that a partition holds open: readers with isolation.level=read_committed wait before start_offset.

    last_timestamp: of its last record, in ms since the epoch. transactional_id: "" where no coordinator knows the producer.
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
        """Its partition."""
        return TopicPartition(self.topic, self.partition)


def opened_before(limit_ms: float, producers: Mapping[TopicPartition, Iterable[ProducerState]]) -> list[OpenTransaction]:
    """Return the open transactions whose last record is older than a time in ms since the epoch."""
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
    """Return those that no coordinator will end: it does not know the producer, or not that the partition takes part.

    ids: transactional ids by producer id. descriptions: by transactional id, as their coordinators have them.
    """
    named = [one._replace(transactional_id=ids.get(one.producer_id, "")) for one in opened]
    return [one for one in named if (known := descriptions.get(one.transactional_id)) is None or one.tp not in known.partitions]


LONG_MS = 5 * 60_000
"""After how long an open transaction is worth a word: most programs commit within seconds."""


def examined(opened: Mapping[str, TransactionDescription], now_ms: int) -> list[Finding]:
    """Return the findings about transactions that are open. opened: by transactional id. now_ms: this machine's clock."""
    long = {name: found for name, found in opened.items() if now_ms - (found.start_time_ms or now_ms) > LONG_MS}
    if not long:
        return [Finding(Step.TRANSACTIONS, Status.OK, "all transactions", f"{counted(len(opened), 'transaction')} open, none for long")]
    return [_finding(name, found, now_ms) for name, found in sorted(long.items())]


def _finding(name: str, found: TransactionDescription, now_ms: int) -> Finding:
    minutes = (now_ms - (found.start_time_ms or now_ms)) // 60_000
    topics = sorted({tp.topic for tp in found.partitions if not tp.topic.startswith("__")})
    text = f"open for {minutes} min: readers with isolation.level=read_committed wait, in {named(topics) or 'no topic'}"
    slot = parsed(name)
    if slot is None:
        advice = "commit more often, or look for the program; its coordinator aborts it after transaction.timeout.ms"
    else:
        advice = (
            f"it is of the Spark sink {slot[0]}: start its query again, or end what it has open by "
            f"`levada spark transactions abort {slot[0]}`; its coordinator aborts it after transaction.timeout.ms"
        )
    return Finding(Step.TRANSACTIONS, Status.WARNING, f"transaction {name}", f"{text}; timeout {found.timeout_ms // 60_000} min", advice)
