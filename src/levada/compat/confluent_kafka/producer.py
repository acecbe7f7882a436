"""Producer: produce() takes a message without waiting, poll() and flush() run the delivery reports.

A message counts against queue.buffering.max.messages and .kbytes from produce() until poll() or flush() has served its report, whether or
not it has a callback. So a program that never polls meets BufferError, as with librdkafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar
from weakref import WeakMethod

from levada import ConsumerGroupMetadata, KafkaProducer, RecordMetadata
from levada import errors as levada_errors
from levada.compat.confluent_kafka.cluster import Cluster, ClusterMetadata
from levada.compat.confluent_kafka.configuration import producer_configuration, refused
from levada.compat.confluent_kafka.error import ErrorCodes, KafkaError, exception, raising_kafka_exceptions, to_kafka_error
from levada.compat.confluent_kafka.events import ClientEvents, Events, client_id_of
from levada.compat.confluent_kafka.message import (
    DeliveryCallback,
    Headers,
    Outgoing,
    TopicPartition,
    checked_bytes,
    checked_headers,
    seconds,
    to_commit,
)
from levada.compat.confluent_kafka.not_there import PRODUCER, lacks
from levada.compat.confluent_kafka.partitioners import partitioner
from levada.compat.confluent_kafka.waiting_topics import Hooks, WaitingTopics

P = ParamSpec("P")
T = TypeVar("T")

PARTITION_UA = -1
_STEP_S = 0.1
_RECOUNT_S = 5.0
_FOREVER_S = 10.0**8
_CLOSE_S = 30.0


@lacks(PRODUCER)
class Producer:
    """A producer with confluent-kafka's calls, over levada's KafkaProducer. Any thread may use it."""

    def __init__(self, config: Mapping[str, Any] | None = None, /, **keywords: Any) -> None:
        settings, own = configuration = producer_configuration(config, keywords)
        self._own = own
        self._transactional = settings.get("transactional.id") is not None
        self._in_transaction = False
        # The partition is chosen here, as levada's send() takes a slower way with a partitioner in its settings.
        self._choose = partitioner(own["partitioner"])
        self._recount_s: dict[str, float] = {}
        self._closed = False
        self._lock = Lock()
        self._count = self._bytes = 0
        self._most_bytes = own["queue.buffering.max.kbytes"] * 1024
        self._most = own["queue.buffering.max.messages"] or _FOREVER_S
        self._events = Events()
        self._reports = ClientEvents(self._events, own, client_id_of(settings, "producer"), "producer")
        try:
            self._client: KafkaProducer[bytes, bytes] = KafkaProducer(settings)
        except levada_errors.ConfigError as error:
            self._reports.close()
            raise refused(error) from error
        self._reports.watch(self._client, self)
        hooks = Hooks(_weak(self._partitions), _weak(self._send_waiting), _weak(self._fail))
        self._waiting = WaitingTopics(hooks, settings["delivery.timeout.ms"] / 1000, own["topic.metadata.propagation.max.ms"] / 1000)
        self._cluster = Cluster(configuration.connection)

    # Messages

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        partition: int = PARTITION_UA,
        callback: DeliveryCallback | None = None,
        on_delivery: DeliveryCallback | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Take a message, to be sent soon. Never waits.

        partition: -1 lets the partitioner choose. on_delivery, or callback, or by default the setting on_delivery: called as
        f(error, message) within a later poll() or flush(), or another call that flushes. timestamp: milliseconds since the epoch, 0 for the
        present time. headers: a mapping, or pairs of name and value. Raises BufferError while the queue is full, KafkaException for a
        message that cannot be sent.
        """
        self._check_open()
        if not isinstance(topic, str):
            raise TypeError(f"argument 1 must be str, not {type(topic).__name__}")
        callback = on_delivery or callback or self._own["on.delivery"]
        if callback is not None and not callable(callback):
            raise TypeError("expected on_delivery to be a callable function")
        pairs: Headers | None = checked_headers(headers) if headers else None
        chosen = None if partition == PARTITION_UA else partition
        message = Outgoing(topic, checked_bytes(value), checked_bytes(key), chosen, timestamp or None, pairs, callback)
        self._check(message)
        self._reserve(message.size)
        count = self._waiting.known.get(topic)
        if count is None:
            self._waiting.add(message)
            return
        try:
            self._send(message, count)
        except levada_errors.KafkaError as error:
            self._release(message.size)
            raise exception(to_kafka_error(error).code(), f"Unable to produce message: {error}") from error

    def produce_batch(
        self,
        topic: str,
        messages: Sequence[dict[str, Any]],
        partition: int = PARTITION_UA,
        callback: DeliveryCallback | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> int:
        """Take messages, each a dict with the arguments of produce(); return how many were taken. The others get an item "_error".

        partition, on_delivery, callback: for messages that do not have their own.
        """
        taken = 0
        for given in messages:
            arguments = {"partition": partition, "on_delivery": on_delivery or callback, **given}
            arguments.pop("_error", None)
            try:
                self.produce(topic, **arguments)
            except BufferError:
                given["_error"] = KafkaError(ErrorCodes._QUEUE_FULL)
            except Exception as error:
                found = error.args[0] if error.args else None
                given["_error"] = found if isinstance(found, KafkaError) else to_kafka_error(error)
            else:
                taken += 1
        return taken

    def poll(self, timeout: float | None = -1) -> int:
        """Run the callbacks that wait, and return their number, to which delivery reports without a callback count.

        timeout: seconds to wait for the first one; None or negative for no limit.
        """
        self._check_open()
        limit = seconds(timeout)
        deadline = monotonic() + (_FOREVER_S if limit is None else limit)
        while not (served := self._serve()):
            left = deadline - monotonic()
            if left <= 0:
                break
            self._events.wait(max(min(left, self._reports.due_s(), 1.0), 0))
        return served

    def flush(self, timeout: float | None = -1) -> int:
        """Send everything now and run callbacks until every message is delivered or has failed; return how many are not.

        timeout: seconds; None or negative for no limit.
        """
        self._check_open()
        limit = seconds(timeout)
        deadline = monotonic() + (_FOREVER_S if limit is None else limit)
        self._serve()
        while self._count:
            left = deadline - monotonic()
            self._send_now(min(_STEP_S, max(left, 0)))
            self._serve()
            if left <= 0:
                break
            if not self._waiting.is_empty():
                self._events.wait(min(_STEP_S, left))
        return self._count

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Fail the messages that are not delivered yet. Messages in flight may be delivered all the same. blocking: has no effect.

        Raises KafkaException if only one of in_queue and in_flight is set.
        """
        self._check_open()
        if in_queue != in_flight:
            raise exception(ErrorCodes._NOT_IMPLEMENTED, "levada purges both kinds of messages or none: use purge()")
        if in_queue:
            self._waiting.purge()
            self._client.abort_pending()

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return True

    # Transactions

    def init_transactions(self, timeout: float | None = -1) -> None:
        """Get the producer id, and end the transaction that an earlier producer with the same transactional.id has left open.

        timeout: seconds; None or negative for no limit, as in the other calls for transactions.
        """
        self._check_transactional()
        with raising_kafka_exceptions(flags=True):
            self._client.init_transactions(self._limit(timeout))

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._check_transactional()
        with raising_kafka_exceptions(flags=True):
            self._client.begin_transaction(_FOREVER_S)
        self._in_transaction = True

    def send_offsets_to_transaction(
        self, positions: Iterable[TopicPartition], group_metadata: ConsumerGroupMetadata, timeout: float | None = -1
    ) -> None:
        """Commit offsets with the transaction. Partitions without an offset are ignored.

        group_metadata: what Consumer.consumer_group_metadata() returns.
        """
        self._check_transactional()
        offsets = to_commit(positions)
        if not isinstance(group_metadata, ConsumerGroupMetadata):
            raise TypeError("expected group_metadata of Consumer.consumer_group_metadata()")
        if offsets:
            with raising_kafka_exceptions(flags=True):
                self._client.send_offsets_to_transaction(offsets, group_metadata, self._limit(timeout))

    def commit_transaction(self, timeout: float | None = -1) -> None:
        """Deliver every message of the transaction, run their callbacks, and commit."""
        self._check_transactional()
        limit = self._limit(timeout)
        deadline = monotonic() + limit
        if self.flush(limit):
            raise exception(ErrorCodes._TIMED_OUT, "Failed to flush outstanding messages within the timeout", retriable=True)
        with raising_kafka_exceptions(flags=True):
            self._client.commit_transaction(max(deadline - monotonic(), 0))
        self._in_transaction = False

    def abort_transaction(self, timeout: float | None = -1) -> None:
        """Fail the messages that are not sent yet, abort, and run the callbacks that come within _STEP_S seconds."""
        self._check_transactional()
        self._waiting.purge()
        with raising_kafka_exceptions(flags=True):
            self._client.abort_transaction(self._limit(timeout))
        self._in_transaction = False
        self.flush(_STEP_S)

    # The cluster, and the end

    def list_topics(self, topic: str | None = None, timeout: float | None = -1) -> ClusterMetadata:
        """Describe the brokers, and one topic or all. timeout: as in Cluster.list_topics()."""
        self._check_open()
        return self._cluster.list_topics(topic, timeout)

    def cluster_id(self, timeout: float | None = -1) -> str | None:
        """Return the id of the cluster."""
        self._check_open()
        return self._cluster.cluster_id(timeout)

    def close(self) -> bool:
        """Deliver what is left, run the callbacks, and close the connections. Later calls raise RuntimeError.

        An open transaction is aborted instead, and no more callbacks run. Returns True.
        """
        if self._closed:
            return True
        try:
            if not self._in_transaction:
                self.flush()
        finally:
            self._closed = True
            self._waiting.close()
            self._client.close(_CLOSE_S)
            self._cluster.close()
            self._reports.close()
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # What the calls share

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Producer has been closed")

    def _check_transactional(self) -> None:
        self._check_open()
        if not self._transactional:
            raise exception(ErrorCodes._NOT_CONFIGURED, "The Transactional API requires transactional.id to be configured")

    def _limit(self, timeout: float | None) -> float:
        limit = seconds(timeout)
        return _FOREVER_S if limit is None else limit

    def _check(self, message: Outgoing) -> None:
        """Raise KafkaException for a message that librdkafka's produce() refuses."""
        if message.size > self._own["message.max.bytes"]:
            raise exception(ErrorCodes.MSG_SIZE_TOO_LARGE, "Unable to produce message: Broker: Message size too large")
        if self._transactional and not self._in_transaction:
            raise exception(ErrorCodes._STATE, "Unable to produce message: Local: Erroneous state")
        count = self._waiting.known.get(message.topic)
        if message.partition is None or (count is None and message.partition >= 0):
            return
        if message.partition < 0 or (message.partition >= (count or 0) and message.partition >= self._counted_again(message.topic)):
            raise exception(ErrorCodes._UNKNOWN_PARTITION, "Unable to produce message: Local: Unknown partition")

    def _counted_again(self, topic: str) -> int:
        """Return the number of partitions that metadata has by now, without waiting; 0 if it does not have the topic. A topic in `known`
        gets this number.
        """
        try:
            count = self._partitions(topic, 0)
        except levada_errors.KafkaError:
            return 0
        if topic in self._waiting.known:
            self._waiting.known[topic] = count
        return count

    def _partitions(self, topic: str, timeout_s: float) -> int:
        return len(self._client.partitions_for(topic, timeout=timeout_s))

    def _reserve(self, size: int) -> None:
        with self._lock:
            if self._count >= self._most or self._bytes + size > self._most_bytes:
                raise BufferError("Local: Queue full")
            self._count += 1
            self._bytes += size

    def _release(self, size: int) -> None:
        with self._lock:
            self._count -= 1
            self._bytes -= size

    def _send(self, message: Outgoing, count: int) -> None:
        partition = message.partition
        if partition is None:
            partition = self._choose(message.key, self._recounted(message, count))
        self._client.send(
            message.topic,
            message.value,
            message.key,
            partition=partition,
            timestamp=message.timestamp,
            headers=message.headers,
            on_delivery=partial(self._done, message),
        )

    def _recounted(self, message: Outgoing, count: int) -> int:
        """Return the number of partitions; look it up again every _RECOUNT_S seconds, because partitions may be added."""
        if message.began_s >= self._recount_s.get(message.topic, 0.0):
            self._recount_s[message.topic] = message.began_s + _RECOUNT_S
            return self._counted_again(message.topic) or count
        return count

    def _send_waiting(self, message: Outgoing, count: int) -> None:
        """Send a message that has waited for its topic. Errors become its delivery report, as its produce() has returned."""
        try:
            self._send(message, count)
        except levada_errors.KafkaError as error:
            self._fail(message, to_kafka_error(error))

    def _send_now(self, timeout_s: float) -> None:
        with raising_kafka_exceptions("Failed to flush"), suppress(levada_errors.TimeoutError):
            self._client.flush(timeout_s)

    def _done(self, message: Outgoing, metadata: RecordMetadata, error: BaseException | None) -> None:
        """Let a message's report wait for poll(). Runs on levada's thread."""
        if error is None:
            self._events.add(lambda: self._report(message, None, metadata))
        else:
            self._events.add(lambda: self._report(message, to_kafka_error(error), metadata))

    def _fail(self, message: Outgoing, error: KafkaError) -> None:
        self._events.add(lambda: self._report(message, error, None))

    def _report(self, message: Outgoing, error: KafkaError | None, metadata: RecordMetadata | None) -> None:
        """Give a message's memory back and call its callback, if there is one; with delivery.report.only.error only for a failure."""
        self._release(message.size)
        callback = message.callback
        if callback is None or (error is None and self._own["delivery.report.only.error"]):
            return
        if error is None and metadata is not None:
            callback(None, message.delivered(metadata))
        elif error is not None:
            chosen = metadata.partition if metadata is not None and metadata.partition >= 0 else message.partition
            callback(error, message.failed(error, chosen))

    def _serve(self) -> int:
        return self._events.serve() + self._reports.serve(self._counts)

    def _counts(self) -> dict[str, int]:
        return {
            "msg_cnt": self._count,
            "msg_size": self._bytes,
            "msg_max": self._own["queue.buffering.max.messages"],
            "msg_size_max": self._most_bytes,
        }


def _weak(method: Callable[P, T]) -> Callable[P, T]:
    """Return a function that calls a method of the producer without keeping the producer alive. When the producer has been dropped, the
    function raises ClosedError.
    """
    reference = WeakMethod(method)

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        found = reference()
        if found is None:
            raise levada_errors.ClosedError("the producer was dropped")
        return found(*args, **kwargs)

    return call
