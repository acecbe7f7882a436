"""Decoding value by value: one bad value is one malformed row, whatever its reader raises."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from levada.formats.reading import MalformedError, RowDecoder, SchemaLookupError


def decoded(kind: pa.DataType, *found: Any) -> Any:
    """Decode values whose reader returns what is found, or raises it."""

    def read(data: bytes) -> Any:
        one = found[data[0]]
        if isinstance(one, Exception):
            raise one
        return one

    return RowDecoder(read, kind).decode(pa.array([bytes([at]) for at in range(len(found))], pa.binary()))


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (MalformedError("no good"), "no good"),
        (AttributeError("'list' object has no attribute 'items'"), "not read: AttributeError: 'list' object has no attribute 'items'"),
        (RecursionError("too deep"), "not read: RecursionError: too deep"),
    ],
)
def test_whatever_a_reader_raises_is_one_malformed_row(raised: Exception, reason: str) -> None:
    found = decoded(pa.int32(), 1, raised, 3)
    assert (found.rows.to_pylist(), found.malformed.to_pylist()) == ([1, None, 3], [False, True, False])
    assert found.fault == (1, reason)


def test_a_registry_that_fails_is_no_malformed_row() -> None:
    with pytest.raises(SchemaLookupError, match="schema id 7 cannot be looked up") as failed:
        decoded(pa.int32(), 1, SchemaLookupError("id 7"))
    assert failed.value.row == 1


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (pa.int32(), 2**31, "beyond what its column can hold: "),
        (pa.int64(), 2**64, "beyond what its column can hold: "),
        (pa.decimal128(4, 2), b"x", "not of its column's type: "),
        (pa.binary(), 5, "not of its column's type: "),
    ],
)
def test_a_wrong_type_is_told_from_a_number_that_is_too_large(kind: pa.DataType, value: Any, reason: str) -> None:
    found = decoded(kind, None, value, None)
    assert found.malformed.to_pylist() == [False, True, False]
    assert found.fault.reason.startswith(reason)


def test_reasons_are_short() -> None:
    assert len(decoded(pa.int32(), ValueError("x" * 10_000)).fault.reason) < 600
