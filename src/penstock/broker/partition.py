"""One partition: its log, its producers, who leads it, and what may be appended to it (E6, I13-I17)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.broker.log import CHUNK_BYTES, PartitionLog
from penstock.broker.producer_state import NO_PRODUCER_ID, ProducerStates
from penstock.broker.topics import TopicConfig
from penstock.error_codes import ErrorCode
from penstock.errors import (
    BrokerError,
    CorruptRecordError,
    InvalidRecordError,
    RecordTooLargeError,
    UnsupportedCompressionError,
    UnsupportedRecordFormatError,
)
from penstock.protocol.schema import RecordBytes
from penstock.record.batch import RecordBatch, read_batches
from penstock.record.compression import Codec
from penstock.types import NO_TIMESTAMP, TimestampType, TopicPartition

CORRUPT_MESSAGE = ErrorCode.CORRUPT_MESSAGE


class Appended(NamedTuple):
    """Where a batch stands now. log_append_time_ms is -1 when its records kept their own timestamps."""

    base_offset: int
    log_append_time_ms: int


class Partition:
    """A partition as its leader holds it."""

    def __init__(self, name: TopicPartition, config: TopicConfig, replicas: tuple[int, ...]) -> None:
        self.name = name
        self.config = config
        self.log = PartitionLog(segment_bytes=min(config.segment_bytes, CHUNK_BYTES))
        self.producers = ProducerStates()
        self.replicas = replicas
        self.isr = replicas
        self.leader = replicas[0]
        self.leader_epoch = 0

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
            return Appended(duplicate.base_offset, duplicate.log_append_time_ms)
        append_time = now_ms if self.config.uses_append_time else None
        base_offset = self.log.append(batch, leader_epoch=self.leader_epoch, log_append_time_ms=append_time)
        appended = Appended(base_offset, NO_TIMESTAMP if append_time is None else append_time)
        self.producers.record(batch, base_offset=base_offset, log_append_time_ms=appended.log_append_time_ms, now_ms=now_ms)
        return appended

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

    def _check(self, batch: RecordBatch, now_ms: int) -> None:
        self._check_size(batch)
        if not _crc_matches(batch):
            raise BrokerError(f"{self.name}: the batch's checksum does not match", code=CORRUPT_MESSAGE)
        for fault in _faults_of(batch):
            raise InvalidRecordError(f"{self.name}: {fault}")
        if batch.is_transactional:
            raise BrokerError(f"{self.name}: no transaction is open for this producer", code=ErrorCode.INVALID_TXN_STATE)
        if not self.config.uses_append_time:
            self._check_timestamp(batch.max_timestamp, now_ms)
        if self.config.is_compacted and any(record.key is None for record in batch.records()):
            raise InvalidRecordError(f"{self.name}: a compacted topic takes no record without a key")

    def _check_size(self, batch: RecordBatch) -> None:
        limit = self.config.max_message_bytes
        if batch.size_bytes > limit:
            raise RecordTooLargeError(f"{self.name}: a batch of {batch.size_bytes} bytes, max.message.bytes={limit}")
        if batch.size_bytes > self.config.segment_bytes:
            raise BrokerError(
                f"{self.name}: a batch of {batch.size_bytes} bytes, segment.bytes={self.config.segment_bytes}",
                code=ErrorCode.RECORD_LIST_TOO_LARGE,
            )

    def _check_timestamp(self, timestamp: int, now_ms: int) -> None:
        if timestamp == NO_TIMESTAMP:
            return
        early, late = now_ms - timestamp > self.config.timestamp_before_max_ms, timestamp - now_ms > self.config.timestamp_after_max_ms
        if early or late:
            raise BrokerError(f"{self.name}: timestamp {timestamp} is too far from {now_ms}", code=ErrorCode.INVALID_TIMESTAMP)


def _only_batch(data: RecordBytes) -> RecordBatch:
    try:
        batches = list(read_batches(data))
    except CorruptRecordError as fault:
        raise BrokerError(str(fault), code=CORRUPT_MESSAGE) from fault
    except UnsupportedRecordFormatError as fault:
        raise InvalidRecordError(str(fault)) from fault
    if len(batches) != 1 or batches[0].size_bytes != len(data):
        raise InvalidRecordError(f"exactly one whole record batch is allowed per partition, found {len(batches)} in {len(data)} bytes")
    return batches[0]


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
    if batch.timestamp_type == TimestampType.LOG_APPEND_TIME:
        yield "only the broker may set the timestamp type LogAppendTime"
