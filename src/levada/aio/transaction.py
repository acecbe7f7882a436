"""The block of a transaction on asyncio: async with producer.transaction() as txn."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from levada.aio.driver import Driver
from levada.api.record_offsets import RecordsToCommit
from levada.api.transacting import Block, Transacting
from levada.base.flow import CallerFlow

if TYPE_CHECKING:
    from levada.aio.consumer import KafkaConsumer


class Transaction:
    """One transaction. Commits at the end of the block, aborts it on an exception or a cancellation."""

    def __init__(self, driver: Driver, transacting: Transacting, timeout: float | None) -> None:
        self._driver = driver
        self._block = Block(transacting, timeout)

    async def send_offsets(self, consumer: KafkaConsumer[Any, Any], records: RecordsToCommit | None = None) -> None:
        """Commit within the transaction how far a consumer has read, or up to the last of `records`, for its group.id.

        As levada.Transaction.send_offsets().
        """
        await self._driver.call(self._block.send_offsets(consumer, records))

    async def __aenter__(self) -> Self:
        await self._run(self._block.enter())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._run(self._block.leave(error))

    async def _run(self, step: CallerFlow[None]) -> None:
        try:
            await self._driver.call(step)
        except BaseException as broken_off:
            if self._block.is_open:
                await self._driver.call(self._block.leave(broken_off))
            raise
