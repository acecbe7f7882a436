"""The block of a transaction: with producer.transaction() as txn."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from levada.face.transacting import Transacting
from levada.sync.driver import Driver

if TYPE_CHECKING:
    from levada.sync.consumer import KafkaConsumer


class Transaction:
    """One transaction. Commits at the end of the block, aborts it on an exception, Ctrl-C included."""

    def __init__(self, driver: Driver, transacting: Transacting, timeout: float | None) -> None:
        self._driver = driver
        self._transacting = transacting
        self._timeout = timeout

    def send_offsets(self, consumer: KafkaConsumer[Any, Any]) -> None:
        """Commit within the transaction how far a consumer has read: what was handed out to the program, for its group.id.

        What the consumer reads and the producer writes in this block count together, or not at all. Call init_transactions() of the
        producer before the first poll: a transaction that an earlier run left open keeps the group's offsets back.

        Raises InvalidGroupIdError for a consumer without group.id, and what KafkaProducer.send_offsets_to_transaction() raises.
        """
        offsets, group = consumer.consumed_offsets(), consumer.group_metadata()
        self._driver.call(self._transacting.send_offsets(offsets, group, self._timeout))

    def __enter__(self) -> Self:
        self._driver.call(self._transacting.enter(self._timeout))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._driver.call(self._transacting.leave(error, self._timeout))
