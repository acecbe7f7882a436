"""Decodes a log batch by batch, like Kafka's DumpLogSegments: from a segment's file (dump()), or from a broker (dump_held())."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from levada import KafkaClient, TopicPartition
from levada.errors import CorruptRecordError, ProtocolError, broker_error
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from levada.protocol.prefixed import GROUP_RECORDS, SHARE_RECORDS, TRANSACTION_RECORDS, RecordTypes, UnknownRecordTypeError, decode_prefixed
from levada.protocol.records.end_txn_marker import EndTxnMarker
from levada.protocol.schema import Struct
from levada.record.batch import Record, RecordBatch, next_sequence
from levada.record.compression import Buffer
from levada.record.memory_records import read_batches

_CONTROL_TYPES: Final[Mapping[int, str]] = {
    0: "abort",
    1: "commit",
    2: "leader change",
    3: "snapshot header",
    4: "snapshot footer",
    5: "kraft version",
    6: "kraft voters",
}
_ENDS_TRANSACTION: Final = ("abort", "commit")
COORDINATORS: Final[Mapping[str, RecordTypes]] = {
    "__consumer_offsets": GROUP_RECORDS,
    "__transaction_state": TRANSACTION_RECORDS,
    "__share_group_state": SHARE_RECORDS,
}
"""The topics in which coordinators keep their state, each with the types of its records."""


class BatchRow(NamedTuple):
    """A record batch, or a group of consecutive messages in a format before Kafka 0.11.

    position: of the first byte in the file, or in the data that were read from a broker. control: type of a control batch, "" for other
    batches and for a batch with a fault. fault: why the batch cannot be trusted or its records cannot be decoded, or "". producer_id,
    producer_epoch, base_sequence, last_sequence: -1 without an idempotent producer. Timestamps are in ms since the epoch.
    """

    position: int
    base_offset: int
    last_offset: int
    records: int
    size: int
    magic: int
    codec: str
    timestamp_type: str
    max_timestamp: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    transactional: bool
    control: str
    delete_horizon_ms: int | None
    crc: int
    fault: str


class RecordRow(NamedTuple):
    """A record of a batch. base_offset: of the batch. sequence: -1 without an idempotent producer.

    key, value: bytes, None for null, or the decoded fields of a coordinator's record. The key of a control record is its type as text.
    """

    base_offset: int
    offset: int
    timestamp: int
    sequence: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]


class Dumped(NamedTuple):
    """A batch and its records. The records are empty if the batch has a fault, or if they were not asked for (with_records)."""

    batch: BatchRow
    records: tuple[RecordRow, ...] = ()


class Torn(NamedTuple):
    """The bytes after the last complete batch.

    position: where these bytes begin, counted like BatchRow.position. size: the number of these bytes. fault: why they are not a batch.
    is_cut: whether they are the beginning of a batch whose end is missing. A crash can leave such a file, and brokers cut fetch responses
    at the byte limit. If false, the bytes are damaged.
    """

    position: int
    size: int
    fault: str
    is_cut: bool


def dump(data: Buffer, *, topic: str = "", with_records: bool = False, position: int = 0) -> Iterator[Dumped | Torn]:
    """Yield the batches in these bytes, and at the end a Torn if bytes are left after the last complete batch.

    topic: its name; needed to decode the records of coordinators' topics. position: the position of the first byte. A batch with a wrong
    checksum, or with records that cannot be decoded, is yielded with its fault and without records. If the size of a batch cannot be
    trusted, the batches after it are not found.
    """
    at = 0
    try:
        for batch in read_batches(data):
            yield _dumped(batch, position + at, topic, with_records)
            at += batch.size_bytes
    except CorruptRecordError as error:
        yield Torn(position + at, len(data) - at, str(error), False)
        return
    if at < len(data):
        yield Torn(position + at, len(data) - at, "not a whole batch", True)


def _dumped(batch: RecordBatch, position: int, topic: str, with_records: bool) -> Dumped:
    try:
        batch.verify_crc()
        control = _CONTROL_TYPES.get(kind, f"type {kind}") if (kind := batch.control_type()) is not None else ""
        records = tuple(_records(batch, topic, control)) if with_records else ()
    except ProtocolError as error:
        return Dumped(_row(batch, position, "", str(error)))
    return Dumped(_row(batch, position, control, ""), records)


def _row(batch: RecordBatch, position: int, control: str, fault: str) -> BatchRow:
    return BatchRow(
        position=position,
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        records=batch.records_count,
        size=batch.size_bytes,
        magic=batch.magic,
        codec=batch.codec.name.lower(),
        timestamp_type=batch.timestamp_type.name.lower(),
        max_timestamp=batch.max_timestamp,
        leader_epoch=batch.partition_leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        last_sequence=batch.last_sequence,
        transactional=batch.is_transactional,
        control=control,
        delete_horizon_ms=batch.delete_horizon_ms,
        crc=batch.crc,
        fault=fault,
    )


def _records(batch: RecordBatch, topic: str, control: str) -> Iterator[RecordRow]:
    for record in batch.walker().records():
        sequence = -1 if batch.base_sequence < 0 else next_sequence(batch.base_sequence, record.offset - batch.base_offset)
        key, value = _contents(record, topic, control)
        yield RecordRow(batch.base_offset, record.offset, record.timestamp, sequence, key, value, record.headers)


def _contents(record: Record, topic: str, control: str) -> tuple[Any, Any]:
    if control:
        return control, _plain(
            decode_prefixed(EndTxnMarker, record.value)
        ) if control in _ENDS_TRANSACTION and record.value else record.value
    types = COORDINATORS.get(topic)
    if types is None or record.key is None:
        return record.key, record.value
    try:
        found = types.decode(record.key, record.value)
    except UnknownRecordTypeError:
        # A newer Kafka wrote this record, so it cannot be decoded.
        return record.key, record.value
    return {"type": type(found.key).NAME, **_plain(found.key)}, None if found.value is None else _plain(found.value)


def _plain(value: Any) -> Any:
    """Return a struct as dictionaries and lists."""
    if isinstance(value, Struct):
        return {field.name: _plain(getattr(value, field.name)) for field in value.FIELDS}
    return [_plain(one) for one in value] if isinstance(value, list) else value


_LAST_VERSION_BY_NAME: Final = 12
"""Newest version of Fetch that names topics. Later versions use topic ids."""
_MOST_BYTES: Final = 8 << 20
_MAX_WAIT_MS: Final = 100


def dump_held(client: KafkaClient, tp: TopicPartition, leader: int, start: int, end: int, *, with_records: bool) -> Iterator[Dumped | Torn]:
    """Fetch from the leader, and yield the batches that have offsets from start up to, not including, end.

    Ends earlier if the leader sends no more whole batches, or with a Torn if the data are damaged. with_records: whether the results have
    the records. Raises BrokerError if the leader answers with an error.
    """
    _, newest = client.api_versions(node=leader)["Fetch"]
    offset, position = start, 0
    while offset < end:
        data = _fetched(client, tp, leader, offset, min(newest, _LAST_VERSION_BY_NAME)).records or b""
        reached = offset
        for found in dump(data, topic=tp.topic, with_records=with_records, position=position):
            if isinstance(found, Dumped):
                reached = found.batch.last_offset + 1
                if found.batch.base_offset < end:
                    yield found
            elif not found.is_cut:
                yield found
                return
        if reached == offset:
            return
        offset, position = reached, position + len(data)


def _fetched(client: KafkaClient, tp: TopicPartition, leader: int, offset: int, version: int) -> PartitionData:
    wanted = FetchPartition(partition=tp.partition, fetch_offset=offset, partition_max_bytes=_MOST_BYTES)
    request = FetchRequest(
        max_wait_ms=_MAX_WAIT_MS, min_bytes=1, max_bytes=_MOST_BYTES, topics=[FetchTopic(topic=tp.topic, partitions=[wanted])]
    )
    response = client.request(request, node=leader, version=version)
    code = response.error_code or response.responses[0].partitions[0].error_code
    if code:
        raise broker_error(code, f"read {tp} at offset {offset} from broker {leader}")
    return response.responses[0].partitions[0]
