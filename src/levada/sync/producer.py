"""KafkaProducer: records and columns into topics, from any number of threads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from levada.client.locked_flow import LockedFlow, unlocked
from levada.clock import epoch_ms
from levada.config import ProducerConfig
from levada.errors import ClosedError, ForkedError, KafkaError
from levada.face.arguments import deadline_ms, header_pairs, topic_name, whole
from levada.face.process import HoldsConnections
from levada.not_yet import PRODUCER, lacks
from levada.producer.arrow_delivery import ArrowDelivery
from levada.producer.delivery import Delivery, FailedSend
from levada.producer.partition_queue import TopicQueues
from levada.producer.producer_batch import DeliveryCallback, ProducerBatch
from levada.producer.record_accumulator import ToSend
from levada.record.compression import Codec
from levada.serialization import to_bytes
from levada.sync.delivery_wait import DeliveryWait
from levada.sync.dropped import start
from levada.sync.producer_settings import build
from levada.types import Headers, PartitionInfo

if TYPE_CHECKING:
    from levada.record.columnar import EncodedBatch

T = TypeVar("T")

log = logging.getLogger(__name__)

ARROW_BATCH_SIZE = 256 * 1024
"""Columns come all at once, so batches need not stay small for latency; a batch.size that was set is respected."""
ERROR_EXIT_S = 5.0
"""How long leaving a `with` block by an exception waits for records."""
LAST_CALLBACKS_S = 0.5
"""How long close() waits for callbacks when its time is over."""


@lacks(PRODUCER)
class KafkaProducer(HoldsConnections):
    """Sends records. Idempotent and acks=all unless told otherwise; records of a partition are written once and in order.

    Settings are Kafka's, dotted in a mapping or with underscores as keywords; see docs/CONFIGURATION.md. All methods may be called from
    any thread; timeouts are in seconds. Every method but close() raises ClosedError after close(), ForkedError in a child process.
    Leaving a `with` block closes the producer: it waits for all records, after an exception for at most 5 seconds.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, /, **settings: Any) -> None:
        self._config = ProducerConfig.parse(config, **settings)
        self._core, self._driver = build(self._config)
        self._wait_for = DeliveryWait(self._driver)
        self._core.wait_with(self._wait_for.one)
        self._lock = self._driver.lock
        self._append: Callable[..., Delivery | None] = self._core.append
        self._wall_ms = self._driver.wall_ms
        start(self, self._driver)

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
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

        Waits, up to max.block.ms, only for metadata of a new topic and for room in buffer.memory. What the cluster or the limits have
        against the record comes through the handle and the callback: TimeoutError, BufferExhaustedError, RecordTooLargeError,
        UnknownTopicOrPartitionError, DeliveryTimeout, ... Wrong arguments are raised: SerializationError, ValueError, TypeError.
        """
        delivery = self._append(topic, value, key, partition, timestamp, headers, on_delivery)
        if delivery is None:
            delivery = self._send_slowly(topic, value, key, partition, timestamp, headers, on_delivery)
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

        Returns the rows' outcomes. A row that cannot be sent (too large, no such partition, a negative time, a header without key) fails
        alone, named by its number. Waits for metadata and, with every batch, for room in buffer.memory, up to max.block.ms. When that was
        not enough once, it waits no more: rows for which there is no room fail with BufferExhaustedError.
        Raises at once, with nothing sent: TimeoutError, UnknownTopicOrPartitionError, SerializationError for columns that do not fit,
        ValueError when neither key, value nor headers name a column. What reading the data raises comes through as it is; rows read before
        may have been sent by then.
        """
        from levada.record.columnar import encode_columns

        self._driver.check_usable()
        config = self._config
        if key is None and value is None and headers is None:
            raise ValueError(
                f"nothing to send to topic {topic!r}: name the columns, as in send_arrow(topic, data, key='id', value='payload')"
            )
        queues = self._await_topic(topic)
        delivery = ArrowDelivery(topic, self._wait_for.all)
        batches, rejected = encode_columns(
            data,
            key=key,
            value=value,
            headers=headers,
            timestamp=timestamp,
            partition=partition,
            partition_count=queues.count,
            choose_rows=self._core.partitioning.for_rows(topic, queues.count),
            hash_keys=not self._core.partitioning.ignores_keys,
            next_sticky_partition=lambda: self._next_sticky(queues),
            codec=Codec.parse(config.compression_type),
            level=config.compression_level,
            batch_size=config.batch_size if "batch.size" in config.given else min(ARROW_BATCH_SIZE, config.max_request_size),
            max_record_size=min(config.max_request_size, config.buffer_memory),
            now_ms=self._wall_ms(),
        )
        patient = True
        for batch in batches:
            outcome = self._append_sealed(queues, batch, patient=patient)
            patient = patient and not isinstance(outcome, FailedSend)
            delivery.add(outcome, batch.rows)
        delivery.reject(rejected)
        return delivery

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Describe a topic's partitions, waiting up to max.block.ms for metadata. Raises UnknownTopicOrPartitionError, TimeoutError."""
        self._driver.check_usable()
        name = topic_name(topic)
        return self._call(lambda now_ms: self._core.appending.partitions_for(name, now_ms))

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now and wait until each record sent before is acknowledged or has failed.

        Failures are told by the records' handles, not here. Raises TimeoutError, and IllegalStateError in an on_delivery callback, where it
        would wait for itself.
        """
        self._refuse_in_callback("flush()")
        self._driver.run(self._core.flush(), timeout, "flush()")

    def close(self, timeout: float | None = None) -> None:
        """Wait until all records are acknowledged or have failed, then close every connection. Idempotent.

        timeout: seconds; then what is left fails with ClosedError. None leaves it to delivery.timeout.ms. From a callback nothing is waited
        for. In a forked child this does nothing.
        """
        try:
            self._driver.check_usable()
        except (ForkedError, ClosedError):
            return
        except KafkaError:
            log.warning("the producer had stopped before it was closed; unsent records are lost")
        over_ms = deadline_ms(self._driver.now_ms(), timeout)
        with self._lock:
            self._core.close()
        self._drain(0 if self._driver.in_callback else timeout)
        with self._lock:
            self._core.abort()
        # What was just aborted has callbacks too; without a timeout the thread is waited for as long as they take.
        left_s = max((over_ms - self._driver.now_ms()) / 1000, LAST_CALLBACKS_S)
        self._driver.close(None if timeout is None else left_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(None if error is None else ERROR_EXIT_S)

    # Sending

    def _send_slowly(
        self, topic: str, value: Any, key: Any, partition: int | None, timestamp: Any, headers: Any, on_delivery: DeliveryCallback | None
    ) -> Delivery:
        """Send where it takes metadata, memory, or the conversion of an argument (K3, K4)."""
        self._driver.check_usable()
        config = self._config
        value = to_bytes(value, "value", config.value_serializer)
        key = to_bytes(key, "key", config.key_serializer)
        timestamp = self._wall_ms() if timestamp is None else epoch_ms(timestamp)
        pairs = () if not headers else header_pairs(headers)
        if partition is not None or config.partitioner is not None:
            partition = self._partition(topic, partition, key)
        record = ToSend(topic_name(topic), partition, key, value, pairs, timestamp, on_delivery)
        may_wait = not self._driver.in_callback
        return self._call(lambda now_ms: self._core.appending.send(record, now_ms, may_wait=may_wait))

    def _await_topic(self, topic: str) -> TopicQueues:
        name = topic_name(topic)
        return self._call(lambda now_ms: self._core.appending.await_topic(name, None, now_ms))

    def _call(self, begin: Callable[[int], LockedFlow[T]]) -> T:
        return self._driver.call(unlocked(begin, self._driver, self._core.network))

    def _append_sealed(self, topic: TopicQueues, batch: EncodedBatch, *, patient: bool) -> ProducerBatch | FailedSend:
        may_wait = patient and not self._driver.in_callback
        send = self._core.appending.send_sealed
        return self._call(lambda now_ms: send(topic, batch.partition, batch.data, batch.record_count, now_ms, may_wait=may_wait))

    def _partition(self, topic: str, partition: int | None, key: bytes | None) -> int | None:
        if partition is None:
            return self._core.partitioning.for_record(topic, key, self._await_topic(topic).count)
        partition = whole("partition", partition)
        if partition < 0:
            raise ValueError(f"partition {partition} of topic {topic!r}: partitions are numbered from 0")
        return partition

    def _next_sticky(self, topic: TopicQueues) -> int:
        with self._lock:
            return self._core.accumulator.next_sticky(topic, self._driver.now_ms())

    # Waiting

    def _drain(self, timeout: float | None) -> None:
        if timeout == 0:
            return
        try:
            self._driver.run(self._core.flush(), timeout, "close()")
        except KafkaError as error:
            log.warning("close() gives up records that were not acknowledged: %s", error)

    def _refuse_in_callback(self, what: str) -> None:
        self._wait_for.refuse_in_callback(what)
