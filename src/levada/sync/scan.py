"""scan(): reads a bounded part of topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, Generic

from levada.api.consumer.dead_letters import of_decode_errors
from levada.api.engine_setup import Connector
from levada.api.scan import ScanReading, ScanRequest, scan_request
from levada.consumer.scan.scanning import Loss, ScanProgress
from levada.errors import KafkaError
from levada.sync.connect import connect
from levada.sync.connect import start as start_driver
from levada.sync.dead_letters import posting
from levada.sync.driver import Driver
from levada.types import ConsumerRecord, K, V

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow as pa

    from levada.api.scan import ScanArguments

__all__ = ["Loss", "Scan", "ScanProgress", "scan"]


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

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Yield the records, in order within each partition."""
        with closing(_Reading(self._request, self._connect)) as reading:
            while (records := reading.driver.call(reading.flows.records())) is not None:
                yield from records

    def arrow(self) -> Iterator[pa.RecordBatch]:
        """Yield Arrow record batches with the records, each with as many as batch_rows and batch_bytes allow."""
        sink = self._request.sink()
        with closing(_Reading(self._request, self._connect)) as reading:
            while (batch := reading.driver.call(reading.flows.batch(sink))) is not None:
                yield batch

    def to_table(self) -> pa.Table:
        """Return all records as one Arrow table."""
        empty = self._request.schema.empty_table()
        return type(empty).from_batches(self.arrow(), empty.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a pyarrow.RecordBatchReader, which reads while it is used: for pyarrow.dataset.write_dataset(), DuckDB, DataFusion, ..."""
        return self._request.reader(self.arrow())

    def splits(self, *, rows: int | None = None, bytes: int | None = None) -> list[Scan[K, V]]:
        """Return scans of the parts of this scan, in order; together they read the same records. They can be pickled, for other processes.

        rows: the maximum number of offsets of a part; there may be fewer records, because of compaction and transactions. bytes: the
        approximate size of a part in the log, estimated from the first records of each partition. Give one of them. Bounds are looked up at
        the brokers once. A part has one partition, or several small ones. Parts have no progress callback. The deserializers must be such
        that they can be pickled.
        """
        with closing(_Reading(self._request.sampling(), self._connect)) as reading:
            parts = reading.driver.call(reading.flows.splits(self._request, rows, bytes))
        return [Scan(part, self._connect) for part in parts]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the columns to other libraries, for example polars.DataFrame(scan). Each call reads from the start, over its own
        connections.
        """
        return self._request.stream(self.arrow(), requested_schema)


def scan(
    topics: str | Iterable[str] | None = None,
    config: Mapping[str, Any] | None = None,
    /,
    *,
    _connect: Connector[Driver] = connect,
    **arguments: Unpack[ScanArguments[K, V]],
) -> Scan[K, V]:
    """Read ranges of topics that have an end.

    Iterate over the result for records, or over its arrow() for pyarrow.RecordBatch. Or call its to_table(), or pass it to a function that
    accepts Arrow's C stream interface, such as polars.DataFrame() or a query of DuckDB.

    start, end: "earliest", "latest", a time (the first record at or after it), or a mapping from partition (a TopicPartition, or a number
    where there is one topic) to one of these or to an offset. A time is an aware datetime, text such as "2026-01-31T12:00Z", or text such
    as "-1h30m" for a time before now (units s, m, h, d, w). By default, and for partitions that a mapping leaves out, the range is the
    whole log. end is exclusive, and looked up once, when reading begins. assignments: the partitions to read, each with its start and end,
    instead of topics. A range that ends before it begins is refused; if only the log can tell, nothing of the range is read, and a warning
    is logged.

    partitions: the partitions to read, as numbers or TopicPartitions. keys: only records with one of these keys, bytes, str or None.
    timestamps: only records from the first time on and before the second; each is a time as above, a number of milliseconds since the
    epoch, or None for no limit. Reading begins at the first record that is not too old. Records that keys and timestamps leave out are not
    deserialized.

    columns, text: like in poll_arrow(); columns for which there is a deserializer raise IllegalStateError, because deserializers are for
    records only. batch_rows, batch_bytes: the size at which an Arrow batch is full; by default 65,536 rows and 16
    MiB. progress: called with a ScanProgress after each step, in the thread that reads; an exception that it raises ends the scan.

    value_format, value_schema, schema_registry_url and others: keys and values become typed columns (docs/howto/formats.md).

    on_data_loss: "raise", the default, raises DataLossError if records between start and end are lost; "skip" continues after them, and
    adds them to Scan.losses. If a new leader has replaced records (KIP-320), "skip" continues with the first record that differs, so
    offsets may come twice, up to the end of the new log. If the first difference is not known, and in a topic that was created again, the
    rest of the range counts as lost.

    Other arguments are the consumer's settings. TimeoutError is raised if no position moves for default.api.timeout.ms.
    """
    return Scan(scan_request(topics, config, **arguments), _connect)


class _Reading:
    """One iteration over a scan, from its first fetch to its end. It has its own engine, driver and connections."""

    def __init__(self, request: ScanRequest, connect: Connector[Driver]) -> None:
        post = posting(of_decode_errors(request.config, awaited=False))
        engine, self.driver = connect(request.config, "scan")
        self.flows = ScanReading(request, engine, self.driver, engine.random, post)
        start_driver(self, self.driver)

    def close(self) -> None:
        """Close the connections."""
        try:
            self.driver.check_usable()
            self.driver.call(self.flows.close())
        except KafkaError:
            # Brokers that cannot be reached drop a fetch session by themselves.
            pass
        finally:
            self.driver.close(None)
