"""The logs of a stopped Kafka node, as Kafka's own tools print them and, in the same words, as levada reads them.

Kafka 4.4's DumpLogSegments is not in Maven Central; 3.9's prints the logs of both, since a log's format is older than either.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from java_kit import JavaProgram
from java_messages import JsonForm
from kafka_cluster import POMS
from kafka_jars import jars, java
from levada.protocol.codegen import decode
from levada.protocol.prefixed import GROUP_RECORDS, SHARE_RECORDS, TRANSACTION_RECORDS, decode_prefixed, encode_prefixed, read_prefix
from levada.protocol.records.aborted_txn import AbortedTxn
from levada.protocol.records.end_txn_marker import EndTxnMarker
from levada.protocol.records.snapshot_footer_record import SnapshotFooterRecord
from levada.protocol.records.snapshot_header_record import SnapshotHeaderRecord
from levada.protocol.schema import Data, Message
from levada.record.batch import Record, RecordBatch, next_sequence
from levada.record.memory_records import read_batches
from levada.types import TimestampType

TIMEOUT_S = 60
ABORT, COMMIT = 0, 1
SNAPSHOT_TYPES: dict[int, tuple[str, type[Message]]] = {
    3: ("SnapshotHeader", SnapshotHeaderRecord),
    4: ("SnapshotFooter", SnapshotFooterRecord),
}
COORDINATOR_RECORDS = {"group": GROUP_RECORDS, "transaction": TRANSACTION_RECORDS, "share": SHARE_RECORDS}
FORM = JsonForm({}, set())
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
    """Return what levada reads in a segment, in the words of Kafka's tool."""
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
        marker = decode_prefixed(EndTxnMarker, record.value)
        return f" endTxnMarker: {'COMMIT' if kind == COMMIT else 'ABORT'} coordinatorEpoch: {marker.coordinator_epoch}"
    if kind in SNAPSHOT_TYPES:
        name, message = SNAPSHOT_TYPES[kind]
        struct, _ = decode(message, record.value, read_prefix(name, record.value))
        return f" {name} {json.dumps(FORM.shown(struct, 0), separators=(',', ':'))}"
    return f" controlType: {OTHER_CONTROL_TYPES[kind]}({kind})"


def dumped_aborted(file: Path) -> list[str]:
    """Return the entries of an index of aborted transactions, in the words of Kafka's tool."""
    data = file.read_bytes()
    lines, at = [], 0
    while at < len(data):
        version = read_prefix("AbortedTxn", data[at:])
        entry, at = decode(AbortedTxn, data, version, at + 2)
        fields = {"version": version, "producerId": entry.producer_id, "firstOffset": entry.first_offset}
        fields |= {"lastOffset": entry.last_offset, "lastStableOffset": entry.last_stable_offset}
        lines.append(" ".join(f"{name}: {value}" for name, value in fields.items()))
    return lines


def coordinator_records(file: Path, kind: str) -> Iterator[list[Any]]:
    """Yield the records of a coordinator's log as CoordinatorLog prints them. kind: "group", "transaction" or "share"."""
    for record in (record for batch in batches_of(file) for record in batch.records()):
        assert record.key is not None
        found = COORDINATOR_RECORDS[kind].decode(record.key, record.value)
        key = _shown_whole(found.key, 0, record.key)
        version, value = -1, None
        if found.value is not None and record.value is not None:
            version = read_prefix(found.value.NAME, record.value)
            value = _shown_whole(found.value, version, record.value)
        yield [record.offset, found.key.RECORD_TYPE, version, key, value]


def _shown_whole(found: Data, version: int, data: bytes) -> dict[str, Any]:
    """Return what Java shows of a struct that holds all of `data`."""
    assert encode_prefixed(found, version) == data
    return FORM.shown(found, version)


def coordinator_records_in_java(program: JavaProgram, file: Path, kind: str) -> list[list[Any]]:
    """Return the same as Kafka reads them. program: CoordinatorLog."""
    lines = program.ask(f"{kind}\t{file}".encode()).decode().splitlines()
    return [[json.loads(column) for column in line.split("\t")] for line in lines]
