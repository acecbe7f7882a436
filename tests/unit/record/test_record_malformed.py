"""Row M-C7 of the fault matrix: batches that contradict themselves end as typed errors, quickly, and without memory."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.errors import CorruptRecordError, DecompressionError, ProtocolError
from levada.record.batch import seal
from levada.record.columnar import ColumnDecoder
from levada.record.compression import Codec
from levada.record.memory_records import read_batches
from levada.wire.varint import encode_varint
from record_kit import CODECS, build, forge, only_batch, raw_record, values

HUGE = encode_varint(2**31 - 1)


def read_as_records(data: bytes) -> None:
    for batch in read_batches(data):
        batch.records()


def read_as_columns(data: bytes) -> None:
    decoder = ColumnDecoder()
    for batch in read_batches(data):
        decoder.add(batch, "t", 0)
    decoder.finish()


READERS = pytest.mark.parametrize("read", [read_as_records, read_as_columns])

PAYLOADS = {
    "no record at all": b"",
    "record length 0": b"\x00",
    "record length negative": b"\x01",
    "record length beyond the end": raw_record(length=100),
    "record length too short": raw_record(value=b"\x06abc", length=6),
    "record length too long": raw_record(length=7) + b"\x00",
    "a second record not counted": raw_record() + raw_record(offset=0),
    "left over bytes": raw_record() + b"\x00",
    "key length -2": raw_record(key=b"\x03"),
    "key length huge": raw_record(key=HUGE),
    "key longer than the record": raw_record(key=b"\x7eab"),
    "value length -2": raw_record(value=b"\x03"),
    "value length huge": raw_record(value=HUGE),
    "header count -1": raw_record(headers=b"\x01"),
    "header count huge": raw_record(headers=HUGE),
    "header key null": raw_record(headers=b"\x02\x01\x01"),
    "header key huge": raw_record(headers=b"\x02" + HUGE + b"\x01"),
    "header value -2": raw_record(headers=b"\x02\x02a\x03"),
    "header value huge": raw_record(headers=b"\x02\x02a" + HUGE),
    "a header too few": raw_record(headers=b"\x04\x02a\x02b"),
    "a header too many": raw_record(headers=b"\x02\x02a\x02b\x02c\x02d"),
    "varint of 11 bytes": b"\x80" * 10 + b"\x01",
    "varint beyond 64 bits": raw_record(key=b"\xff" * 9 + b"\x02"),
    "varint that does not end": b"\x80" * 3,
    "no fields": b"\x02\x00",
    "offset delta negative": raw_record(offset=-1),
    "offset delta beyond the last": raw_record(offset=1),
    "timestamp overflow": raw_record(timestamp=2**63 - 1),
}


@READERS
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_M_C7_payloads_that_break_the_record_rules(payload: bytes, codec: Codec, read: Callable[[Any], object]) -> None:
    with pytest.raises(CorruptRecordError, match="record batch at offset 0"):
        read(forge(payload, codec=codec))


@READERS
@pytest.mark.parametrize("count", [2, 3, 1000])
def test_M12_fewer_records_than_counted(count: int, read: Callable[[Any], object]) -> None:
    with pytest.raises(CorruptRecordError):
        read(forge(raw_record(value=b"\x40" + bytes(32)), records_count=count, last_offset_delta=2000))


@READERS
@pytest.mark.parametrize("offsets", [(0, 0), (1, 0), (3, 2)])
def test_M_C7_offsets_that_overlap(offsets: tuple[int, int], read: Callable[[Any], object]) -> None:
    payload = b"".join(raw_record(offset=offset) for offset in offsets)

    with pytest.raises(CorruptRecordError, match="offset deltas do not ascend"):
        read(forge(payload, records_count=2, last_offset_delta=5))


HEADERS = {
    "count negative": {"records_count": -1},
    "count beyond the offsets": {"records_count": 2},
    "count huge": {"records_count": 2**31 - 1, "last_offset_delta": 2**31 - 1},
    "last offset delta negative": {"last_offset_delta": -1},
    "emptied, last offset delta negative": {"records_count": 0, "last_offset_delta": -1},
    "base offset negative": {"base_offset": -1},
    "no offset after the last": {"base_offset": 2**63 - 1},
    "codec 5": {"attributes": 5},
    "codec 6": {"attributes": 6},
    "codec 7": {"attributes": 7},
    "magic 3": {"magic": 3},
    "magic 127": {"magic": 127},
    "length negative": {"batch_length": -1},
    "length zero": {"batch_length": 0},
    "length least": {"batch_length": -(2**31)},
    "length below the header": {"batch_length": 48},
}


@READERS
@pytest.mark.parametrize("fields", HEADERS.values(), ids=HEADERS)
def test_M_C7_headers_that_contradict_themselves(fields: dict[str, Any], read: Callable[[Any], object]) -> None:
    with pytest.raises(CorruptRecordError, match="record batch at offset"):
        read(forge(raw_record(), **fields) + bytes(100))


def test_M_C7_a_huge_length_is_a_batch_that_is_not_there_yet() -> None:
    assert list(read_batches(forge(raw_record(), batch_length=2**31 - 1))) == []


@READERS
def test_M_C6_a_huge_count_takes_no_memory(read: Callable[[Any], object]) -> None:
    batch = bytes(forge(raw_record(), records_count=2**31 - 1, last_offset_delta=2**31 - 1))
    read(forge(raw_record()))

    tracemalloc.start()
    with pytest.raises(CorruptRecordError, match="2147483647 records cannot fit in 7 bytes"):
        read(batch)
    assert tracemalloc.get_traced_memory()[1] < 2 * 1024 * 1024
    tracemalloc.stop()


@READERS
@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec])
def test_M_C9_records_stop_at_the_decompression_limit(codec: Codec, read: Callable[[Any], object]) -> None:
    batch = only_batch(build([(0, None, bytes(100_000))], codec))

    with pytest.raises(DecompressionError):
        batch.records(50_000)
    with pytest.raises(DecompressionError):
        ColumnDecoder(max_decompressed=50_000).add(batch, "t", 0)


@READERS
@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec])
def test_a_payload_that_is_not_compressed_as_the_header_says(codec: Codec, read: Callable[[Any], object]) -> None:
    with pytest.raises(DecompressionError, match=codec.name.lower()):
        read(forge(raw_record(), attributes=int(codec)))


@given(data=st.data(), codec=st.sampled_from(CODECS))
def test_M_C2_mutated_batches_fail_only_as_protocol_errors(data: st.DataObject, codec: Codec) -> None:
    batch = build([*values(3), (5, b"k", None, [("h", b"x"), ("n", None)])], codec)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(12, len(batch) - 1))
        kind = data.draw(st.sampled_from(["set", "insert", "delete", "int"]))
        if kind == "set":
            batch[at] = data.draw(st.integers(0, 255))
        elif kind == "insert":
            batch.insert(at, data.draw(st.integers(0, 255)))
        elif kind == "delete" and len(batch) > 62:
            del batch[at]
        elif len(batch) - at >= 4:
            struct.pack_into(">i", batch, at, data.draw(st.sampled_from([-1, 2**31 - 1, -(2**31)])))
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    seal(batch)

    outcomes = [_outcome(read_as_records, batch), _outcome(read_as_columns, batch)]

    assert outcomes[0] == outcomes[1]


def _outcome(read: Callable[[Any], object], data: bytearray) -> str:
    try:
        read(data)
    except ProtocolError as error:
        return str(error)
    return "accepted"


@given(st.binary(max_size=300))
def test_M_C2_any_bytes_are_batches_or_protocol_errors(data: bytes) -> None:
    for read in (read_as_records, read_as_columns):
        _outcome(read, bytearray(data))


def test_an_error_says_which_record_and_where() -> None:
    payload = raw_record(value=b"\x02a") + raw_record(offset=1, value=HUGE)

    with pytest.raises(
        CorruptRecordError, match=r"record batch at offset 7: a value's length does not fit its record \(record 2 of 2, byte 8\)"
    ):
        only_batch(forge(payload, base_offset=7, records_count=2, last_offset_delta=1)).records()
