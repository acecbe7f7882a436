"""KafkaProducer: records and columns into topics, from any number of threads."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

from levada.config import ProducerConfig
from levada.errors import ClosedError, CrashedError, ForkedError, IllegalStateError
from levada.face.engines import Connector
from levada.face.process import HoldsConnections
from levada.face.producing import LAST_CALLBACKS_S, Producing, engine_settings
from levada.flow import CallerFlow
from levada.not_yet import PRODUCER, lacks
from levada.producer.arrow_delivery import ArrowDelivery
from levada.producer.delivery import Delivery
from levada.producer.producer_batch import DeliveryCallback
from levada.serialization import K_in, V_in
from levada.sync.connect import connect
from levada.sync.delivery_wait import DeliveryWait
from levada.sync.driver import Driver
from levada.sync.dropped import start
from levada.types import Headers, PartitionInfo

if TYPE_CHECKING:
    from typing import Unpack

    from levada.config.typed import ProducerSettings

log = logging.getLogger(__name__)


@lacks(PRODUCER)
class KafkaProducer(HoldsConnections, Generic[K_in, V_in]):
    """Sends records. Idempotent and acks=all unless told otherwise; records of a partition are written once and in order.

    Settings are Kafka's, dotted in a mapping or with underscores as keywords; see docs/CONFIGURATION.md. All methods may be called from
    any thread; timeouts are in seconds. Every method but close() raises ClosedError after close(), ForkedError in a child process.
    Leaving a `with` block closes the producer: it waits for all records, after an exception for at most 5 seconds, and Ctrl-C then ends it
    at once.

    To type checkers its parameters are the types that the serializers take, or Any: KafkaProducer[str, bytes] says what is sent.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        _connect: Connector[Driver] = connect,
        **settings: Unpack[ProducerSettings[K_in, V_in]],
    ) -> None:
        parsed = ProducerConfig.parse(config, **settings)
        engine, driver = _connect(parsed, "producer", **engine_settings(parsed))
        self._driver = driver
        self._producing = producing = Producing(parsed, engine, driver, random=engine.random)
        self._core = producing.core
        self._append = producing.append
        self._wait_for = DeliveryWait(driver, producing)
        self._core.wait_with(self._wait_for.one)
        driver.when_dropped = lambda: producing.end_by_itself(driver.name)
        start(self, driver)

    def send(
        self,
        topic: str,
        value: V_in | None = None,
        key: K_in | None = None,
        *,
        partition: int | None = None,
        timestamp: int | datetime | None = None,
        headers: Headers | Mapping[str, bytes | None] | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> Delivery:
        """Put a record on its way; return a handle on its outcome.

        value, key: bytes-like, str (as UTF-8), None, or whatever the configured serializer takes. partition: None lets the key decide, and
        without a key spreads records. timestamp: milliseconds since the epoch or an aware datetime, default now. headers: pairs of name
        and bytes or None. on_delivery: called with (RecordMetadata, error or None) on the client's own thread; it must be quick.

        Waits, up to max.block.ms, only for metadata of a new topic, for a partition that does not exist yet, and for room in buffer.memory.
        What the cluster or the limits have against the record comes through the handle and the callback: TimeoutError,
        BufferExhaustedError, RecordTooLargeError, UnknownTopicOrPartitionError, DeliveryTimeout, ... Wrong arguments are raised:
        SerializationError, ValueError, TypeError.
        """
        delivery = self._append(topic, value, key, partition, timestamp, headers, on_delivery)
        if delivery is None:
            record = self._producing.record(topic, value, key, partition, timestamp, headers, on_delivery)
            delivery = self._driver.call(self._producing.send(record))
        return delivery

    def send_arrow(
        self,
        topic: str,
        data: Any,
        *,
        key: str | None = None,
        value: str | None = None,
        headers: str | None = None,
        timestamp: str | None = None,
        partition: str | None = None,
    ) -> ArrowDelivery:
        """Send every row of Arrow data: a Table, a RecordBatch, a polars or pandas frame, a DuckDB query, anything with __arrow_c_stream__.

        key ... partition: names of columns; what is not named, or null, is null, none, now, or chosen as in send(). Keys and values are
        binary or string, headers list<struct<key, value>> or map, timestamps those of any unit and zone, dates or integer milliseconds,
        partitions integers; each may be sliced, chunked, behind a dictionary, in runs or views. Data are read piece by piece.

        Rows share batches with the records of send(), and wait for linger.ms as they do.

        Returns the rows' outcomes. A row that cannot be sent (too large, no such partition, a negative time, a header without key) fails
        alone, named by its number. Waits for metadata and, with every batch, for room in buffer.memory, up to max.block.ms. When that was
        not enough once, it waits no more: rows for which there is no room fail with BufferExhaustedError.
        Raises at once, with nothing sent: TimeoutError, UnknownTopicOrPartitionError, ClosedError, SerializationError for columns that do
        not fit, ValueError when neither key, value nor headers name a column. Once rows were taken, the rest fails with such an error, as
        after a close() meanwhile, and those taken have their own outcomes. What reading the data raises comes through as it is; rows read
        before may have been sent by then.
        """
        columns = {"key": key, "value": value, "headers": headers, "timestamp": timestamp, "partition": partition}
        delivery = ArrowDelivery(topic, self._wait_for.all)
        self._driver.call(self._producing.send_arrow(topic, data, columns, delivery))
        return delivery

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Describe a topic's partitions, waiting up to max.block.ms for metadata. Raises UnknownTopicOrPartitionError, TimeoutError."""
        return self._driver.call(self._producing.partitions_for(topic))

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until each record sent before is acknowledged or has failed.

        The handles and callbacks of the records report failures. One warning gives the number of failures that the program has not looked
        at. Raises TimeoutError, and IllegalStateError in an on_delivery callback, where it would wait for itself.
        """
        self._producing.refuse_in_callback("flush()")
        self._driver.call(self._producing.flush(timeout))

    def close(self, timeout: float | None = None) -> None:
        """Wait until all records are acknowledged or have failed, then close every connection. Idempotent.

        timeout: seconds; then what is left fails with ClosedError. None leaves it to delivery.timeout.ms. From a callback nothing is waited
        for; nor in a finalizer that interrupts the producer's own work, after which the records are still sent. One warning gives the
        number of failures that the program has not looked at. In a forked child this does nothing.
        """
        self._end(self._producing.close(timeout), timeout)

    def _end(self, closing: CallerFlow[float | None], timeout: float | None) -> None:
        try:
            self._driver.check_usable()
        except (ForkedError, ClosedError):
            return
        except CrashedError:
            log.warning("the producer had stopped before it was closed; unsent records are lost")
            self._driver.close(timeout)
            return
        except IllegalStateError:
            # What has to be waited for is this thread's own work. The client's thread sends what is left, and then closes.
            self._driver.abandon()
            return
        self._driver.close(self._driver.call(closing))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self._leave()
            return
        try:
            self.close()
        except BaseException:
            # Ctrl-C, or another signal's handler that raises, broke the wait off.
            self._leave()
            raise

    def _leave(self) -> None:
        try:
            self._end(self._producing.leave(), LAST_CALLBACKS_S)
        except BaseException:
            self._driver.close(LAST_CALLBACKS_S)
            raise
