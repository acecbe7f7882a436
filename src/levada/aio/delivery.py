"""The results of send(), send_arrow() and send_sealed(), to be awaited."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from levada.aio.driver import Driver
from levada.base.unsupported_names import DELIVERY, lacks
from levada.errors import KafkaError, TimeoutError
from levada.producer.core import wait_for_all
from levada.producer.delivery import arrow_delivery, delivery
from levada.producer.delivery.arrow_delivery import ArrowReport
from levada.producer.delivery.delivery import mark_under_way
from levada.types import RecordMetadata


@lacks(DELIVERY)
class Delivery:
    """A handle for the result of sending one record; `await` it for the RecordMetadata. Dropping the handle has no effect on the record."""

    __slots__ = ("_delivery", "_driver")

    def __init__(self, delivery: delivery.Delivery, driver: Driver) -> None:
        self._delivery = delivery
        self._driver = driver

    def done(self) -> bool:
        """Whether the record was acknowledged or has failed, and its callback has run."""
        return self._delivery.done()

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        return self.result().__await__()

    async def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait until the record is written, and return its RecordMetadata. Raises TimeoutError, or the error with which the record has
        failed.

        timeout: seconds; None waits until the record is done.
        """
        await self._settled(timeout)
        return self._delivery.result(0)

    async def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Wait until the record is written or has failed; return the error, or None if it is written. timeout: as for result(). Raises
        TimeoutError when the time is over.
        """
        await self._settled(timeout)
        return self._delivery.exception(0)

    async def _settled(self, timeout: float | None) -> None:
        if not self._delivery.done():
            try:
                await self._driver.wait(self._delivery.promise, timeout, f"{self._delivery.tp}: the acknowledgement of a record")
            except TimeoutError as late:
                mark_under_way(late)
                raise

    def __repr__(self) -> str:
        return repr(self._delivery)


class ArrowDelivery(arrow_delivery.ArrowOutcomes):
    """A handle for the results of all rows of one call of send_arrow() or send_sealed(); `await` it for the ArrowReport."""

    def __init__(self, topic: str, driver: Driver) -> None:
        super().__init__(topic)
        self._driver = driver

    def __await__(self) -> Generator[Any, None, ArrowReport]:
        return self.result().__await__()

    async def result(self, timeout: float | None = None) -> ArrowReport:
        """Wait for all rows and return an ArrowReport. Raises the error of the first failed row, or TimeoutError.

        timeout: seconds, as in the methods below; None waits until all rows are done.
        """
        error = await self.exception(timeout)
        if error is not None:
            raise error.with_traceback(None)
        return self.counts()

    async def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Wait for all rows and return the error of the first failed row; None if all rows are written."""
        await self._settled(timeout)
        return self.first_error()

    async def report(self, timeout: float | None = None) -> ArrowReport:
        """Wait for all rows and return an ArrowReport. Failed rows raise nothing."""
        await self._settled(timeout)
        return self.counts()

    async def to_arrow(self, timeout: float | None = None) -> Any:
        """Wait for all rows and return a pyarrow.RecordBatch with the columns row, partition, offset and error, in the order of the rows.

        Like levada.ArrowDelivery.to_arrow(). Failed rows raise nothing.
        """
        await self._settled(timeout)
        return self.table()

    async def _settled(self, timeout: float | None) -> None:
        if not self.done():
            try:
                await self._driver.run(wait_for_all(self.promises), timeout, self.waits_for)
            except TimeoutError as late:
                mark_under_way(late)
                raise
