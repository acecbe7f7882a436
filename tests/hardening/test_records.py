"""M-C2, M-C7 and M-C8: batches and message sets that were damaged under a right checksum, and markers that make no sense."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import pytest

from fuzz_targets import outcome_of, read_as_columns, read_as_rows
from hardening_kit import Tally, note, scaled
from hostile_records import MESSAGE_SETS, many
from levada.consumer.fetch.fetch_cursor import AbortedTransactions
from levada.record.compression import Codec
from levada.record.memory_records import read_batches
from levada.wire.varint import encode_varint
from record_kit import CODECS, forge, only_batch, raw_record

pytestmark = pytest.mark.hardening

INPUTS = scaled(50_000, 2_000)
LIMIT_MS = 10


def test_M_C2_damaged_records_are_read_or_refused_and_rows_and_columns_agree() -> None:
    tally = Tally()
    disagreed = []
    for _, data in many(INPUTS, 5):
        tally.run(read_as_rows, data)
        if outcome_of(read_as_rows, data) != outcome_of(read_as_columns, data):
            disagreed.append(data)

    tally.note("M-C2", "damaged batches and message sets, as rows and as columns")
    assert not tally.vague[:10]
    assert not disagreed[:3]
    assert tally.outcomes["CorruptRecordError"] > INPUTS / 2
    assert tally.outcomes["DecompressionError"] > 0


HEADERS: dict[str, list[Any]] = {
    "batch_length": [-1, 0, 48, 49, 2**31 - 1, -(2**31)],
    "magic": [-1, 3, 127, -128],
    "attributes": [5, 6, 7, 0x20, 0x40, -1, 1, 2, 3, 4],
    "last_offset_delta": [-1, -(2**31), 5, 2**31 - 1],
    "base_offset": [-1, -(2**63), 2**63 - 1],
    "base_timestamp": [-1, -(2**63), 2**63 - 1],
    "max_timestamp": [-(2**63)],
    "records_count": [-1, 0, 2, 5, 2**31 - 1, -(2**31)],
    "producer_id": [-2, -(2**63)],
    "base_sequence": [-2, 2**31 - 1],
}
LYING = [-2, -1, 0, 5, 2**31 - 1, -(2**31), 2**62]
FIELDS: dict[str, list[Any]] = {
    "length": LYING,
    "timestamp": [2**63 - 1, -(2**63)],
    "offset": [-1, 1, 2**31 - 1, -(2**31)],
    "key": [encode_varint(value) for value in LYING],
    "value": [encode_varint(value) for value in LYING],
    "headers": [encode_varint(value) for value in LYING],
}


def lies() -> list[bytes]:
    """One lie in one field of a header or a record, for every codec; varints that are too long; lengths of zero."""
    in_headers = [bytes(forge(raw_record(), **{field: value})) for field, values in HEADERS.items() for value in values]
    in_records = [raw_record(**{field: value}) for field, values in FIELDS.items() for value in values]
    others = [b"\x80" * 10 + b"\x01", b"\xff" * 11, bytes(300), b"\x00" * 7, b"\x01", b""]
    in_payloads = [bytes(forge(payload, codec=codec)) for payload, codec in product(in_records + others, CODECS)]
    return in_headers + in_payloads + [entry + bytes(100) for entry in in_headers]


def test_M_C7_every_lie_is_typed_and_quick() -> None:
    tally, slowest = Tally(), 0.0
    inputs = lies()
    for data in inputs:
        started = time.process_time()
        tally.run(read_as_rows, data)
        slowest = max(slowest, (time.process_time() - started) * 1000)
        tally.run(read_as_columns, data)

    tally.note("M-C7", "one lie in one field, as rows and as columns")
    note("M-C7", "the slowest of them", f"{slowest:.1f} ms", f"{LIMIT_MS} ms")
    assert not tally.vague[:10]
    assert tally.outcomes["CorruptRecordError"] > len(inputs)
    assert slowest < LIMIT_MS


@pytest.mark.parametrize("length", [0, -1, -12, 1, 2**31 - 1])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_M_C7_a_length_of_nothing_does_not_step_on_the_spot(magic: int, length: int) -> None:
    entry = bytearray(MESSAGE_SETS[magic] if magic < 2 else forge(raw_record()))
    entry[8:12] = length.to_bytes(4, "big", signed=True)
    tally = Tally()

    tally.run(lambda: [batch.records() for batch in read_batches(bytes(entry) * 50)])

    assert set(tally.outcomes) == ({"read"} if length == 2**31 - 1 else {"CorruptRecordError"})


PRODUCER = 7


def marker(key: bytes, *, producer_id: int = PRODUCER, value: bytes = b"\x01", count: int = 1) -> bytearray:
    """A control batch. key, value: with their length."""
    return forge(raw_record(key=key, value=value) if count else b"", attributes=0x30, producer_id=producer_id, records_count=count)


ABORT = b"\x08\x00\x00\x00\x00"
COMMIT = b"\x08\x00\x00\x00\x01"
MARKERS = {
    "abort": (marker(ABORT), 0),
    "commit": (marker(COMMIT), 1),
    "of an unknown type": (marker(b"\x08\x00\x00\x00\x63"), 99),
    "of a negative type": (marker(b"\x08\x00\x00\xff\xff"), -1),
    "of a version to come": (marker(b"\x08\x00\x09\x00\x00"), 0),
    "with a longer key": (marker(b"\x0c\x00\x00\x00\x00\x00\x00"), 0),
    "emptied by compaction": (marker(ABORT, count=0), None),
}


@pytest.mark.parametrize("name", MARKERS)
def test_M_C8_a_marker_is_no_record_whatever_it_says(name: str) -> None:
    batch, kind = MARKERS[name]

    assert only_batch(batch).control_type() == kind
    assert only_batch(batch).records() == []
    assert read_as_columns(bytes(batch)) == []
    note("M-C8", f"marker {name}", "no record, no error", "no exception")


@pytest.mark.parametrize("key", [b"\x01", b"\x00", b"\x06\x00\x00\x00"], ids=["null", "empty", "of 3 bytes"])
def test_M_C8_a_marker_without_a_type_is_an_error_only_where_its_type_matters_as_in_java(key: bytes) -> None:
    batch = only_batch(marker(key))
    tally = Tally()

    tally.run(batch.control_type)

    assert (batch.records(), tally.outcomes, tally.vague) == ([], {"CorruptRecordError": 1}, [])


def test_M_C8_aborts_that_make_no_sense_hide_nothing_else() -> None:
    abort = only_batch(marker(ABORT))
    other = only_batch(marker(ABORT, producer_id=99))
    data = only_batch(forge(raw_record(), attributes=0x10, producer_id=PRODUCER))
    aborted = AbortedTransactions(((PRODUCER, 0),), 1 << 20)

    assert aborted.hides(data)
    assert [aborted.hides(batch) for batch in (other, abort, abort, data, other)] == [False] * 5
    note("M-C8", "two aborts of one producer, aborts of another one", "no error, nothing else hidden", "no exception")


def test_M_C8_an_abort_that_never_comes_hides_its_producer_alone() -> None:
    other = only_batch(forge(raw_record(), attributes=0x10, producer_id=PRODUCER + 1))
    plain = only_batch(forge(raw_record(), producer_id=PRODUCER, codec=Codec.GZIP))
    aborted = AbortedTransactions(((PRODUCER, 0), (PRODUCER, 0), (-5, 0)), 1 << 20)

    assert not aborted.hides(other)
    assert not aborted.hides(plain)
