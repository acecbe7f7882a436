from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.wire.murmur2 import murmur2, partition_for_key, partitions_for_keys

JAVA = {
    b"": 275646681,
    b"21": -973932308,
    b"foobar": -790332482,
    b"abc": 479470107,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
}


@pytest.mark.parametrize("key", JAVA)
def test_P3_keys_hash_as_in_java(key: bytes) -> None:
    assert murmur2(key) == JAVA[key]
    assert murmur2(memoryview(b"x" + key)[1:]) == JAVA[key]


def test_TR48_the_sign_is_masked_not_dropped() -> None:
    assert partition_for_key(b"21", 1000) == (-973932308 & 0x7FFFFFFF) % 1000


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@given(st.binary(max_size=100))
def test_P3_kafka_python_chooses_the_same_partitions(key: bytes) -> None:
    from kafka.partitioner.default import murmur2 as theirs

    assert murmur2(key) & 0x7FFFFFFF == theirs(key) & 0x7FFFFFFF


@given(st.lists(st.none() | st.binary(max_size=20), min_size=1), st.integers(1, 50), st.integers(0, 9))
def test_P3_a_column_of_keys_is_hashed_like_each_key(keys: list[bytes | None], count: int, start: int) -> None:
    column = pa.array([b"before"] * start + keys, pa.large_binary()).slice(start)
    validity, offsets, data = column.buffers()
    partitions = memoryview(bytearray(b"\xff" * 4 * len(keys))).cast("i")

    partitions_for_keys(
        memoryview(data or b"").cast("B"),
        memoryview(offsets).cast("B").cast("q")[start:],
        memoryview(validity).cast("B") if validity else None,
        start,
        count,
        partitions,
    )

    assert list(partitions) == [-1 if key is None else partition_for_key(key, count) for key in keys]


def test_a_partition_given_before_stays() -> None:
    offsets = memoryview(bytearray(24)).cast("q")
    partitions = memoryview(bytearray(8)).cast("i")
    partitions[0] = 7
    partitions[1] = -2

    partitions_for_keys(memoryview(b""), offsets, None, 0, 10, partitions)

    assert list(partitions) == [7, -2]
