"""scan() on asyncio: reads a bounded part of topics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

from levada.aio.connect import connect
from levada.aio.connect import start as start_driver
from levada.aio.dead_letters import posting
from levada.aio.driver import Driver
from levada.api.consumer.dead_letters import of_decode_errors
from levada.api.engine_setup import Connector
from levada.api.scan import ScanReading, ScanRequest, scan_request
from levada.base.unsupported_names import asynchronous
from levada.consumer.scan.scanning import Loss
from levada.errors import KafkaError
from levada.types import ConsumerRecord, K, V

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow as pa

    from levada.api.scan import ScanArguments

__all__ = ["Loss", "Scan", "scan"]


@asynchronous
class Scan(Generic[K, V]):
    """A read of ranges of topics, returned by scan().

    Each iteration reads from the start, over its own connections. A scan can be pickled.
    """

    def __init__(self, request: ScanRequest, connect: Connector[Driver]) -> None:
        self._request = request
        self._connect = connect

    @property
    def losses(self) -> list[Loss]:
        """The records that the last iteration has skipped because they are lost."""
        return self._request.plan.losses

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord[K, V]]:
        """Yield the records, in order within each partition."""
        async with _Reading(self._request, self._connect) as reading:
            while (records := await reading.driver.call(reading.flows.records())) is not None:
                for record in records:
                    yield record

    async def arrow(self) -> AsyncIterator[pa.RecordBatch]:
        """Yield Arrow record batches with the records, each with as many as batch_rows and batch_bytes allow."""
        sink = self._request.sink()
        async with _Reading(self._request, self._connect) as reading:
            while (batch := await reading.driver.call(reading.flows.batch(sink))) is not None:
                yield batch

    async def to_table(self) -> pa.Table:
        """Return all records as one Arrow table."""
        batches = [batch async for batch in self.arrow()]
        # Only now, because a schema registry was asked while reading, and not on the event loop.
        empty = self._request.schema.empty_table()
        return type(empty).from_batches(batches, empty.schema)

    async def splits(self, *, rows: int | None = None, bytes: int | None = None) -> list[Scan[K, V]]:
        """Return scans of the parts of this scan, in order; together they read the same records. Like levada.Scan.splits()."""
        async with _Reading(self._request.sampling(), self._connect) as reading:
            parts = await reading.driver.call(reading.flows.splits(self._request, rows, bytes))
        return [Scan(part, self._connect) for part in parts]


def scan(
    topics: str | Iterable[str] | None = None,
    config: Mapping[str, Any] | None = None,
    /,
    *,
    _connect: Connector[Driver] = connect,
    **arguments: Unpack[ScanArguments[K, V]],
) -> Scan[K, V]:
    """Read ranges of topics that have an end. Like levada.scan(), with `async for`, and `await` for to_table()."""
    return Scan(scan_request(topics, config, **arguments), _connect)


class _Reading:
    """One iteration of a scan."""

    def __init__(self, request: ScanRequest, connect: Connector[Driver]) -> None:
        post = posting(of_decode_errors(request.config, awaited=True))
        engine, self.driver = connect(request.config, "scan")
        self.flows = ScanReading(request, engine, self.driver, engine.random, post)
        start_driver(self, self.driver)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.driver.has_ended():
            return
        try:
            await self.driver.call(self.flows.close())
        except KafkaError:
            # Brokers that cannot be reached drop a fetch session by themselves.
            pass
        finally:
            self.driver.close()
