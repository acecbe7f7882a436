"""One partition: its log, its producers, who leads it, and what may be appended to it (E6, I13-I17)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from levada.broker.leader_epochs import LeaderEpochs
from levada.broker.log import CHUNK_BYTES, PartitionLog
from levada.broker.marker import Marker, read_marker
from levada.broker.partition_transactions import PartitionTransactions
from levada.broker.producer_state import NO_PRODUCER_ID, ProducerStates
from levada.broker.settings import MAX_INT64
from levada.broker.topics import TopicConfig
from levada.error_codes import ErrorCode
from levada.errors import (
    BrokerError,
    CorruptRecordError,
    InvalidRecordError,
    OutOfOrderSequenceError,
    RecordTooLargeError,
    UnsupportedCompressionError,
)
from levada.protocol.schema import RecordBytes
from levada.record.batch import HEADER_SIZE, RecordBatch, read_batches, seal
from levada.record.compression import Codec
from levada.record.header import CODEC_BITS, LOG_APPEND_TIME, TRANSACTIONAL
from levada.record.lazy import LazyRecord
from levada.types import NO_TIMESTAMP, IsolationLevel, TimestampType, TopicPartition

MAGIC_AT = 16
FLAGS_AT = 22
MAGIC = 2


class RefusedRecordsError(BrokerError):
    """Some records of a batch cannot be taken, so none was. indexes: which, by their place in the batch."""

    def __init__(self, message: str, code: ErrorCode, indexes: list[int]) -> None:
        super().__init__(message, code=code)
        self.indexes = indexes


class Appended(NamedTuple):
    """Where a batch stands now. log_append_time_ms is -1 when its records kept their own timestamps; a duplicate tells them."""

    base_offset: int
    log_append_time_ms: int


class Partition:
    """A partition as its leader holds it."""

    def __init__(self, name: TopicPartition, config: TopicConfig, replicas: tuple[int, ...]) -> None:
        self.name = name
        self.config = config
        self.log = PartitionLog(segment_bytes=min(config.segment_bytes, CHUNK_BYTES))
        self.producers = ProducerStates()
        self.transactions = PartitionTransactions()
        self.replicas = replicas
        self.isr = replicas
        self.leader = replicas[0]
        self.epochs = LeaderEpochs()

    @property
    def leader_epoch(self) -> int:
        """The epoch of the present leader."""
        return self.epochs.current

    @leader_epoch.setter
    def leader_epoch(self, epoch: int) -> None:
        self.epochs.begin(epoch, self.log.end_offset)

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which readers of committed data see records."""
        first_open = self.transactions.first_open_offset
        return self.log.high_watermark if first_open is None else min(first_open, self.log.high_watermark)

    def readable_end(self, isolation_level: int) -> int:
        """Return the offset up to which a reader sees records."""
        return self.last_stable_offset if isolation_level == IsolationLevel.READ_COMMITTED else self.log.high_watermark

    def lose(self, end_offset: int) -> None:
        """Lose the batches that reach beyond an offset; what is known of producers and transactions is what the rest tells (I17)."""
        self.log.truncate(end_offset)
        self.producers.forget_all()
        self.transactions.forget_all()
        for batch in self.log.batches():
            self._remember(batch, base_offset=batch.base_offset, timestamp=batch.max_timestamp, now_ms=batch.max_timestamp)

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer has written to the partition in its present transaction, so that nobody has to be asked about it."""
        return self.transactions.first_offset_of(producer_id) is not None and self.producers.epoch_of(producer_id) == epoch

    def append(self, data: RecordBytes, now_ms: int, *, allow_zstd: bool = True) -> Appended:
        """Check a produced batch and append it; a duplicate is answered with its original's place and appended nowhere (I15).

        now_ms: milliseconds since the epoch. allow_zstd: the request's version knows it. Raises BrokerError with the code Kafka answers.
        """
        batch = _only_batch(data)
        if batch.codec is Codec.ZSTD and not allow_zstd:
            raise UnsupportedCompressionError(f"{self.name}: zstd needs Produce version 7")
        self._check(batch, now_ms)
        duplicate = self.producers.check(batch)
        if duplicate is not None:
            return Appended(duplicate.base_offset, duplicate.timestamp)
        self._check_transaction(batch)
        if not self.config.uses_append_time and batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
            batch = _stamped_by_its_producer(batch)
        return self._write(batch, now_ms)

    def append_marker(self, marker: Marker, now_ms: int) -> None:
        """End a producer's transaction. Raises BrokerError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED (T19)."""
        self.producers.check_marker(marker.producer_id, marker.epoch, marker.coordinator_epoch, strict=marker.strict)
        self._write(marker.encode(now_ms), now_ms)

    def _write(self, batch: RecordBatch, now_ms: int) -> Appended:
        append_time = now_ms if self.config.uses_append_time else None
        base_offset = self.log.append(batch, leader_epoch=self.leader_epoch, log_append_time_ms=append_time)
        timestamp = batch.max_timestamp if append_time is None else append_time
        self._remember(batch, base_offset=base_offset, timestamp=timestamp, now_ms=now_ms)
        return Appended(base_offset, NO_TIMESTAMP if append_time is None else append_time)

    def _remember(self, batch: RecordBatch, *, base_offset: int, timestamp: int, now_ms: int) -> None:
        """Keep what an appended batch says about its producer and its transaction."""
        marker = read_marker(batch) if batch.is_control else None
        if marker is not None:
            producer_id, epoch, committed, coordinator_epoch, _ = marker
            self.producers.record_marker(producer_id, epoch, coordinator_epoch, timestamp=timestamp, now_ms=now_ms)
            self.transactions.end(producer_id, base_offset, committed=committed)
            return
        self.producers.record(batch, base_offset=base_offset, timestamp=timestamp, now_ms=now_ms)
        if batch.is_transactional:
            self.transactions.write(batch.producer_id, base_offset)

    def check_leader_epoch(self, epoch: int) -> None:
        """Raise if a client's leader epoch (-1: none) is not the current one (KIP-320)."""
        if epoch == -1 or epoch == self.leader_epoch:
            return
        code = ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        raise BrokerError(f"{self.name}: leader epoch {epoch}, current {self.leader_epoch}", code=code)

    def check_in_sync(self) -> None:
        """Raise NOT_ENOUGH_REPLICAS when acks=all cannot be honoured (E7)."""
        if len(self.isr) < self.config.min_insync_replicas:
            raise BrokerError(
                f"{self.name}: {len(self.isr)} replicas in sync, {self.config.min_insync_replicas} needed",
                code=ErrorCode.NOT_ENOUGH_REPLICAS,
            )

    def retain(self, now_ms: int) -> None:
        """Apply retention.ms and retention.bytes."""
        age = self.config.retention_ms
        self.log.retain(retention_bytes=self.config.retention_bytes, oldest_timestamp_ms=now_ms - age if age >= 0 else -1)
        self.transactions.forget_before(self.log.start_offset)

    def expire_producers(self, before_ms: int) -> None:
        """Forget producers that have not written since a time, unless a transaction of theirs is open."""
        self.producers.expire(before_ms, keep=self.transactions.open_producers)

    def forget_producers(self) -> None:
        """Forget all producers, unless a transaction of theirs is open."""
        self.expire_producers(MAX_INT64)

    def _check(self, batch: RecordBatch, now_ms: int) -> None:
        self._check_size(batch)
        if not _crc_matches(batch):
            raise BrokerError(f"{self.name}: the batch's checksum does not match", code=ErrorCode.CORRUPT_MESSAGE)
        for fault in _faults_of(batch):
            raise InvalidRecordError(f"{self.name}: {fault}")
        if not self.config.uses_append_time:
            self._check_timestamps(batch, now_ms)
        if self.config.is_compacted:
            self._check_keys(batch)

    def _check_transaction(self, batch: RecordBatch) -> None:
        is_open = self.transactions.first_offset_of(batch.producer_id) is not None
        may_begin = self.transactions.may_begin_with(batch.producer_id, batch.base_sequence)
        if batch.is_transactional and not is_open and not may_begin:
            raise OutOfOrderSequenceError(f"{self.name}: a transaction does not begin with sequence {batch.base_sequence}")
        if not batch.is_transactional and is_open:
            raise BrokerError(
                f"{self.name}: producer {batch.producer_id} wrote a plain batch into its open transaction", code=ErrorCode.INVALID_TXN_STATE
            )

    def _check_size(self, batch: RecordBatch) -> None:
        limit = self.config.max_message_bytes
        if batch.size_bytes > limit:
            raise RecordTooLargeError(f"{self.name}: a batch of {batch.size_bytes} bytes, max.message.bytes={limit}")
        if batch.size_bytes > self.config.segment_bytes:
            raise BrokerError(
                f"{self.name}: a batch of {batch.size_bytes} bytes, segment.bytes={self.config.segment_bytes}",
                code=ErrorCode.RECORD_LIST_TOO_LARGE,
            )

    def _check_timestamps(self, batch: RecordBatch, now_ms: int) -> None:
        earliest, latest = now_ms - self.config.timestamp_before_max_ms, now_ms + self.config.timestamp_after_max_ms
        newest = batch.max_timestamp
        if newest == NO_TIMESTAMP or earliest <= newest <= latest:
            return
        wrong = [index for index, record in enumerate(self._records_of(batch)) if not earliest <= record.timestamp <= latest]
        raise RefusedRecordsError(f"{self.name}: timestamps up to {newest} are too far from {now_ms}", ErrorCode.INVALID_TIMESTAMP, wrong)

    def _check_keys(self, batch: RecordBatch) -> None:
        without = [index for index, record in enumerate(self._records_of(batch)) if record.key is None]
        if without:
            raise RefusedRecordsError(f"{self.name}: a compacted topic takes no record without a key", ErrorCode.INVALID_RECORD, without)

    def _records_of(self, batch: RecordBatch) -> Iterator[LazyRecord]:
        try:
            yield from batch
        except CorruptRecordError as fault:
            # The checksum fits, so the producer made it like this.
            raise InvalidRecordError(f"{self.name}: {fault}") from fault


def _only_batch(data: RecordBytes) -> RecordBatch:
    if len(data) > MAGIC_AT and data[MAGIC_AT] < MAGIC:
        raise InvalidRecordError(f"records of magic {data[MAGIC_AT]}; since version 3 Produce takes magic {MAGIC} only")
    try:
        batches = list(read_batches(data))
    except CorruptRecordError as fault:
        raise BrokerError(str(fault), code=_code_of_contradiction(data)) from fault
    # A cut batch behind a whole one is ignored, as Kafka does.
    if len(batches) != 1:
        raise InvalidRecordError(f"exactly one whole record batch is allowed per partition, found {len(batches)} in {len(data)} bytes")
    return batches[0]


def _code_of_contradiction(data: RecordBytes) -> ErrorCode:
    if not _is_sealed(data):
        return ErrorCode.CORRUPT_MESSAGE
    # Kafka looks for the codec where no such error is expected.
    return ErrorCode.UNKNOWN_SERVER_ERROR if data[FLAGS_AT] & CODEC_BITS > Codec.ZSTD else ErrorCode.INVALID_RECORD


def _stamped_by_its_producer(batch: RecordBatch) -> RecordBatch:
    """Return a batch without the claim that a broker had set its timestamps; Kafka takes it and stores it like this."""
    data = bytearray(batch.data)
    data[FLAGS_AT] &= ~LOG_APPEND_TIME
    seal(data)
    return RecordBatch(memoryview(data))


def is_transactional(data: RecordBytes) -> bool:
    """Whether produced records, good or not, say that they belong to a transaction."""
    return len(data) > FLAGS_AT and data[MAGIC_AT] == MAGIC and bool(data[FLAGS_AT] & TRANSACTIONAL)


def _is_sealed(data: RecordBytes) -> bool:
    """Whether a batch that contradicts itself was made so by its producer, and not on the way."""
    if len(data) < HEADER_SIZE or data[MAGIC_AT] != MAGIC:
        return False
    sealed = bytearray(data)
    seal(sealed)
    return sealed == data


def _crc_matches(batch: RecordBatch) -> bool:
    try:
        batch.verify_crc()
    except CorruptRecordError:
        return False
    return True


def _faults_of(batch: RecordBatch) -> Iterator[str]:
    if batch.is_control:
        yield "clients may not write control batches"
    if batch.records_count < 1 or batch.records_count != batch.last_offset_delta + 1:
        yield f"{batch.records_count} records, but the last offset delta is {batch.last_offset_delta}"
    if batch.producer_id != NO_PRODUCER_ID and (batch.base_sequence < 0 or batch.producer_epoch < 0):
        yield f"producer {batch.producer_id} without a sequence ({batch.base_sequence}) or an epoch ({batch.producer_epoch})"
