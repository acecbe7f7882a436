"""Writes the seeds of the corpus: `python tests/fuzz/write_corpus.py` with tests on the path.

Seeds are small valid inputs, from which atheris finds its way: messages that hold something in every field, at their newest and some older
versions, batches of every codec, compressed streams as several libraries write them, streams of frames. What fuzzing found later is kept in
the same folders, under names that do not begin with "seed-".
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cramjam
import lz4.frame
import zstandard

import avro_kit
import protobuf_columns
from fuzz_targets import DATA_MESSAGES, PACKED_BATCH, PACKED_MESSAGES
from json_kit import BAD_TEXTS, EVERYTHING, GOOD_TEXTS, Documents
from levada.protocol.api import APIS
from levada.protocol.codegen import encode
from levada.protocol.frame import encode_request, encode_response
from levada.record.batch import set_producer_state
from levada.record.compression import Codec, compress
from levada.record.legacy.message import write_message
from protocol_strategies import emptied, filled, versions_of
from record_kit import NOW_MS, build, forge, raw_record

CORPUS = Path(__file__).parent / "corpus"
ROWS = [(NOW_MS, b"key", b"value" * 4, (("header", b"x"), ("null", None))), (NOW_MS + 5, None, b"v", ()), (NOW_MS, b"k", None, ())]
SIZE_BYTES = 4
TEXT = b"the same words and the same words and more of the same words " * 3
USED_MOST = (0, 1, 2, 3, 18, 19, 22, 32, 11, 68)


def responses() -> Iterator[bytes]:
    """The newest version of every API, full; all versions of those that are used most, empty ones too."""
    for key, request in APIS.items():
        versions = range(request.MIN_VERSION, request.MAX_VERSION + 1)
        for version in versions if key in USED_MOST else versions[-1:]:
            head = bytes([key, version - request.MIN_VERSION])
            yield head + encode_response(filled(request.RESPONSE, version, 1), version, 7)[SIZE_BYTES:]
        yield head + encode_response(emptied(request.RESPONSE, version), version, 7)[SIZE_BYTES:]


def requests() -> Iterator[bytes]:
    """The same of requests."""
    for key, request in APIS.items():
        versions = range(request.MIN_VERSION, request.MAX_VERSION + 1)
        for version in versions if key in USED_MOST else versions[-1:]:
            yield encode_request(filled(request, version, 1), version, 7, "client")[SIZE_BYTES:]
        yield encode_request(emptied(request, version), version, 7, None)[SIZE_BYTES:]


def embedded() -> Iterator[bytes]:
    """Every struct, every version."""
    for number, message in enumerate(DATA_MESSAGES):
        for place, version in enumerate(versions_of(message)):
            yield bytes([number, place]) + encode(filled(message, version, 1), version)


def records() -> Iterator[bytes]:
    """Batches of every codec, of a producer, of a transaction, controlling, emptied; two in a row and one cut."""
    for codec in Codec:
        yield b"\x01" + build(ROWS, codec)
    produced = build(ROWS)
    set_producer_state(produced, producer_id=7, producer_epoch=1, base_sequence=5, is_transactional=True)
    yield b"\x01" + produced
    yield b"\x01" + forge(raw_record(key=b"\x08\x00\x00\x00\x01"), attributes=0x30)
    yield b"\x01" + forge(b"", records_count=0, last_offset_delta=5)
    yield b"\x01" + forge(raw_record(), attributes=0x08, max_timestamp=NOW_MS)
    yield b"\x00" + build(ROWS) + build(ROWS, Codec.LZ4) + build(ROWS)[:-1]
    for codec in list(Codec)[1:]:
        yield bytes([PACKED_BATCH | codec << 2]) + build(ROWS)
    yield from messages()


def messages() -> Iterator[bytes]:
    """The same of message sets, plain and to be wrapped."""
    for magic in (0, 1):
        entries = bytearray()
        for offset, (timestamp, key, value, _) in enumerate(ROWS):
            write_message(entries, magic, offset, timestamp, key, value)
        yield b"\x00" + entries
        yield b"\x01" + entries[: len(entries) // 3]
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
            yield bytes([PACKED_MESSAGES | codec << 2 | magic << 5, 2]) + entries


def codecs() -> Iterator[bytes]:
    """Streams as levada writes them, and with what others may put into them."""
    for codec in list(Codec)[1:]:
        for data in (b"", TEXT, bytes(300)):
            yield bytes([codec - 1]) + compress(codec, data)
    yield b"\x00" + gzip.compress(TEXT, mtime=0) + gzip.compress(b"two", mtime=0)
    yield b"\x01" + bytes(cramjam.snappy.compress_raw(TEXT))
    of_lz4: list[dict[str, Any]] = [{"block_linked": True}, {"content_checksum": True, "block_checksum": True}, {"store_size": True}]
    for options in of_lz4:
        yield b"\x02" + lz4.frame.compress(TEXT, **options)
    of_zstd: list[dict[str, Any]] = [{"write_content_size": False}, {"write_checksum": True}]
    for options in of_zstd:
        yield b"\x03" + zstandard.ZstdCompressor(**options).compress(TEXT) * 2


def frames() -> Iterator[bytes]:
    """Frames of several sizes, read in steps of several sizes, and bad sizes."""
    stream = b"".join(struct.pack(">i", size) + bytes(size) for size in (3, 0, 40, 1))
    for step in (0, 3, 6, 255):
        yield bytes([step]) + stream
    for size in (-1, 1 << 17, (1 << 17) + 1, 2**31 - 1, -(2**31)):
        yield b"\xff" + stream + struct.pack(">i", size) + bytes(20)


def json() -> Iterator[bytes]:
    """Documents of every type, sound and not, and single values of each type."""
    for seed in range(5):
        yield "\n".join(text.replace("\n", " ") for text in Documents(EVERYTHING, seed).make(3, faults=0.1 * seed)).encode()
    for number, field in enumerate(EVERYTHING):
        if field.type in GOOD_TEXTS:
            yield "\n".join(f'{{"f{number}":{text}}}' for text in GOOD_TEXTS[field.type] + BAD_TEXTS[field.type]).encode()
    yield b'{"l":["\\ud83d","\xf0\x9f\x98\x80"],"l":[{}]}\n\n{"s":{"t":[[]]}}'


def avro() -> Iterator[bytes]:
    """Values with every type, sound ones, and ones that are cut off."""
    for number in range(6):
        values = [avro_kit.value(number), avro_kit.value(number + 1)[: 10 * number]]
        yield b"".join(bytes([len(value)]) + value for value in values)


def protobuf() -> Iterator[bytes]:
    """Messages of every type with something in every field, and ones that are cut off."""
    for number, name in enumerate(protobuf_columns.NAMES):
        messages = [protobuf_columns.filled(name, seed) for seed in range(3)]
        values = [*messages, messages[0][: len(messages[0]) // 2]]
        yield bytes([number]) + b"".join(bytes([len(value)]) + value for value in values)


def write(target: str, seeds: Iterator[bytes]) -> int:
    """Write the seeds of a target in place of the ones before; return how many bytes they are."""
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("seed-*.bin"):
        old.unlink()
    written = {bytes(seed): folder / f"seed-{number:03}.bin" for number, seed in enumerate(seeds)}
    return sum(path.write_bytes(seed) for seed, path in written.items())


if __name__ == "__main__":
    for seeds in (responses, requests, embedded, records, codecs, frames, json, avro, protobuf):
        print(f"{seeds.__name__}: {write(seeds.__name__, seeds())} bytes")
