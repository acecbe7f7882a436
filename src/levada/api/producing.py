"""What KafkaProducer does in both APIs: arguments become records and flows, which any driver runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from levada.ack_buffer import AckWindow
from levada.api.arguments import deadline_ms, header_pairs, topic_name, whole
from levada.api.columns import importing_columns
from levada.api.interception import ArrowHeaders, Interceptors
from levada.api.lifecycle import HandedOver
from levada.api.reporting import Reporting
from levada.api.waiting import run_flow
from levada.base.asking import ID_HEADERS, AsksRegistry
from levada.base.clock import NEVER_MS, epoch_ms
from levada.base.flow import CallerFlow, Compute, Flow
from levada.client.engine import Engine
from levada.config import ProducerConfig
from levada.errors import ConfigError, FlushTimeout, IllegalStateError, KafkaError, SerializationError, TimeoutError, not_written
from levada.interceptors import ProducerRecord
from levada.producer.append.appender import batch_memory, is_ack
from levada.producer.append.partition_queue import TopicQueues
from levada.producer.append.partitioning import STICKY, Partitioning
from levada.producer.append.producer_batch import Ack, DeliveryCallback
from levada.producer.append.record_accumulator import ToSend
from levada.producer.append.sealed import checked
from levada.producer.append.slow_path import Limit
from levada.producer.core import ProducerCore, ProducerHost, left_behind, needs_end
from levada.producer.delivery.arrow_delivery import ArrowOutcomes
from levada.producer.delivery.delivery import Delivery
from levada.producer.delivery.joint_ack import settle_all, when_settled
from levada.producer.settings import ProducerSettings
from levada.record.compression import Codec
from levada.serialization import BytesWithHeaders, Serializer, to_bytes
from levada.types import Headers, HeadersIn, PartitionInfo, SealedBatch

if TYPE_CHECKING:
    from levada.record.columnar import PartitionRows, RejectedRow

T = TypeVar("T")

ERROR_EXIT_S = 5.0
"""How long a `with` block that ends with an exception waits for records."""
QUIET_EXIT_S = 0.5
"""After how long that wait is logged."""
NOT_WAITED_FOR = "not waited for"
BROKEN_OFF = "the wait was broken off"
LAST_CALLBACKS_S = 0.5
"""How long close() waits for callbacks after its timeout."""
LONGEST_END_MS = 10_000
"""How long a producer still sends after it was dropped without close(), or while the interpreter exits."""


class CallbackHost(ProducerHost, Protocol):
    """A driver that knows whether the calling thread or task runs callbacks of the program."""

    @property
    def in_callback(self) -> bool:
        """Whether the calling thread or task is the one that runs the program's callbacks."""
        ...


class Producing:
    """The calls of a producer, for both the synchronous and the asyncio API. host: the driver that runs them."""

    def __init__(self, config: ProducerConfig, engine: Engine, host: CallbackHost, *, random: Random) -> None:
        self.config = config
        self.log = engine.log(__name__)
        self.core = _core(config, engine, host, random)
        self._engine = engine
        self._host = host
        self._lock = host.lock
        self.append: Callable[..., Delivery | None] = self.core.append
        self._append_bytes: Callable[..., Delivery | None] = self.core.accumulator.appender.append
        self._knows: Callable[[Any], bool] = self.core.accumulator.appender.knows
        self._interceptors = Interceptors(config.interceptors, self.log, engine.network.client_id)
        plain = not self._interceptors
        self.core.plain(keys=plain and config.key_serializer is None, values=plain and config.value_serializer is None)
        self._subject_topics = _subject_topics(config)
        self._other_topics: set[str] = set()
        """Topics of which it was warned that a serializer is for another one."""
        given = [*config.interceptors, config.key_serializer, config.value_serializer, config.partitioner]
        self.handed_over = HandedOver(given, self.log)
        self.serializers = config.key_serializer, config.value_serializer
        # A record may be sent on with the headers that it was read with. Readers would take the old schema's id for that of the new one.
        self._id_headers = [name for name, one in zip(ID_HEADERS, self.serializers, strict=True) if isinstance(one, AsksRegistry)]
        self._wall_ms = host.wall_ms
        self._writers: dict[str, tuple[Any, Any]] = {}
        """By topic, the last arguments of send_arrow() about formats, and the formats that they make."""
        self.reporting = Reporting(config, engine, host, "producer", self.core)

    # Records

    def record(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp: int | datetime | None,
        headers: HeadersIn | None,
        on_delivery: DeliveryCallback | None,
        ack: Ack | None,
        serializers: tuple[Serializer | None, Serializer | None] | None = None,
    ) -> ToSend:
        """Return the arguments of send() as a record to append. Called if append() has returned None.

        serializers: of the key and of the value, in place of the configured ones.

        Interceptors and serializers run here and, if metadata has the topic, the partitioner: before the call of send() begins to wait,
        while signal handlers run as usual.
        """
        self.check_usable()
        serializers = serializers or self.serializers
        if not self._interceptors:
            return self._to_send(topic, value, key, partition, timestamp, headers, on_delivery, ack, serializers)
        record = self._interceptors.on_send(ProducerRecord(topic, value, key, partition, timestamp, headers))
        try:
            self._check_callback(on_delivery)
            return self._to_send(*record, self._interceptors.before(on_delivery, record.headers), ack, serializers)
        except Exception as error:
            self._interceptors.on_send_error(record, error)
            raise

    def _to_send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp: int | datetime | None,
        headers: HeadersIn | None,
        on_delivery: DeliveryCallback | None,
        ack: Ack | None,
        serializers: tuple[Serializer | None, Serializer | None],
    ) -> ToSend:
        """Serialize a record and check the arguments of send()."""
        key_serializer, value_serializer = serializers
        value = to_bytes(value, "value", value_serializer)
        key = to_bytes(key, "key", key_serializer)
        timestamp = self._wall_ms() if timestamp is None else epoch_ms(timestamp)
        pairs: Headers = () if not headers else header_pairs(headers)
        if pairs and self._id_headers:
            pairs = [pair for pair in pairs if pair[0] not in self._id_headers]
        if isinstance(value, BytesWithHeaders):
            value, pairs = _taken(value, pairs, "value")
        if isinstance(key, BytesWithHeaders):
            key, pairs = _taken(key, pairs, "key")
        self._check_callback(on_delivery)
        _check_ack(ack)
        if partition is not None:
            partition = whole("partition", partition)
            if partition < 0:
                raise ValueError(f"partition {partition} of topic {topic!r}: partitions are numbered from 0")
        sent = ToSend(topic_name(topic), partition, key, value, pairs, timestamp, on_delivery, ack)
        if self._subject_topics:
            self._check_subjects(sent.topic)
        known = self.core.accumulator.topics.get(sent.topic)
        return sent if known is None or not known.count else self._placed(sent, known.count)

    def _check_subjects(self, topic: str) -> None:
        """Log a warning, once, about a topic that a serializer of a schema registry is not made for."""
        if topic in self._other_topics:
            return
        for name, own in self._subject_topics:
            if topic != own:
                self._other_topics.add(topic)
                text = "topic '%s': the %s was made with topic='%s', whose subject its schema has; make a serializer for each"
                self.log.warning(text, topic, name, own, topic=topic)

    def _check_callback(self, on_delivery: Any) -> None:
        if on_delivery is not None and not self._knows(on_delivery):
            raise _refusal_of_callback(on_delivery)

    def try_append(self, record: ToSend) -> Delivery | None:
        """Append a record of record() to an open batch, without the engine's lock where that is possible.

        Return None if send() has to do it, which can wait.
        """
        if record.partition is None and self.config.partitioner is not None:
            return None
        # Python code of a subclass would run while the batch changes.
        if (record.key is not None and type(record.key) is not bytes) or (record.value is not None and type(record.value) is not bytes):
            return None
        try:
            return self._append_bytes(record.topic, STICKY if record.partition is None else record.partition, *record[2:])
        except Exception as error:
            with self._host.user_code():
                self._interceptors.on_send_error(record, error)
            raise

    def send(self, record: ToSend) -> CallerFlow[Delivery]:
        """Append a record for which the call has to wait for metadata or memory, or to run the program's partitioner."""
        # If metadata had the topic already, the record has its partition.
        place = None if record.partition is not None or self.config.partitioner is None else self._placed_by_user_code
        try:
            return (yield from self.core.appending.send(record, place, may_wait=not self._host.in_callback))
        except Exception as error:
            with self._host.user_code():
                self._interceptors.on_send_error(record, error)
            raise

    def _placed(self, record: ToSend, count: int) -> ToSend:
        """Return a record with the partition that the program's partitioner chooses. Without a partitioner, or with a partition, return it
        unchanged.
        """
        if record.partition is not None or self.config.partitioner is None:
            return record
        return record._replace(partition=self.core.partitioning.for_record(record.topic, record.key, count))

    def _placed_by_user_code(self, record: ToSend, count: int) -> ToSend:
        with self._host.user_code():
            return self._placed(record, count)

    def await_topic(self, topic: str) -> CallerFlow[TopicQueues]:
        """Wait until metadata has a topic, at most max.block.ms, and return the topic's queues. A callback does not wait."""
        self.check_usable()
        deadline_ms = self.core.appending.deadline_ms(may_wait=not self._host.in_callback)
        return self.core.appending.await_topic(topic_name(topic), None, deadline_ms)

    def partitions_for(self, topic: str, timeout: float | None) -> CallerFlow[list[PartitionInfo]]:
        """Describe a topic's partitions. timeout: seconds, None for max.block.ms."""
        self._host.check_usable()
        name = topic_name(topic)
        if timeout is None:
            return self.core.appending.partitions_for(name)
        return self.core.appending.partitions_for(name, deadline_ms(self._host.now_ms(), timeout), Limit(f"{timeout:g} s", timeout))

    def check_usable(self) -> None:
        """Raise an error if the producer cannot take records now."""
        try:
            self._host.check_usable()
        except KafkaError as error:
            not_written(error)
            raise

    def check_ack(self, ack: Any) -> None:
        """Raise an error for an `ack` that send_many() could not settle. Called before anything is sent."""
        _check_ack(ack)

    def settle_all(self, ack: Ack, sent: Sequence[Delivery]) -> None:
        """Settle a sequence of an AckBuffer once all of these records are acknowledged or have failed."""
        self._host.change(lambda now_ms: settle_all(ack, sent))

    # Columns

    def send_arrow(
        self,
        topic: str,
        data: Any,
        columns: Mapping[str, str | Sequence[str] | None],
        delivery: ArrowOutcomes,
        ack: Ack | None,
        formats: Mapping[str, Any],
    ) -> CallerFlow[None]:
        """Send every row of Arrow data. columns: the name of the column for each of key, value, headers, timestamp and partition, or None.

        delivery: gets the results of the rows. ack: is settled when all results are known. formats: arguments about formats.
        """
        self.check_usable()
        self._check_no_serializers("send_arrow()", {side: None if f"{side}_format" in formats else columns[side] for side in columns})
        if formats:
            data, columns = yield from self._encoded(topic, data, columns, formats)
        yield from self._send_arrow(topic, data, columns, delivery, ack)

    def _encoded(
        self, topic: str, data: Any, columns: Mapping[str, str | Sequence[str] | None], formats: Mapping[str, Any]
    ) -> CallerFlow[tuple[Any, Mapping[str, str | None]]]:
        """Return the data with encoded keys or values, and the names of their columns. The registry is asked once for equal arguments."""
        with importing_columns():
            from levada.formats.encoding import encoded
            from levada.formats.options import writers
        topic_name(topic)
        try:
            asked, pinned = self._writers.get(topic, (None, None))
            if asked != formats:
                chosen = writers(formats, topic)
                if missing := [side for side in chosen if columns[side] is None]:
                    raise ConfigError(f"{missing[0]}_format is for the column that {missing[0]} names; name one")
                pinned = yield Compute(lambda: {side: one.pinned() for side, one in chosen.items()}, may_block=True)
                self._writers[topic] = formats, pinned
            # A column with a format may also be several columns, by their names.
            is_made = {role: f"{role}_format" in formats and isinstance(given, Sequence | None) for role, given in columns.items()}
            _check_column_names("send_arrow()", topic, {role: "" if is_made[role] else given for role, given in columns.items()})
            # Not those of `_writers`: another thread may have replaced them.
            table, names = yield Compute(partial(encoded, data, columns, pinned), may_block=True)
        except KafkaError as error:
            not_written(error)
            raise
        return table, names

    def _send_arrow(self, topic: str, data: Any, columns: Mapping[str, Any], delivery: ArrowOutcomes, ack: Ack | None) -> CallerFlow[None]:
        try:
            self._interceptors.check_columns()
        except IllegalStateError as refused:
            raise not_written(refused) from None
        _check_column_names("send_arrow()", topic, columns)
        _check_ack(ack)
        if not self._interceptors:
            return (yield from self._send_rows(topic, data, columns, delivery, ack, ()))
        with self._host.user_code():
            given = self._interceptors.on_send_arrow(topic)
        failed: Exception | None = None
        try:
            yield from self._send_rows(topic, data, columns, delivery, ack, [pair for _, headers in given for pair in headers])
        except Exception as error:
            failed = error
            raise
        finally:
            # The rows that were appended before an error are sent nevertheless, so their acknowledgements are reported, too.
            told = partial(self._tell_of_rows, topic, delivery, given, failed)
            with self._lock:
                when_settled(delivery.promises, lambda: self._engine.deferred.append(told))
            self._host.due_now()
        return None

    def _tell_of_rows(self, topic: str, delivery: ArrowOutcomes, given: ArrowHeaders, failed: Exception | None) -> None:
        rows, error = delivery.failure()
        self._interceptors.on_arrow_acknowledgement(topic, rows, failed or error, given)

    def _send_rows(
        self,
        topic: str,
        data: Any,
        columns: Mapping[str, str | None],
        delivery: ArrowOutcomes,
        ack: Ack | None,
        headers: Headers,
    ) -> CallerFlow[None]:
        transaction = self.core.appending.transaction_number
        queues = yield from self.await_topic(topic)
        parts, rejected = self._sorted(queues, data, columns, headers)
        may_wait = not self._host.in_callback
        for rows in parts:
            had_room = yield from self.core.appending.send_rows(queues, rows, delivery, transaction, may_wait=may_wait)
            may_wait = may_wait and had_room
        error = delivery.reject(rejected)
        with self._lock:
            if ack is not None:
                delivery.settle_ack(ack)
            self.core.accumulator.unread_failures.add(delivery)
            if error is not None:
                self.core.failed_sends.failed(error)

    def _sorted(
        self, queues: TopicQueues, data: Any, columns: Mapping[str, str | None], headers: Headers
    ) -> tuple[Iterator[PartitionRows], list[RejectedRow]]:
        with importing_columns():
            from levada.record.columnar import PartitionChoice, sort_columns

        config = self.config
        shares = self.core.accumulator.sticky_shares(queues, self._host, self._lock)
        choice = PartitionChoice(
            queues.count,
            next_sticky=lambda: next(shares),
            choose_rows=self.core.partitioning.for_rows(queues.name, queues.count),
            hash_keys=not self.core.partitioning.ignores_keys,
            user_code=self._host.user_code,
        )
        return sort_columns(
            data,
            columns,
            choice,
            batch_size=queues.sticky.limit,
            max_record_size=min(config.max_request_size, config.buffer_memory - batch_memory(0)),
            now_ms=self._wall_ms(),
            common_headers=headers,
        )

    # Sealed batches

    def seal_arrow(self, topic: str, data: Any, columns: Mapping[str, str | None]) -> CallerFlow[list[SealedBatch]]:
        """Return the rows of Arrow data as sealed batches. columns: as in send_arrow()."""
        self.check_usable()
        self._check_no_interceptors("seal_arrow()")
        _check_column_names("seal_arrow()", topic, columns)
        self._check_no_serializers("seal_arrow()", columns)
        queues = yield from self.await_topic(topic)
        parts, rejected = self._sorted(queues, data, columns, ())
        with importing_columns():
            from levada.record.columnar import seal_rows

        config, sealed = self.config, list[SealedBatch]()
        codec = Codec.parse(config.compression_type)
        # send_sealed() takes a batch as a whole, so it has to fit into buffer.memory.
        limit = min(queues.sticky.limit, config.buffer_memory - batch_memory(0))
        encoded = seal_rows(parts, codec, config.compression_level, limit)
        while (batch := (yield Compute(partial(next, encoded, None), config.batch_size))) is not None:
            sealed.append(SealedBatch(topic, batch.partition, bytes(batch.data), batch.record_count))
        error = ArrowOutcomes(topic).reject(rejected)
        if error is not None:
            raise error
        return sealed

    def send_sealed(self, batches: Sequence[SealedBatch], outcomes: ArrowOutcomes) -> CallerFlow[None]:
        """Send batches of seal_arrow(), in their order. outcomes: gets the results of the rows, which are numbered through all batches."""
        self.check_usable()
        self._check_no_interceptors("send_sealed()")
        transaction, first_row = self.core.appending.transaction_number, 0
        may_wait = not self._host.in_callback
        for batch in batches:
            sealed = yield Compute(partial(checked, batch, self.config.max_request_size), len(batch.data))
            yield from self.core.appending.send_sealed(sealed, first_row, outcomes, transaction, may_wait=may_wait)
            first_row += sealed.records_count
        with self._lock:
            self.core.accumulator.unread_failures.add(outcomes)

    def _check_no_interceptors(self, call: str) -> None:
        if self._interceptors:
            refused = IllegalStateError(f"{call}: interceptors cannot be shown the records of sealed batches; use a producer without them")
            raise not_written(refused)

    def _check_no_serializers(self, call: str, columns: Mapping[str, str | Sequence[str] | None]) -> None:
        """Raise IllegalStateError for a column of keys or values that has a serializer, because columns are sent as they are."""
        config = self.config
        for name, serializer in (("key", config.key_serializer), ("value", config.value_serializer)):
            if serializer is not None and columns[name] is not None:
                raise not_written(
                    IllegalStateError(
                        f"{call}: this producer has a {name}_serializer, which is not applied to columns, so that column "
                        f"{columns[name]!r} would be written as it is; use send() or send_many(), or send_arrow() with {name}_format, "
                        f"which encodes columns, or, if the column has the bytes to write, a producer without the {name}_serializer"
                    )
                )

    # The end

    def flush(self, timeout: float | None) -> CallerFlow[None]:
        """Wait until each record sent before is done. Then log a warning with the number of failures that the program has not looked at.

        timeout: seconds, after which FlushTimeout is raised; None for no limit.
        """
        with self._lock:
            flushing = self.core.flushing()
        try:
            with self.core.counters.calls.timing("flush", self._host):
                yield from run_flow(self._host, self._engine, flushing.run(), timeout, "flush()")
        except TimeoutError as late:
            with self._lock:
                remaining = flushing.remaining
            raise FlushTimeout(f"{late}; {_records(remaining)} not acknowledged yet, still on the way", remaining) from None
        self._tell_unasked()

    def abort_pending(self) -> int:
        """Fail all records that are neither acknowledged nor failed; return their number."""
        return self._host.change(lambda now_ms: self.core.drop_pending())

    def _tell_unasked(self) -> None:
        with self._lock:
            text = self.core.unasked()
        if text:
            self.log.warning("%s", text)

    def close(self, timeout: float | None) -> CallerFlow[float | None]:
        """Refuse new records, end the transaction, wait for the records, and fail those that are left when the timeout is over.

        timeout: seconds; None for no limit. It waits at most max.block.ms for the transaction coordinator, and for nothing in a callback.
        Returns for how many seconds the driver may still run callbacks; None for no limit.
        """
        over_ms = deadline_ms(self._host.now_ms(), timeout)
        with self._lock:
            self.core.close()
        # The clients of schema registries that send_arrow() has made close their connections.
        self._writers.clear()
        why = NOT_WAITED_FOR
        if timeout != 0 and not self._host.in_callback:
            why = yield from self._last_flush(timeout)
        self._give_up(why)
        if timeout != 0 and not self._host.in_callback:
            yield from self.reporting.close(over_ms)
        # Records that were just aborted have callbacks, too. Without a timeout, the driver waits for as long as the callbacks take.
        left_s = max((over_ms - self._host.now_ms()) / 1000, LAST_CALLBACKS_S)
        return None if timeout is None else left_s

    def leave(self) -> CallerFlow[float]:
        """Close after an exception: wait at most ERROR_EXIT_S seconds, and give up at once when interrupted. A long wait is logged.

        Returns for how many seconds the driver may still run callbacks.
        """
        with self._lock:
            self.core.close()
        # The clients of schema registries that send_arrow() has made close their connections.
        self._writers.clear()
        why = BROKEN_OFF
        try:
            if self._host.in_callback:
                why = NOT_WAITED_FOR
            else:
                yield from self._last_flush(QUIET_EXIT_S)
                left_s = ERROR_EXIT_S - QUIET_EXIT_S
                if unfinished := self._unfinished():
                    self.log.warning("waiting up to %g s for %s; Ctrl-C gives up", left_s, unfinished)
                    why = yield from self._last_flush(left_s)
                yield from self.reporting.close(NEVER_MS)
        finally:
            self._give_up(why)
        return LAST_CALLBACKS_S

    def _unfinished(self) -> str:
        """Return a text about what close() would have to wait for; "" for nothing."""
        with self._lock:
            count, transaction = self.core.unfinished(), self.core.transaction_manager
            if count:
                return f"{_records(count)} to be acknowledged"
            is_left = transaction is not None and needs_end(transaction)
        return f"the end of the transaction of transactional.id={self.config.transactional_id}" if is_left else ""

    def _last_flush(self, timeout: float | None) -> CallerFlow[str]:
        """End the transaction and flush, within this time. Return the reason why records are left; "" if none are."""
        over_ms = deadline_ms(self._host.now_ms(), timeout)
        if why := (yield from self._end_transaction(timeout)):
            return why
        left_s = None if timeout is None else max(over_ms - self._host.now_ms(), 0) / 1000
        try:
            yield from run_flow(self._host, self._engine, self.core.flushing().run(), left_s, "close()")
        except KafkaError as error:
            return f"not acknowledged within {timeout:g} s" if type(error) is TimeoutError else str(error)
        return ""

    def _end_transaction(self, timeout: float | None) -> CallerFlow[str]:
        """Wait for the commit or abort that is running, or abort the open transaction, for at most max.block.ms.

        timeout: the limit of close() in seconds; None for no limit. Return "" if no transaction is left, otherwise the reason, as text for
        the log.
        """
        transaction, longest_s = self.core.transaction_manager, self.config.max_block_ms / 1000
        with self._lock:
            if transaction is None or not needs_end(transaction):
                return ""
        limit_s = longest_s if timeout is None else min(timeout, longest_s)
        try:
            yield from run_flow(self._host, self._engine, self.core.end_transaction(), limit_s, "close()")
        except TimeoutError:
            last = f" (last: {transaction.last_failure})" if transaction.last_failure else ""
            return f"it did not end within {limit_s:g} s{last}"
        except KafkaError as error:
            return str(error)
        return ""

    def _give_up(self, why: str) -> None:
        self._tell_unasked()
        with self._lock:
            count = self.core.unfinished()
            transaction = self.core.transaction_manager
            left = "" if transaction is None else left_behind(transaction)
            self.core.abort()
        self._host.look()
        if left:
            self.log.warning("the producer of transactional.id=%s was closed with %s: %s", self.config.transactional_id, left, why)
        if count:
            self.log.warning("the producer was closed and gave up %s: %s", _records(count), why)

    def end_by_itself(self) -> Flow[None]:
        """Return the last flow of a producer that was dropped without close()."""
        return self.core.end_by_itself(min(self.config.delivery_timeout_ms, LONGEST_END_MS))

    def refuse_in_callback(self, what: str) -> None:
        """Raise IllegalStateError on the thread that runs callbacks, because the call would wait for its own thread. what: the call.

        On other threads, raise an error if the producer cannot be used.
        """
        if self._host.in_callback:
            raise IllegalStateError(f"{what} in an on_delivery callback would wait for the thread it runs on, for ever")
        self._host.check_usable()


def _check_column_names(call: str, topic: str, columns: Mapping[str, str | Sequence[str] | None]) -> None:
    for name, column in columns.items():
        if column is not None and not isinstance(column, str):
            advice = f"Add what it should hold to the data, as in table.append_column({name!r}, [values])"
            if isinstance(column, (list, tuple)) and name != "headers" and call == "send_arrow()":
                advice = f"With {name}_format, such as {name}_format='json', it may be a list of columns"
            raise TypeError(
                f"{call} to topic {topic!r}: {name} is the name of a column of the data, as in value='payload'; got "
                f"{type(column).__name__}. {advice}"
            )
    if columns["key"] is None and columns["value"] is None and columns["headers"] is None:
        raise ValueError(
            f"nothing to send to topic {topic!r}: name the columns, as in {call.removesuffix('()')}(topic, data, key='id', value='payload')"
        )


def _taken(data: BytesWithHeaders, pairs: Headers, side: str) -> tuple[bytes, Headers]:
    """Return the bytes of a key or value, and the headers of its record with those that it needs.

    Raises SerializationError if they have the schema id of the other side, because it would be read with this schema. side: key or value.
    """
    names = {name for name, _ in data.headers}
    if (other := ID_HEADERS[side == "key"]) in names:
        raise SerializationError(
            f"{side}: it was serialized for the other side, with the header {other}; make its serializer with field='{side}'"
        )
    return bytes(data), [*(pair for pair in pairs if pair[0] not in names), *data.headers]


def _subject_topics(config: ProducerConfig) -> list[tuple[str, str]]:
    """Return the setting and the topic of each serializer whose schema is registered under a topic's name."""
    serializers = {"key_serializer": config.key_serializer, "value_serializer": config.value_serializer}
    topics = {name: getattr(serializer, "subject_topic", None) for name, serializer in serializers.items()}
    return [(name, topic) for name, topic in topics.items() if isinstance(topic, str)]


def _refusal_of_callback(on_delivery: Any) -> TypeError:
    if not callable(on_delivery):
        return TypeError(f"on_delivery is a function of the record's metadata and the error, got {on_delivery!r}")
    names = ", ".join(on_delivery.__code__.co_varnames[:2])
    return TypeError(
        "on_delivery is called with (metadata, error), where error is None for a record that is written; "
        f"{on_delivery.__qualname__}({names}) has the order of another client, and would take every success for a failure: swap its "
        "parameters"
    )


def _check_ack(ack: Any) -> None:
    if ack is None or is_ack(ack):
        return
    if type(ack) is tuple and len(ack) == 2 and isinstance(ack[0], AckWindow) and type(ack[1]) is int:
        raise ValueError(f"ack: put() of {ack[0]!r} has not returned a sequence {ack[1]}")
    raise TypeError(f"ack is a pair of an AckBuffer and a sequence that its put() returned, got {ack!r}")


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count:,} records"


def _core(config: ProducerConfig, engine: Engine, host: ProducerHost, random: Random) -> ProducerCore:
    partitioning = Partitioning(config.partitioner, ignore_keys=config.partitioner_ignore_keys)
    return ProducerCore(ProducerSettings.of(config), engine, host=host, random=random, partitioning=partitioning)
