"""Writes, reads and converts records with Kafka's own MemoryRecords, through the program tests/java/Records.java."""

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
# The fields of a batch, by levada's names. The Java program uses the same names.
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
    """The arguments of Java's builder besides the records. append_time: in ms; used only with timestamp type 1 (LogAppendTime)."""

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
    """A batch that Java or levada has read: the values of FIELDS, and the records."""

    fields: dict[str, Any]
    records: list[Record]


class JavaRecords:
    """MemoryRecords of one Kafka version. Every method may raise JavaError."""

    def __init__(self, program: JavaProgram) -> None:
        self._program = program

    def write(self, records: Sequence[Record], **fields: Any) -> bytes:
        """Return a record batch, or a message set for magic 0 and 1. fields: fields of BatchFields."""
        question = b"W" + _FIELDS.pack(*BatchFields(**fields), len(records))
        return self._program.ask(question + b"".join(map(_packed, records)))

    def read(self, data: bytes | bytearray) -> list[ReadBatch]:
        """Return every complete batch in `data`. Checksums are verified."""
        return [
            ReadBatch(fields, [_record(*each) for each in fields.pop("records")]) for fields in json.loads(self._program.ask(b"R" + data))
        ]

    def append(self, data: bytes, *, base_offset: int, leader_epoch: int, append_time: int | None) -> bytes:
        """Return batches as a broker writes them to its log. append_time: in ms; None for timestamp type 0 (CreateTime)."""
        kind, time = (0, -1) if append_time is None else (1, append_time)
        return self._program.ask(b"A" + _APPENDED.pack(base_offset, leader_epoch, kind, time) + data)

    def down_convert(self, data: bytes, magic: int, first_offset: int = 0) -> bytes:
        """Return batches converted to an older magic, as brokers before Kafka 4 do for old clients."""
        return self._program.ask(b"D" + _DOWN.pack(magic, first_offset) + data)


def program_name(version: str, folder: Path) -> str:
    """Return the name of the program for `java_program`.

    Before Kafka 4 the classes that it uses were in other packages. For these versions a changed source is written to `folder`.
    """
    if version >= "4":
        return "Records"
    source = (SOURCES / "Records.java").read_text()
    moved = folder / "Records"
    moved.with_suffix(".java").write_text(source.replace("record.internal.", "record.").replace("utils.internals.", "utils."))
    return str(moved)


def read_by_us(data: bytes | bytearray) -> list[ReadBatch]:
    """Return the batches in `data` like JavaRecords.read(), but read by levada."""
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
