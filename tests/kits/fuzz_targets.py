"""What fuzzing calls: one function per kind of untrusted bytes, the same entry points that client and broker use.

A target takes any bytes. It returns when they were read, or refused with a ProtocolError; anything else that it raises is a finding, and so
is a second reading, a second reader or a second writer that disagrees. `make fuzz` drives the targets with atheris; plain pytest runs the
corpus through them.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final
from zlib import crc32

import pyarrow as pa

from avro_kit import decoders
from json_kit import EVERYTHING
from levada.broker.apis import SERVED
from levada.broker.node.node import BrokerNode
from levada.errors import ProtocolError
from levada.protocol.api import APIS
from levada.protocol.codegen import decode, encode
from levada.protocol.frame import FrameReader, decode_request, decode_response
from levada.protocol.schema import Message
from levada.record.batch import RecordBatch, seal
from levada.record.columnar import ColumnDecoder, JsonDecoder
from levada.record.compression import Codec, compress, decompress
from levada.record.header import AFTER_LENGTH, CODEC_BITS, HEADER_SIZE, MAGIC, MAGIC_AT
from levada.record.legacy.message import write_message
from levada.record.memory_records import read_batches
from levada.types import TopicPartition
from levada.wire import varint
from protobuf_columns import decoders as protobuf_decoders
from protocol_strategies import data_messages, versions_of

MAX_CPU_S: Final = 1.0
MAX_DECOMPRESSED: Final = 1 << 20
MAX_FRAME: Final = 1 << 17
START_MS: Final = 1_700_000_000_000
# The low byte of a batch's attributes.
ATTRIBUTES_AT: Final = 22
TP: Final = TopicPartition("t", 0)

DATA_MESSAGES: Final[list[type[Message]]] = [*data_messages("embedded"), *data_messages("records")]

Target = Callable[[bytes], None]


class Finding(Exception):
    """Two ways that must agree do not, or a limit was passed."""


def fuzz_responses(data: bytes) -> None:
    """API key, version, then a response's frame: what a broker may send to a client."""
    if len(data) < 2 or data[0] not in APIS:
        return
    request = APIS[data[0]]
    version = request.MIN_VERSION + data[1] % (request.MAX_VERSION - request.MIN_VERSION + 1)
    with suppress(ProtocolError):
        _check_written_again(decode_response(request, version, data[2:]), version)


def fuzz_requests(data: bytes) -> None:
    """A request's frame: what anybody may send to a broker, before he has said who he is."""
    with suppress(ProtocolError):
        found = decode_request(data)
        _check_written_again(found.request, found.version)
        if found.api_key in SERVED:
            serve(data)


def fuzz_embedded(data: bytes) -> None:
    """A number that chooses, a version, then a struct that lies in another message's bytes or in a topic; the same bytes as varints."""
    if len(data) < 2:
        return
    message = DATA_MESSAGES[data[0] % len(DATA_MESSAGES)]
    versions = versions_of(message)
    version = versions[data[1] % len(versions)]
    with suppress(ProtocolError):
        _check_written_again(decode(message, data, version, 2)[0], version)
    for read, write in VARINTS:
        with suppress(ProtocolError):
            value, _ = read(data, 2)
            if read(write(value), 0)[0] != value:
                raise Finding(f"{read.__name__} and {write.__name__} disagree about {value}")


def fuzz_records(data: bytes) -> None:
    """A byte that says how the others become the records of a fetch response or a produce request, see framed_records()."""
    records = framed_records(data[0], data[1:]) if data else b""
    as_rows, as_columns = outcome_of(read_as_rows, records), outcome_of(read_as_columns, records)
    if as_rows != as_columns:
        raise Finding(f"rows and columns disagree: {as_rows!r}, {as_columns!r}")
    with suppress(ProtocolError):
        for batch in read_batches(records):
            _look_at(batch)


def fuzz_codecs(data: bytes) -> None:
    """A byte that chooses the codec, then a compressed stream."""
    if not data:
        return
    with suppress(ProtocolError):
        size = len(decompress(Codec(1 + data[0] % 4), data[1:], MAX_DECOMPRESSED))
        if size > MAX_DECOMPRESSED:
            raise Finding(f"{size} bytes are more than the limit")


def fuzz_frames(data: bytes) -> None:
    """How many bytes each read brings, then a stream of frames."""
    if not data:
        return
    expected, is_broken = _frames_of(data[1:])
    found: list[bytes] = []
    try:
        for frames in _received(FrameReader(MAX_FRAME), data[1:], 1 + data[0]):
            found += frames
        failed = False
    except ProtocolError:
        failed = True
    if found != expected or failed != is_broken:
        raise Finding(f"{len(found)} frames and failed={failed}, expected {len(expected)} and {is_broken}")


def fuzz_json(data: bytes) -> None:
    """A JSON value per line: what a record's value may hold."""
    values = pa.array(data.split(b"\n"), pa.binary())
    decoder = JsonDecoder(EVERYTHING)
    found, backwards = decoder.decode(values), decoder.decode(values[::-1])
    found.rows.validate(full=True)
    # Rows are compared as text, where no number is equal to no number.
    if str(found.rows.to_pylist()) != str(backwards.rows.to_pylist()[::-1]) or not found.malformed.equals(backwards.malformed[::-1]):
        raise Finding("a JSON value is read otherwise among others")


def fuzz_avro(data: bytes) -> None:
    """Avro values, each after its size in a byte: what a record's value may hold."""
    values = _sized(data)
    by_columns, one_by_one = decoders()
    columns, rows = by_columns.decode(values), one_by_one.decode(values)
    columns.rows.validate(full=True)
    for row, (is_malformed, is_refused) in enumerate(zip(columns.malformed.to_pylist(), rows.malformed.to_pylist(), strict=True)):
        # fastavro takes a branch or a symbol below zero for one of the last ones, so it may read what is malformed here.
        if is_malformed < is_refused:
            raise Finding("a value that fastavro refuses was read by columns")
        if not is_malformed and _texts(columns.rows.slice(row, 1)) != _texts(rows.rows.slice(row, 1)):
            raise Finding("a value was read otherwise than fastavro reads it")


def fuzz_protobuf(data: bytes) -> None:
    """The number of a message type, and messages, each after its size in a byte: what a record's value may hold."""
    values = _sized(data[1:])
    by_columns, one_by_one = protobuf_decoders(data[0] if data else 0)
    columns, rows = by_columns.decode(values), one_by_one.decode(values)
    columns.rows.validate(full=True)
    if columns.malformed != rows.malformed:
        raise Finding("a message is malformed for one of the decoders only")
    for row in range(len(values)):
        if _texts(columns.rows.slice(row, 1)) != _texts(rows.rows.slice(row, 1)):
            raise Finding("a message was read otherwise than the package reads it")


def _sized(data: bytes) -> pa.Array:
    """Return values, each of which stands after its size in a byte."""
    found, at = [], 0
    while at < len(data):
        found.append(data[at + 1 : at + 1 + data[at]])
        at += 1 + data[at]
    return pa.array(found, pa.binary())


def _texts(array: pa.Array) -> list[str]:
    """Return what a column shows, in which no number is equal to no number. Fields of a null struct count as null."""
    if pa.types.is_struct(array.type):
        return [str(array.is_null()), *(text for field in array.flatten() for text in _texts(field))]
    if pa.types.is_map(array.type):
        # fastavro keeps the last value of a repeated key, Arrow all of them. And maps have no order.
        return [str([row and sorted(dict(row).items(), key=str) for row in array.to_pylist()])]
    return [str(array)]


TARGETS: Final[dict[str, Target]] = {
    "responses": fuzz_responses,
    "requests": fuzz_requests,
    "embedded": fuzz_embedded,
    "records": fuzz_records,
    "codecs": fuzz_codecs,
    "frames": fuzz_frames,
    "json": fuzz_json,
    "avro": fuzz_avro,
    "protobuf": fuzz_protobuf,
}

VARINTS: Final[list[tuple[Any, Any]]] = [
    (varint.decode_uvarint, varint.encode_uvarint),
    (varint.decode_uvarlong, varint.encode_uvarint),
    (varint.decode_varint, varint.encode_varint),
    (varint.decode_varlong, varint.encode_varint),
]


def run(target: Target, data: bytes) -> None:
    """Run a target within the time an input may take, in seconds of the processor.

    An input that seems slow is tried again: the first that meets a version of a message has its code generated.
    """
    if _cpu_seconds(target, data) > MAX_CPU_S and (taken := _cpu_seconds(target, data)) > MAX_CPU_S:
        raise Finding(f"{taken:.1f} s for {len(data)} bytes")


def _cpu_seconds(target: Target, data: bytes) -> float:
    started = time.process_time()
    target(data)
    return time.process_time() - started


RAW, SEALED, PACKED_BATCH, PACKED_MESSAGES = range(4)
LEAST_ENTRY: Final = 26


def framed_records(how: int, body: bytes) -> bytes:
    """Bytes as they are; with length and checksum put right; what follows a batch's header compressed; compressed into a wrapper.

    how: one of the four in the lowest two bits, then the codec in three, then the wrapper's magic in one.
    """
    kind, codec, magic = how & 3, Codec(min(how >> 2 & 7, Codec.ZSTD)), how >> 5 & 1
    if kind == RAW:
        return body
    if kind == PACKED_BATCH and len(body) > HEADER_SIZE:
        batch = bytearray(body[:HEADER_SIZE] + compress(codec, body[HEADER_SIZE:]))
        batch[ATTRIBUTES_AT] = batch[ATTRIBUTES_AT] & ~CODEC_BITS | codec
        return sealed(batch)
    if kind == PACKED_MESSAGES and body:
        wrapper = bytearray()
        packer = Codec(codec % Codec.ZSTD)
        write_message(wrapper, magic, body[0], START_MS, None, compress(packer, body[1:]), codec=packer)
        return bytes(wrapper)
    return sealed(bytearray(body))


def sealed(records: bytearray) -> bytes:
    """The bytes as one entry whose length and checksum are right; as they are when they are too short for one."""
    if len(records) < LEAST_ENTRY or records[MAGIC_AT] > MAGIC or (records[MAGIC_AT] == MAGIC and len(records) < HEADER_SIZE):
        return bytes(records)
    struct.pack_into(">i", records, 8, len(records) - AFTER_LENGTH)
    if records[MAGIC_AT] == MAGIC:
        seal(records)
    else:
        struct.pack_into(">I", records, AFTER_LENGTH, crc32(records[MAGIC_AT:]))
    return bytes(records)


def read_as_rows(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Offset, timestamp, key and value of every record, read as objects."""
    return [row[:4] for batch in read_batches(data) for row in batch.records(MAX_DECOMPRESSED)]


def read_as_columns(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """The same, read as Arrow columns."""
    decoder = ColumnDecoder(("offset", "timestamp", "key", "value", "headers"), max_decompressed=MAX_DECOMPRESSED)
    for batch in read_batches(data):
        decoder.add(batch, TP.topic, TP.partition)
    table = decoder.finish()
    # As numbers: a timestamp may be any, and not every one is a date.
    names = [table.column(name).cast("int64").to_pylist() for name in ("offset", "timestamp")]
    return list(zip(*names, table.column("key").to_pylist(), table.column("value").to_pylist(), strict=True))


def _look_at(batch: RecordBatch) -> None:
    repr(batch)
    with suppress(ProtocolError):
        batch.verify_crc()
    _ = batch.next_offset, batch.last_sequence, batch.delete_horizon_ms, batch.timestamp_type, batch.is_transactional
    rows = batch.consumer_records(TP, MAX_DECOMPRESSED)
    if len(rows) != (0 if batch.is_control else batch.records_count):
        raise Finding(f"{len(rows)} records of {batch.records_count}")
    batch.control_type()


def outcome_of(read: Callable[[bytes], Any], data: bytes) -> Any:
    """What was read, or the text of the error."""
    try:
        return read(data)
    except ProtocolError as error:
        return str(error)


def _check_written_again(message: Message, version: int) -> None:
    """What was read can be written, and reads as the same: compared as bytes, since a NaN is not itself."""
    repr(message)
    written = encode(message, version)
    again, end = decode(type(message), written, version)
    if end != len(written) or encode(again, version) != written:
        raise Finding(f"{type(message).__name__} v{version} is not what was written")


class _Alarm(logging.Handler):
    """Makes a finding of what the broker logs as a fault of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1]:
            raise record.exc_info[1]


@contextmanager
def _no_internal_error() -> Iterator[None]:
    log = logging.getLogger("levada.broker")
    alarm = _Alarm(logging.ERROR)
    log.addHandler(alarm)
    propagates, log.propagate = log.propagate, False
    try:
        yield
    finally:
        log.propagate = propagates
        log.removeHandler(alarm)


def serve(frame: bytes) -> str:
    """Send a request to a broker; return whether it answered, closed the connection or stayed silent. Its own faults are raised."""
    node = BrokerNode(wall_offset_ms=START_MS)
    node.create_topic("t", 1)
    node.connect(1)
    with _no_internal_error():
        node.receive(1, frame, 0)
        node.advance(600_000)
        frames = [frame for _, frame in node.outgoing()]
    return "silent" if not frames else "closed" if frames[0] is None else "answered"


def _frames_of(data: bytes) -> tuple[list[bytes], bool]:
    """What a stream holds, found the simplest way: whole frames, and whether it breaks off at a bad size."""
    frames: list[Any] = []
    at = 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        if not 0 <= size <= MAX_FRAME:
            return frames, True
        if at + 4 + size > len(data):
            break
        frames.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return frames, False


def _received(reader: FrameReader, data: bytes, step: int) -> Iterator[list[bytes]]:
    while data:
        buffer = reader.get_buffer()
        count = min(len(buffer), len(data), step)
        if not count:
            raise Finding("a buffer without room")
        buffer[:count] = data[:count]
        data = data[count:]
        yield [bytes(frame) for frame in reader.received(count)]
    if reader.fault:
        raise reader.fault
