"""The block of a transaction: with producer.transaction() as txn."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from levada.face.transacting import Transacting
from levada.sync.driver import Driver
from levada.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition


class Transaction:
    """One transaction. Commits at the end of the block, aborts it on an exception, Ctrl-C included."""

    def __init__(self, driver: Driver, transacting: Transacting, timeout: float | None) -> None:
        self._driver = driver
        self._transacting = transacting
        self._timeout = timeout

    def send_offsets_for(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: ConsumerGroupMetadata | str) -> None:
        """Commit offsets within the transaction, as KafkaProducer.send_offsets_to_transaction()."""
        self._driver.call(self._transacting.send_offsets(offsets, group, self._timeout))

    def __enter__(self) -> Self:
        self._driver.call(self._transacting.enter(self._timeout))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._driver.call(self._transacting.leave(error, self._timeout))
