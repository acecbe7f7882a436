"""consumer.health(): what the consumer knows of why no records arrive; brokers are asked only which transactions are open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from levada.admin.per_key import Attempts
from levada.admin.transactions import ProducerState, describe_producers, list_transactions
from levada.api.arguments import deadline_ms
from levada.base.clock import ExponentialBackoff
from levada.base.flow import CallerFlow, Flow
from levada.client.engine import Engine
from levada.client.requests.flow_runner import FlowsBeside
from levada.config import ConsumerConfig
from levada.consumer.consumer_flows import ConsumerFlows
from levada.consumer.health import Condition, ConsumerHealth, OpenTransaction, PartitionHealth
from levada.errors import KafkaError
from levada.types import TopicPartition

RETRIES = 3


def health(reading: ConsumerFlows, engine: Engine, config: ConsumerConfig, timeout: float | None) -> CallerFlow[ConsumerHealth]:
    """Return the health of a consumer. timeout: seconds for the requests about transactions, None for default.api.timeout.ms."""
    wall_ms = reading.wall_ms()
    known = reading.look(lambda core: core.health(wall_ms))
    waiting = [one.partition for one in known.partitions if one.condition is Condition.OPEN_TRANSACTION]
    if not waiting:
        return known
    asking = _Asking(engine, config)
    try:
        timeout_ms = None if timeout is None else deadline_ms(0, timeout)
        found = yield from reading.run(lambda core, _: asking.open_transactions(waiting), timeout_ms, "producers of open transactions")
    except KafkaError as error:
        # What the consumer knows without asking is useful too; the error becomes part of it.
        return known._replace(partitions=tuple(_told(one, (), f"whose it is cannot be told: {error}") for one in known.partitions))
    return known._replace(partitions=tuple(_told(one, found.get(one.partition, ())) for one in known.partitions))


def _told(one: PartitionHealth, transactions: Sequence[OpenTransaction], else_: str = "") -> PartitionHealth:
    """Return the health of a partition, with its open transactions described in `detail`. Other conditions are returned unchanged.

    transactions: the open transactions that hold back the last stable offset. else_: the text if there are none.
    """
    if one.condition is not Condition.OPEN_TRANSACTION:
        return one
    whose = ", ".join(_described(transaction) for transaction in transactions) or else_ or "it has ended meanwhile"
    return one._replace(transactions=tuple(transactions), detail=f"{one.detail}: {whose}")


def _described(transaction: OpenTransaction) -> str:
    name = "" if transaction.transactional_id is None else f"'{transaction.transactional_id}', "
    return f"that of {name}producer id {transaction.producer_id}, epoch {transaction.producer_epoch}"


class _Asking:
    """Asks the partitions' leaders for their producers, and the coordinators for the transactional ids."""

    def __init__(self, engine: Engine, config: ConsumerConfig) -> None:
        backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms, engine.random)
        self._attempts = Attempts(engine.metadata, backoff, RETRIES)
        self._spawn = FlowsBeside(engine.flows, engine.now)

    def open_transactions(self, partitions: Sequence[TopicPartition]) -> Flow[dict[TopicPartition, list[OpenTransaction]]]:
        """Return the open transactions of each partition, the one with the first record first."""
        producers = yield from describe_producers(partitions, self._attempts, self._spawn)
        ids = {one.producer_id for found in producers.values() for one in found if one.current_transaction_start_offset is not None}
        names = yield from self._names(sorted(ids))
        return {tp: _open(found, names) for tp, found in producers.items()}

    def _names(self, producer_ids: Sequence[int]) -> Flow[Mapping[int, str]]:
        if not producer_ids:
            return {}
        try:
            listed = yield from list_transactions(
                self._attempts, self._spawn, states=(), producer_ids=producer_ids, duration_ms=None, pattern=None
            )
        except KafkaError:
            # Brokers before 3.0 do not report transactional ids, nor do others to users without the permission. The producer ids are known.
            return {}
        return {one.producer_id: one.transactional_id for one in listed}


def _open(producers: Sequence[ProducerState], names: Mapping[int, str]) -> list[OpenTransaction]:
    found = [
        OpenTransaction(
            names.get(one.producer_id), one.producer_id, one.producer_epoch, one.current_transaction_start_offset, one.last_timestamp
        )
        for one in producers
        if one.current_transaction_start_offset is not None
    ]
    return sorted(found, key=lambda one: one.first_offset)
