"""Records a history while a program uses its clients: wrappers of blocking and asyncio producers, and of blocking consumers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from zlib import crc32

from levada.base.text import shown
from levada.errors import KafkaError, Persisted, TransactionAbortableError
from levada.producer.delivery.delivery import Delivery
from levada.testing.history.events import UNKNOWN, Event, Found, Op, Place, Type, Writer, value_of
from levada.types import AnyRecord, ConsumerGroupMetadata, OffsetAndMetadata, RecordMetadata, TopicPartition

if TYPE_CHECKING:
    from levada.aio import KafkaProducer as AsyncKafkaProducer
    from levada.aio.delivery import Delivery as AsyncDelivery
    from levada.sync.consumer import KafkaConsumer
    from levada.sync.producer import KafkaProducer

VALUE_BYTES: Final = 8
CRC_BYTES: Final = 4
HEAD_BYTES: Final = VALUE_BYTES + CRC_BYTES
MOST_PROCESSES: Final = (1 << 23) - 1
SEND_WITHIN_MS: Final = 180_000
"""How long a record may take with a producer's default settings: max.block.ms plus delivery.timeout.ms."""
END_WITHIN_MS: Final = 60_000
"""How long the beginning or the end of a transaction may take with a producer's default settings: max.block.ms."""

_PROC_SELF: Final = Path("/proc/self")


def outcome_of(error: BaseException) -> Type:
    """Return the outcome of a record whose delivery has failed: FAIL if the error says that it was certainly not written (persisted is NO),
    otherwise INFO.
    """
    return Type.FAIL if isinstance(error, KafkaError) and error.persisted is Persisted.NO else Type.INFO


def outcome_of_call(error: BaseException) -> Type:
    """Return the outcome of a failed call on a transaction, like outcome_of(). It is FAIL for TransactionAbortableError, because nothing of
    the transaction will be committed.
    """
    return Type.FAIL if isinstance(error, TransactionAbortableError) else outcome_of(error)


def found_in(records: Iterable[AnyRecord]) -> list[Found]:
    """Return the places and recorded values of records that poll() or scan() returned.

    Raises ValueError for a record that is not from a recording producer.
    """
    return [Found(record.topic, record.partition, record.offset, value_in(record.value)) for record in records]


def places_of(offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> tuple[Place, ...]:
    """Convert offsets by partition to the places of an event."""
    return tuple(Place(*tp, at if isinstance(at, int) else at.offset) for tp, at in sorted(offsets.items()))


def recorded(value: int, payload: bytes = b"") -> bytes:
    """Return the bytes of a record to send: the value, a checksum by which value_in() recognizes such records, and the payload."""
    number = value.to_bytes(VALUE_BYTES, "big")
    return number + crc32(number).to_bytes(CRC_BYTES, "big") + payload


def value_in(data: Any) -> int:
    """Return the value that recorded() has put into these bytes. Raises ValueError for None and for bytes that are not from recorded()."""
    number = b"" if data is None else bytes(data[:VALUE_BYTES])
    if len(number) < VALUE_BYTES or data[VALUE_BYTES:HEAD_BYTES] != crc32(number).to_bytes(CRC_BYTES, "big"):
        raise ValueError(f"nobody recorded this: a recorded value begins with a number of 8 bytes and its checksum of 4, got {data!r:.80}")
    return int.from_bytes(number, "big")


def monotonic_ms() -> int:
    """Return the time of the machine's monotonic clock in milliseconds. All processes of a machine share this clock."""
    return time.monotonic_ns() // 1_000_000


def process_figures() -> dict[str, int]:
    """Return figures of this process by name: threads, and on Linux also fds (file descriptors) and rss_bytes (memory)."""
    figures = {"threads": threading.active_count()}
    if _PROC_SELF.exists():
        pages = int((_PROC_SELF / "statm").read_text().split()[1])
        figures |= {"fds": len(list((_PROC_SELF / "fd").iterdir())), "rss_bytes": pages * os.sysconf("SC_PAGE_SIZE")}
    return figures


class Recorder:
    """Writes the events of one process to a history.

    write: the function that takes the events, such as the write method of a HistoryFile. process: a number from 1 to 8388607, unique in the
    run. now_ms: a clock that all processes of the run share.
    """

    def __init__(self, write: Writer, process: int, *, now_ms: Callable[[], int] = monotonic_ms) -> None:
        if not 1 <= process <= MOST_PROCESSES:
            raise ValueError(f"process is a number from 1 to {MOST_PROCESSES} that nobody else in the run has, got {process}")
        self.process = process
        self._write = write
        self._now_ms = now_ms
        self._values = count(1)
        self._transactions = count(1)
        self._commits = count(1)

    def tell(self, op: Op, kind: Type, **fields: Any) -> None:
        """Write an event with the present time. fields: other fields of Event; the process is by default that of the recorder."""
        self._write(Event(self._now_ms(), fields.pop("process", self.process), op, kind, **fields))

    def fault(self, name: str, *, mended: bool = False) -> None:
        """Record a fault. mended: False if the fault was injected, True if it was removed."""
        self.tell(Op.FAULT, Type.OK if mended else Type.INVOKE, text=name)

    def crashed(self, process: int) -> None:
        """Record that a process was killed. The outcome of its open operations is unknown, and they do not count as stuck."""
        self.tell(Op.CRASH, Type.OK, process=process)

    def opened(self, **figures: int) -> None:
        """Record figures of this process, before its clients are created. figures: for example rss_bound_bytes, the most memory that the
        process may use.
        """
        self.tell(Op.PROCESS, Type.INVOKE, figures={**process_figures(), **figures})

    def closed(self, **figures: int) -> None:
        """Record figures of this process after its clients are closed. figures: also counters of the program, such as retries."""
        self.tell(Op.PROCESS, Type.OK, figures={**process_figures(), **figures})

    def next_transaction(self) -> int:
        """Return the number of a new transaction, unique in the run."""
        return value_of(self.process, next(self._transactions))

    def sending(
        self, topic: str, partition: int | None, transaction: int, within_ms: int, source: int = UNKNOWN
    ) -> tuple[int, Callable[[RecordMetadata | None, BaseException | None], None]]:
        """Record that a record is about to be sent. Returns the record's value, and a function to be called with its metadata or its error;
        two Nones mean that the outcome is unknown.

        partition: None if it is not chosen yet. transaction: the number of the transaction, UNKNOWN if there is none. within_ms: the time
        limit for the delivery. source: the value of the record from which this record was made, UNKNOWN if there is none.
        """
        value = value_of(self.process, next(self._values))
        where = {"value": value, "transaction": transaction, "topic": topic}
        partition = UNKNOWN if partition is None else partition
        self.tell(Op.SEND, Type.INVOKE, **where, partition=partition, within_ms=within_ms, source=source)

        def ended(written: RecordMetadata | None, error: BaseException | None) -> None:
            if error is not None or written is None:
                self.tell(Op.SEND, Type.INFO if error is None else outcome_of(error), **where, text=shown(error))
            else:
                self.tell(Op.SEND, Type.OK, **where, partition=written.partition, offset=written.offset)

        return value, ended

    @contextmanager
    def operation(self, op: Op, transaction: int, within_ms: int) -> Iterator[None]:
        """Record the beginning and the end of an operation, which runs in the `with` block. If an exception leaves the block, the outcome
        is that of outcome_of_call().

        within_ms: the time limit of the operation.
        """
        self.tell(op, Type.INVOKE, transaction=transaction, within_ms=within_ms)
        try:
            yield
        except BaseException as error:
            self.tell(op, outcome_of_call(error), transaction=transaction, text=shown(error))
            raise
        self.tell(op, Type.OK, transaction=transaction)

    @contextmanager
    def offsets(self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], transaction: int = UNKNOWN) -> Iterator[None]:
        """Record the beginning and the end of a commit of a group's offsets, which runs in the `with` block.

        transaction: the number of the transaction in which they are committed, UNKNOWN if there is none.
        """
        commit = {"group": group, "value": next(self._commits), "transaction": transaction}
        self.tell(Op.OFFSETS, Type.INVOKE, **commit, places=places_of(offsets))
        try:
            yield
        except BaseException as error:
            self.tell(Op.OFFSETS, outcome_of(error), **commit, text=shown(error))
            raise
        self.tell(Op.OFFSETS, Type.OK, **commit)

    def committed(self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Record offsets that were found to be committed for a group."""
        self.tell(Op.COMMITTED, Type.OK, group=group, places=places_of(offsets))


class _Recording:
    """The common base of RecordingProducer and AsyncRecordingProducer. It remembers the open transaction."""

    def __init__(self, recorder: Recorder, send_within_ms: int, end_within_ms: int) -> None:
        self.recorder = recorder
        self._send_within_ms = send_within_ms
        self._end_within_ms = end_within_ms
        self._transaction = UNKNOWN

    def _sending(
        self, topic: str, partition: int | None, source: int
    ) -> tuple[int, Callable[[RecordMetadata | None, BaseException | None], None]]:
        return self.recorder.sending(topic, partition, self._transaction, self._send_within_ms, source)

    def _committing(self, offsets: Mapping[TopicPartition, Any], group: ConsumerGroupMetadata | str) -> AbstractContextManager[None]:
        return self.recorder.offsets(group if isinstance(group, str) else group.group_id, offsets, self._transaction)

    @contextmanager
    def _beginning(self) -> Iterator[None]:
        transaction = self.recorder.next_transaction()
        with self.recorder.operation(Op.BEGIN, transaction, self._end_within_ms):
            yield
        self._transaction = transaction

    @contextmanager
    def _ending(self, op: Op) -> Iterator[None]:
        with self.recorder.operation(op, self._transaction, self._end_within_ms):
            yield
        self._transaction = UNKNOWN


class RecordingProducer(_Recording):
    """A blocking producer whose records and transactions are recorded in a history.

    To record a service that reads, writes and commits offsets, give it this object in place of its producer. Each thread needs an object of
    its own, with its own recorder, because a history has the order in which one thread sends. The producer must have no serializers.
    send_within_ms: the time limit for a record, max.block.ms + delivery.timeout.ms. end_within_ms: the time limit for the beginning, commit
    or abort of a transaction, max.block.ms. The caller has to close the producer.
    """

    def __init__(
        self,
        producer: KafkaProducer[Any, Any],
        recorder: Recorder,
        *,
        send_within_ms: int = SEND_WITHIN_MS,
        end_within_ms: int = END_WITHIN_MS,
    ) -> None:
        super().__init__(recorder, send_within_ms, end_within_ms)
        self._producer: Any = producer

    def send(
        self, topic: str, *, payload: bytes = b"", key: bytes | None = None, partition: int | None = None, source: int = UNKNOWN
    ) -> Delivery:
        """Send a record like KafkaProducer.send(), and record it. In the record, 12 bytes with the next value stand before `payload`.
        source: the value of the record from which this record is made, UNKNOWN if there is none.
        """
        value, ended = self._sending(topic, partition, source)
        try:
            sent: Delivery = self._producer.send(topic, recorded(value, payload), key, partition=partition, on_delivery=ended)
        except BaseException as error:
            ended(None, error)
            raise
        return sent

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        with self._beginning():
            self._producer.begin_transaction()

    def commit_transaction(self) -> None:
        """Commit the transaction.

        After an error with an unknown outcome, repeat this call, or call abort_transaction() if the producer allows it.
        """
        with self._ending(Op.COMMIT):
            self._producer.commit_transaction()

    def abort_transaction(self) -> None:
        """Abort the transaction."""
        with self._ending(Op.ABORT):
            self._producer.abort_transaction()

    def flush(self, timeout: float | None = None) -> None:
        """Do the same as KafkaProducer.flush(). Nothing is recorded."""
        self._producer.flush(timeout)

    def send_offsets_to_transaction(self, offsets: Any, group: ConsumerGroupMetadata | str, timeout: float | None = None) -> None:
        """Commit offsets in the transaction, like KafkaProducer.send_offsets_to_transaction(), and record them."""
        with self._committing(offsets, group):
            self._producer.send_offsets_to_transaction(offsets, group, timeout)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Begin a transaction; the program must have called init_transactions() of the producer. At the end of the `with` block the
        transaction is committed. It is aborted if an exception leaves the block or the commit fails.
        """
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except BaseException as error:
            try:
                self.abort_transaction()
            except KafkaError as failed:
                error.add_note(f"the transaction could not be aborted either: {failed}")
            raise


class AsyncRecordingProducer(_Recording):
    """An asyncio producer whose records and transactions are recorded in a history, like RecordingProducer. Each task needs an object and a
    recorder of its own.
    """

    def __init__(
        self,
        producer: AsyncKafkaProducer[Any, Any],
        recorder: Recorder,
        *,
        send_within_ms: int = SEND_WITHIN_MS,
        end_within_ms: int = END_WITHIN_MS,
    ) -> None:
        super().__init__(recorder, send_within_ms, end_within_ms)
        self._producer: Any = producer

    async def send(
        self, topic: str, *, payload: bytes = b"", key: bytes | None = None, partition: int | None = None, source: int = UNKNOWN
    ) -> AsyncDelivery:
        """Send a record and record it, like RecordingProducer.send()."""
        value, ended = self._sending(topic, partition, source)
        try:
            sent: AsyncDelivery = await self._producer.send(topic, recorded(value, payload), key, partition=partition, on_delivery=ended)
        except BaseException as error:
            ended(None, error)
            raise
        return sent

    async def begin_transaction(self) -> None:
        """Begin a transaction."""
        with self._beginning():
            await self._producer.begin_transaction()

    async def commit_transaction(self) -> None:
        """Commit the transaction, like RecordingProducer.commit_transaction()."""
        with self._ending(Op.COMMIT):
            await self._producer.commit_transaction()

    async def abort_transaction(self) -> None:
        """Abort the transaction."""
        with self._ending(Op.ABORT):
            await self._producer.abort_transaction()

    async def flush(self, timeout: float | None = None) -> None:
        """Do the same as KafkaProducer.flush(). Nothing is recorded."""
        await self._producer.flush(timeout)

    async def send_offsets_to_transaction(self, offsets: Any, group: ConsumerGroupMetadata | str, timeout: float | None = None) -> None:
        """Commit offsets in the transaction, like KafkaProducer.send_offsets_to_transaction(), and record them."""
        with self._committing(offsets, group):
            await self._producer.send_offsets_to_transaction(offsets, group, timeout)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Begin a transaction; the program must have called init_transactions() of the producer. At the end of the `async with` block the
        transaction is committed. It is aborted if an exception leaves the block or the commit fails.
        """
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException as error:
            try:
                await self.abort_transaction()
            except KafkaError as failed:
                error.add_note(f"the transaction could not be aborted either: {failed}")
            raise


class RecordingConsumer:
    """A blocking consumer; the records that it polls are recorded in a history. It needs isolation.level=read_committed and no
    deserializers.
    """

    def __init__(self, consumer: KafkaConsumer[Any, Any], recorder: Recorder) -> None:
        self.recorder = recorder
        self._consumer = consumer

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> list[Found]:
        """Poll like KafkaConsumer.poll(), record the records, and return their places and values. An empty poll is not recorded.

        Raises the errors of KafkaConsumer.poll(), and ValueError for a record that is not from a recording producer; nothing is recorded
        then.
        """
        found = found_in(self._consumer.poll(timeout, max_records))
        if found:
            self.recorder.tell(Op.POLL, Type.OK, read=tuple(found))
        return found
