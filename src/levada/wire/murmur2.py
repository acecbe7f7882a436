# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The 32-bit murmur2 hash with which Java's producer chooses the partition of a key.

All producers of a topic must use exactly this hash; otherwise records with the same key go to different partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

SEED = 0x9747B28C
M = 0x5BD1E995
MASK = 0xFFFFFFFF


def murmur2(data: bytes | bytearray | memoryview) -> int:
    """Return the murmur2 hash of `data` as a signed 32-bit number, like Java's Utils.murmur2()."""
    key = bytes(data)
    unsigned = hash_bytes(key, 0, len(key))
    return unsigned - (1 << 32) if unsigned > 0x7FFFFFFF else unsigned


def partition_for_key(key: bytes, count: int) -> int:
    """Return the partition that Kafka's default partitioner chooses for a key.

    count: the number of the topic's partitions, including partitions without a leader.
    """
    # Most keys are bytes; for these bytes() would only look for a __bytes__ method, which takes longer than the hash.
    data = key if type(key) is bytes else bytes(key)
    return (hash_bytes(data, 0, len(data)) & 0x7FFFFFFF) % count


def partitions_for_keys(data: Any, offsets: Any, validity: Any, shift: int, count: int, partitions: Any) -> None:
    """Set partitions[i] to the partition of the key in row i, if partitions[i] is -1 and the key is not null.

    partitions: an int32 for each row. data, offsets, validity: the buffers of an Arrow large_binary column with the keys. offsets: begins
    with the first row; None if all keys are null. validity: None if no key is null. shift: the position of the first row's bit in
    `validity`. count: the number of the topic's partitions.
    """
    if offsets is not None:
        hash_rows(data, offsets, validity, shift, count, partitions)


def hash_rows(data: Any, offsets: Any, validity: Any, shift: int, count: int, partitions: Any) -> None:
    """Do the work of partitions_for_keys() for a column that has keys. The arguments are those of partitions_for_keys()."""
    nullable = validity is not None
    with cython.nogil:
        for row in range(len(partitions)):
            if partitions[row] != -1 or (nullable and not validity[(row + shift) >> 3] >> ((row + shift) & 7) & 1):
                continue
            if cython.compiled:
                hashed = hash_bytes(cython.address(data[0]), offsets[row], offsets[row + 1])
            else:
                hashed = hash_bytes(data, offsets[row], offsets[row + 1])
            partitions[row] = (hashed & 0x7FFFFFFF) % count


def hash_bytes(source: Any, start: int, end: int) -> int:
    """Return the murmur2 hash of the bytes of `source` from `start` to `end`, as an unsigned 32-bit number.

    The masks limit Python's ints to 32 bits; in C they cost nothing.
    """
    length = end - start
    state = (SEED ^ length) & MASK
    at = start
    while end - at >= 4:
        high = source[at + 3]
        word = (source[at] | source[at + 1] << 8 | source[at + 2] << 16 | high << 24) * M & MASK
        word = (word ^ word >> 24) * M & MASK
        state = (state * M & MASK) ^ word
        at += 4
    left = end - at
    if left == 3:
        state ^= source[at + 2] << 16
    if left >= 2:
        state ^= source[at + 1] << 8
    if left >= 1:
        state = (state ^ source[at]) * M & MASK
    state = (state ^ state >> 13) * M & MASK
    return state ^ state >> 15
