"""The logs of a stopped Kafka node, as Kafka's own tools print them and, in the same words, as penstock reads them.

Kafka 4.4's DumpLogSegments is not in Maven Central; 3.9's prints the logs of both, since a log's format is older than either.
"""

from __future__ import annotations

import base64
import importlib
import json
import pkgutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import penstock.protocol.records
from java_kit import JavaProgram
from kafka_cluster import POMS
from kafka_jars import jars, java
from penstock.protocol.codegen import decode
from penstock.protocol.records.aborted_txn import AbortedTxn
from penstock.protocol.records.end_txn_marker import EndTxnMarker
from penstock.protocol.records.snapshot_footer_record import SnapshotFooterRecord
from penstock.protocol.records.snapshot_header_record import SnapshotHeaderRecord
from penstock.protocol.schema import Message, RecordKey, Struct
from penstock.record.batch import Record, RecordBatch, next_sequence, read_batches
from penstock.types import TimestampType

TIMEOUT_S = 60
ABORT, COMMIT = 0, 1
SNAPSHOT_TYPES: dict[int, tuple[str, type[Message]]] = {
    3: ("SnapshotHeader", SnapshotHeaderRecord),
    4: ("SnapshotFooter", SnapshotFooterRecord),
}
OTHER_CONTROL_TYPES = {2: "LEADER_CHANGE", 5: "KRAFT_VERSION", 6: "KRAFT_VOTERS"}
TIMESTAMP_TYPES = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}


def dump(files: Sequence[Path], *, contents: bool) -> dict[Path, list[str]]:
    """Return the lines that Kafka's tool prints for each file. contents: with keys and values, which must be lines of text then."""
    depth = "--print-data-log" if contents else "--deep-iteration"
    printed = _run(f"{jars(POMS / 'pom-3.9.2.xml')}/*", "kafka.tools.DumpLogSegments", depth, "--files", ",".join(map(str, files)))
    found: dict[Path, list[str]] = {}
    for part in printed.split("Dumping ")[1:]:
        name, *lines = part.splitlines()
        found[Path(name)] = [line for line in lines if not line.startswith(("Log starting offset", "Snapshot end offset"))]
    return found


def _run(class_path: str, *command: str) -> str:
    utf8 = ["-Dfile.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8"]
    flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", *utf8]
    run = subprocess.run(
        [str(java()), *flags, "-cp", class_path, *command],
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )
    if run.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {run.returncode}:\n{run.stderr[-3000:]}")
    return run.stdout


def batches_of(file: Path) -> list[RecordBatch]:
    """Return all batches of a segment, which must be read to its end."""
    data = file.read_bytes()
    batches = list(read_batches(data))
    assert sum(batch.size_bytes for batch in batches) == len(data)
    return batches


def dumped(file: Path, *, contents: bool) -> list[str]:
    """Return what penstock reads in a segment, in the words of Kafka's tool."""
    lines = []
    position = 0
    for batch in batches_of(file):
        batch.verify_crc()
        lines.append(_batch_line(batch, position))
        lines += _record_lines(batch, contents)
        position += batch.size_bytes
    return lines


def _batch_line(batch: RecordBatch, position: int) -> str:
    horizon = "OptionalLong.empty" if batch.delete_horizon_ms is None else f"OptionalLong[{batch.delete_horizon_ms}]"
    fields = {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "count": batch.records_count,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "isTransactional": str(batch.is_transactional).lower(),
        "isControl": str(batch.is_control).lower(),
        "deleteHorizonMs": horizon,
        "position": position,
        TIMESTAMP_TYPES[batch.timestamp_type]: batch.max_timestamp,
        "size": batch.size_bytes,
        "magic": batch.magic,
        "compresscodec": batch.codec.name.lower(),
        "crc": batch.crc,
        "isvalid": "true",
    }
    return " ".join(f"{name}: {value}" for name, value in fields.items())


def _record_lines(batch: RecordBatch, contents: bool) -> Iterator[str]:
    for record in batch.walker().records():
        line = f"| offset: {record.offset} {TIMESTAMP_TYPES[batch.timestamp_type]}: {record.timestamp}"
        line += f" keySize: {_size(record.key)} valueSize: {_size(record.value)} sequence: {_sequence(batch, record)}"
        line += f" headerKeys: [{','.join(name for name, _ in record.headers)}]"
        if batch.is_control:
            line += _control(batch, record)
        elif contents:
            line += "" if record.key is None else f" key: {record.key.decode()}"
            line += "" if record.value is None else f" payload: {record.value.decode()}"
        yield line


def _sequence(batch: RecordBatch, record: Record) -> int:
    return -1 if batch.base_sequence < 0 else next_sequence(batch.base_sequence, record.offset - batch.base_offset)


def _size(field: bytes | None) -> int:
    return -1 if field is None else len(field)


def _control(batch: RecordBatch, record: Record) -> str:
    kind = batch.control_type()
    assert kind is not None
    assert record.value is not None
    if kind in (ABORT, COMMIT):
        marker, _ = decode(EndTxnMarker, record.value, _int16(record.value), 2)
        return f" endTxnMarker: {'COMMIT' if kind == COMMIT else 'ABORT'} coordinatorEpoch: {marker.coordinator_epoch}"
    if kind in SNAPSHOT_TYPES:
        name, message = SNAPSHOT_TYPES[kind]
        struct, _ = decode(message, record.value, _int16(record.value))
        return f" {name} {json.dumps(as_json(struct, 0), separators=(',', ':'))}"
    return f" controlType: {OTHER_CONTROL_TYPES[kind]}({kind})"


def dumped_aborted(file: Path) -> list[str]:
    """Return the entries of an index of aborted transactions, in the words of Kafka's tool."""
    data = file.read_bytes()
    lines, at = [], 0
    while at < len(data):
        version = _int16(data[at:])
        entry, at = decode(AbortedTxn, data, version, at + 2)
        fields = {"version": version, "producerId": entry.producer_id, "firstOffset": entry.first_offset}
        fields |= {"lastOffset": entry.last_offset, "lastStableOffset": entry.last_stable_offset}
        lines.append(" ".join(f"{name}: {value}" for name, value in fields.items()))
    return lines


def _int16(data: bytes) -> int:
    return int.from_bytes(data[:2], "big", signed=True)


def as_json(struct: Struct, version: int) -> dict[str, Any]:
    """Return what Kafka's JSON converters make of a struct: tagged fields that hold their default are left out."""
    shown = {}
    for field in type(struct).FIELDS:
        value = getattr(struct, field.name)
        if field.is_inline(version) or (field.is_tagged(version) and value != field.new_default()):
            shown[_camel_case(field.name)] = _json_value(value, version)
    return shown


def _json_value(value: Any, version: int) -> Any:
    match value:
        case Struct():
            return as_json(value, version)
        case list():
            return [_json_value(each, version) for each in value]
        case UUID():
            return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
        case bytes() | memoryview():
            return base64.b64encode(value).decode()
    return value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def coordinator_records(file: Path, kind: str) -> Iterator[list[Any]]:
    """Yield the records of a coordinator's log as CoordinatorLog prints them. kind: "group" or "transaction"."""
    keys = _record_keys(kind)
    for record in (record for batch in batches_of(file) for record in batch.records()):
        assert record.key is not None
        number = _int16(record.key)
        key = as_json(_whole(keys[number], record.key, 0), 0)
        if record.value is None:
            yield [record.offset, number, -1, key, None]
        else:
            version = _int16(record.value)
            yield [record.offset, number, version, key, as_json(_whole(keys[number].VALUE, record.value, version), version)]


def coordinator_records_in_java(program: JavaProgram, file: Path, kind: str) -> list[list[Any]]:
    """Return the same as Kafka reads them. program: CoordinatorLog."""
    lines = program.ask(f"{kind}\t{file}".encode()).decode().splitlines()
    return [[json.loads(column) for column in line.split("\t")] for line in lines]


def _record_keys(kind: str) -> dict[int, type[RecordKey]]:
    """Return the declared keys by their number; the two kinds of logs number theirs apart."""
    for module in pkgutil.iter_modules(penstock.protocol.records.__path__, "penstock.protocol.records."):
        importlib.import_module(module.name)
    return {key.RECORD_TYPE: key for key in RecordKey.__subclasses__() if (key.__name__ == "TransactionLogKey") == (kind == "transaction")}


def _whole(message: type[Message], data: bytes, version: int) -> Struct:
    struct, end = decode(message, data, version, 2)
    assert end == len(data)
    return struct
