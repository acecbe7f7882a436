"""The checks of produced batches before they are appended, whatever the partition holds, as in Kafka's LogValidator."""

from __future__ import annotations

from collections.abc import Iterator

from levada.broker.config.topics import TopicConfig
from levada.broker.log.producer_state import NO_PRODUCER_ID
from levada.error_codes import ErrorCode
from levada.errors import (
    BrokerError,
    CorruptRecordError,
    DecompressionError,
    InvalidRecordError,
    RecordTooLargeError,
    UnsupportedCompressionError,
)
from levada.protocol.schema import RecordBytes
from levada.record.batch import HEADER_SIZE, RecordBatch, seal
from levada.record.compression import DEFAULT_MAX_DECOMPRESSED, Codec
from levada.record.header import CODEC_BITS, LOG_APPEND_TIME, TRANSACTIONAL, compressed_anew
from levada.record.lazy import LazyRecord
from levada.record.memory_records import read_batches
from levada.types import NO_TIMESTAMP, TopicPartition
from levada.wire.varint import decode_varint

MAGIC_AT = 16
FLAGS_AT = 22
MAGIC = 2


class RefusedRecordsError(BrokerError):
    """The batch was not appended because some of its records are invalid. indexes: the positions of these records in the batch."""

    def __init__(self, message: str, code: ErrorCode, indexes: list[int]) -> None:
        super().__init__(message, code=code)
        self.indexes = indexes


def validated(data: RecordBytes, name: TopicPartition, config: TopicConfig, now_ms: int, *, allow_zstd: bool) -> RecordBatch:
    """Check the records that were produced to a partition; return them as a batch. They must be exactly one batch.

    now_ms: milliseconds since the epoch. allow_zstd: whether the request's version allows zstd. Raises BrokerError with Kafka's error code.
    """
    batch = _only_batch(data)
    if batch.codec is Codec.ZSTD and not allow_zstd:
        raise UnsupportedCompressionError(f"{name}: zstd needs Produce version 7")
    _check_size(batch, name, config)
    if not _crc_matches(batch):
        raise BrokerError(f"{name}: the batch's checksum does not match", code=ErrorCode.CORRUPT_MESSAGE)
    for fault in _faults_of(batch):
        raise InvalidRecordError(f"{name}: {fault}")
    _check_record_sizes(batch, name, config)
    if not config.uses_append_time:
        _check_timestamps(batch, name, config, now_ms)
    if config.is_compacted:
        _check_keys(batch, name)
    return batch


def _check_size(batch: RecordBatch, name: TopicPartition, config: TopicConfig) -> None:
    limit = config.max_message_bytes
    if batch.size_bytes > limit:
        raise RecordTooLargeError(f"{name}: a batch of {batch.size_bytes} bytes, max.message.bytes={limit}")


def _check_record_sizes(batch: RecordBatch, name: TopicPartition, config: TopicConfig) -> None:
    """Raise InvalidRecordError for a compressed record larger than max.decompressed.message.bytes. With a limit of at least
    DEFAULT_MAX_DECOMPRESSED nothing is checked.
    """
    limit = config.max_decompressed_bytes
    if batch.codec is Codec.NONE or limit >= DEFAULT_MAX_DECOMPRESSED:
        return
    at = 0
    for _ in _records_of(batch, name):
        size, at = decode_varint(batch.payload(), at)
        if size > limit:
            raise InvalidRecordError(f"{name}: a record of {size} bytes, max.decompressed.message.bytes={limit}")
        at += size


def _check_timestamps(batch: RecordBatch, name: TopicPartition, config: TopicConfig, now_ms: int) -> None:
    earliest, latest = now_ms - config.timestamp_before_max_ms, now_ms + config.timestamp_after_max_ms
    newest = batch.max_timestamp
    if newest == NO_TIMESTAMP or earliest <= newest <= latest:
        return
    wrong = [index for index, record in enumerate(_records_of(batch, name)) if not earliest <= record.timestamp <= latest]
    raise RefusedRecordsError(f"{name}: timestamps up to {newest} are too far from {now_ms}", ErrorCode.INVALID_TIMESTAMP, wrong)


def _check_keys(batch: RecordBatch, name: TopicPartition) -> None:
    without = [index for index, record in enumerate(_records_of(batch, name)) if record.key is None]
    if without:
        raise RefusedRecordsError(f"{name}: a compacted topic takes no record without a key", ErrorCode.INVALID_RECORD, without)


def _records_of(batch: RecordBatch, name: TopicPartition) -> Iterator[LazyRecord]:
    """Yield the records of a batch. Raises BrokerError if they are damaged: the checksum is right, so the producer has damaged them, not
    the network.
    """
    try:
        yield from batch
    except DecompressionError as fault:
        raise BrokerError(f"{name}: {fault}", code=ErrorCode.UNKNOWN_SERVER_ERROR) from fault
    except CorruptRecordError as fault:
        raise InvalidRecordError(f"{name}: {fault}") from fault


def _only_batch(data: RecordBytes) -> RecordBatch:
    if len(data) > MAGIC_AT and data[MAGIC_AT] < MAGIC:
        raise InvalidRecordError(f"records of magic {data[MAGIC_AT]}; since version 3 Produce takes magic {MAGIC} only")
    try:
        batches = list(read_batches(data))
    except CorruptRecordError as fault:
        raise BrokerError(str(fault), code=_code_of_contradiction(data)) from fault
    # Kafka ignores an incomplete batch after a whole one.
    if len(batches) != 1:
        raise InvalidRecordError(f"exactly one whole record batch is allowed per partition, found {len(batches)} in {len(data)} bytes")
    return batches[0]


def _code_of_contradiction(data: RecordBytes) -> ErrorCode:
    if not _is_sealed(data):
        return ErrorCode.CORRUPT_MESSAGE
    # Kafka determines the codec at a place that turns this error into another one.
    return ErrorCode.UNKNOWN_SERVER_ERROR if data[FLAGS_AT] & CODEC_BITS > Codec.ZSTD else ErrorCode.INVALID_RECORD


def compressed_for(batch: RecordBatch, name: TopicPartition, config: TopicConfig) -> RecordBatch:
    """Return a batch with the codec of the topic's compression.type. If the batch already has this codec, or if compression.type
    is producer, it is returned unchanged.

    As in Kafka, a batch with the right codec keeps its compression level. Raises BrokerError if the records cannot be decompressed, if the
    batch is larger than max.message.bytes after it was converted, or if it is larger than segment.bytes.
    """
    wanted = config.compression
    if wanted is not None and wanted.codec is not batch.codec:
        newest = max(record.timestamp for record in _records_of(batch, name))
        batch = RecordBatch(memoryview(compressed_anew(batch.data, wanted.codec, wanted.level, batch.payload(), newest)))
        _check_size(batch, name, config)
    if batch.size_bytes > config.segment_bytes:
        raise BrokerError(
            f"{name}: a batch of {batch.size_bytes} bytes, segment.bytes={config.segment_bytes}",
            code=ErrorCode.RECORD_LIST_TOO_LARGE,
        )
    return batch


def stamped_by_its_producer(batch: RecordBatch) -> RecordBatch:
    """Return a batch without the LogAppendTime flag. Kafka accepts a produced batch with this flag and stores it without the flag."""
    data = bytearray(batch.data)
    data[FLAGS_AT] &= ~LOG_APPEND_TIME
    seal(data)
    return RecordBatch(memoryview(data))


def is_transactional(data: RecordBytes) -> bool:
    """Return whether the header of produced records has the transactional flag. The records may be invalid otherwise."""
    return len(data) > FLAGS_AT and data[MAGIC_AT] == MAGIC and bool(data[FLAGS_AT] & TRANSACTIONAL)


def _is_sealed(data: RecordBytes) -> bool:
    """Return whether the checksum of an invalid batch is right. If it is, the producer has made the batch invalid, not the network."""
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
