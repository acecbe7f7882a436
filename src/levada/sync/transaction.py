# cython: annotation_typing=False
"""The block of a transaction: with producer.transaction() as txn.

A [c] module: a signal's handler may raise at the first instruction of any Python function, so also of an __exit__(), before that can do
anything about the transaction. A compiled one has no such instruction, and what a handler raises in the calls that it makes aborts the
transaction. Interpreted, a program that continues after such an exception calls abort_transaction().
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from levada.api.record_offsets import RecordsToCommit
from levada.api.transacting import Block, Transacting
from levada.base.flow import CallerFlow
from levada.sync.driver import Driver

if TYPE_CHECKING:
    from levada.sync.consumer import KafkaConsumer


class Transaction:
    """A transaction that is committed at the end of the block, and aborted on an exception, Ctrl-C included."""

    def __init__(self, driver: Driver, transacting: Transacting, timeout: float | None) -> None:
        self._driver = driver
        self._block = Block(transacting, timeout)

    def send_offsets(self, consumer: KafkaConsumer[Any, Any], records: RecordsToCommit | None = None) -> None:
        """Commit offsets of a consumer's group.id within the transaction.

        Without `records`, the offsets are those after all returned records, including records of the last poll() that the program has not
        processed yet; with acks(), for each partition that of the first record that is not done. records: one record or several records
        that poll() has returned; for each partition, the offset after the last of these records is committed.

        The offsets of the consumer and the records of the producer in this block are committed together, or not at all. After a block that
        was aborted, call consumer.seek_to_committed(), and read its records again: offsets that would skip them are refused with
        IllegalStateError. A program that handles the same records again, without reading them, names them in each block, all of them:
        records that were left out before the first one that it names are skipped. A commit() of the consumer says that the program is done
        with the records before the committed offsets. Call init_transactions() of the producer before the first poll: a transaction that an
        earlier run left open keeps the group's offsets back.

        Raises IllegalStateError also for a consumer with enable.auto.commit, which would commit offsets in any case, for records of
        partitions that are not assigned to it, and for records while acks() is open; TypeError for something other than a KafkaConsumer and
        records; InvalidGroupIdError for a consumer without group.id, and what KafkaProducer.send_offsets_to_transaction() raises.
        """
        self._driver.call(self._block.send_offsets(consumer, records))

    def __enter__(self) -> Self:
        self._run(self._block.enter())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._run(self._block.leave(error))

    def _run(self, step: CallerFlow[None]) -> None:
        try:
            self._driver.call(step)
        except BaseException as broken_off:
            if self._block.is_open:
                self._driver.call(self._block.leave(broken_off))
            raise
