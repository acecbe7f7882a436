"""Records as Kafka's own MemoryRecords writes, reads and converts them; tests/java/Records.java answers."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from java_kit import SOURCES, JavaProgram
from levada.record.batch import RecordBatch
from levada.record.compression import Codec
from levada.record.memory_records import read_batches
from levada.record.record import Record

NO_LEVEL = -(2**31)
_FIELDS = struct.Struct(">bbibqqqhi??iqi")
_LONGS = struct.Struct(">qq")
_INT = struct.Struct(">i")
_APPENDED = struct.Struct(">qibq")
_DOWN = struct.Struct(">bq")
# What a batch says of itself, in our words; Java answers in the same.
FIELDS = (
    "magic",
    "base_offset",
    "last_offset",
    "next_offset",
    "records_count",
    "codec",
    "timestamp_type",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "last_sequence",
    "is_transactional",
    "is_control",
    "partition_leader_epoch",
    "delete_horizon_ms",
    "crc",
    "size_bytes",
)


class BatchFields(NamedTuple):
    """What Java's builder is told besides the records. append_time: counts with timestamp type 1 only."""

    magic: int = 2
    codec: Codec = Codec.NONE
    level: int = NO_LEVEL
    timestamp_type: int = 0
    base_offset: int = 0
    append_time: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    is_control: bool = False
    leader_epoch: int = -1
    delete_horizon: int = -1


class ReadBatch(NamedTuple):
    """A batch that somebody has read: FIELDS, and its records."""

    fields: dict[str, Any]
    records: list[Record]


class JavaRecords:
    """MemoryRecords of one Kafka version. Every method may raise JavaError."""

    def __init__(self, program: JavaProgram) -> None:
        self._program = program

    def write(self, records: Sequence[Record], **fields: Any) -> bytes:
        """Return a batch of records, or with magic 0 and 1 a message set. fields: those of BatchFields."""
        question = b"W" + _FIELDS.pack(*BatchFields(**fields), len(records))
        return self._program.ask(question + b"".join(map(_packed, records)))

    def read(self, data: bytes | bytearray) -> list[ReadBatch]:
        """Return every whole batch in `data`; checksums are looked at."""
        return [
            ReadBatch(fields, [_record(*each) for each in fields.pop("records")]) for fields in json.loads(self._program.ask(b"R" + data))
        ]

    def append(self, data: bytes, *, base_offset: int, leader_epoch: int, append_time: int | None) -> bytes:
        """Return batches as a broker puts them into its log."""
        kind, time = (0, -1) if append_time is None else (1, append_time)
        return self._program.ask(b"A" + _APPENDED.pack(base_offset, leader_epoch, kind, time) + data)

    def down_convert(self, data: bytes, magic: int, first_offset: int = 0) -> bytes:
        """Return batches as a broker sends them to an old client; Kafka 4 does not any more."""
        return self._program.ask(b"D" + _DOWN.pack(magic, first_offset) + data)


def program_name(version: str, folder: Path) -> str:
    """Return the name by which `java_program` finds the program.

    Before Kafka 4 its classes were in other packages; such a source goes to `folder`."""
    if version >= "4":
        return "Records"
    source = (SOURCES / "Records.java").read_text()
    moved = folder / "Records"
    moved.with_suffix(".java").write_text(source.replace("record.internal.", "record.").replace("utils.internals.", "utils."))
    return str(moved)


def read_by_us(data: bytes | bytearray) -> list[ReadBatch]:
    """Return what JavaRecords.read does, as levada reads it."""
    return [_read(batch) for batch in read_batches(data)]


def _read(batch: RecordBatch) -> ReadBatch:
    batch.verify_crc()
    records = batch.walker().records()
    return ReadBatch({name: getattr(batch, name) for name in FIELDS}, records)


def all_records(batches: Sequence[ReadBatch]) -> list[Record]:
    return [record for batch in batches for record in batch.records]


def _packed(record: Record) -> bytes:
    packed = _LONGS.pack(record.offset, record.timestamp) + _bytes(record.key) + _bytes(record.value) + _INT.pack(len(record.headers))
    return packed + b"".join(_bytes(name.encode()) + _bytes(value) for name, value in record.headers)


def _bytes(field: bytes | None) -> bytes:
    return _INT.pack(-1) if field is None else _INT.pack(len(field)) + field


def _record(offset: int, timestamp: int, key: str | None, value: str | None, headers: list[tuple[str, str | None]]) -> Record:
    return Record(offset, timestamp, _unshown(key), _unshown(value), tuple((name, _unshown(content)) for name, content in headers))


def _unshown(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
