"""librdkafka's partitioners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import randrange
from typing import Final, TypeAlias
from zlib import crc32

from levada.compat.confluent_kafka.error import ErrorCodes, exception
from levada.wire.murmur2 import partition_for_key

Hash: TypeAlias = Callable[[bytes, int], int]
Partitioner: TypeAlias = Callable[[bytes | None, int], int | None]
"""Chooses the partition for a key and a number of partitions. The result None leaves the choice to levada."""


def _checked(key: bytes, partition_count: int) -> None:
    if not isinstance(key, bytes):
        raise TypeError(f"key must be bytes, not {type(key).__name__}")
    if partition_count <= 0:
        raise ValueError("partition_count must be > 0")


def consistent(key: bytes, partition_count: int) -> int:
    """Return the partition of a key by its CRC32, as librdkafka does by default for keys that are not empty."""
    _checked(key, partition_count)
    return crc32(key) % partition_count


def murmur2(key: bytes, partition_count: int) -> int:
    """Return the partition of a key by its murmur2 hash, as Java's clients do."""
    _checked(key, partition_count)
    return partition_for_key(key, partition_count)


def fnv1a(key: bytes, partition_count: int) -> int:
    """Return the partition of a key by its FNV-1a hash, as Sarama does."""
    _checked(key, partition_count)
    hashed = 0x811C9DC5
    for byte in key:
        hashed = (hashed ^ byte) * 0x01000193 & 0xFFFFFFFF
    return (hashed if hashed < 1 << 31 else (1 << 32) - hashed) % partition_count


_HASHES: Final[Mapping[str, tuple[Hash | None, bool, bool]]] = {
    "random": (None, True, True),
    "consistent": (consistent, False, False),
    "consistent_random": (consistent, True, True),
    "murmur2": (murmur2, False, False),
    "murmur2_random": (murmur2, True, False),
    "fnv1a": (fnv1a, False, False),
    "fnv1a_random": (fnv1a, True, False),
}
"""By name: the hash, None for random partitions, and whether null keys and empty keys go to random partitions."""


def partitioner(name: str) -> Partitioner:
    """Return the partitioner of a name. Raises KafkaException for an unknown name."""
    if name not in _HASHES:
        known = ", ".join(sorted(_HASHES))
        raise exception(ErrorCodes._INVALID_ARG, f'Invalid value for configuration property "partitioner": {name!r}; known are {known}')
    hashed, null_is_random, empty_is_random = _HASHES[name]

    def choose(key: bytes | None, count: int) -> int | None:
        if key is None and null_is_random:
            # Levada spreads them, and fills a batch before it goes to another partition.
            return None
        if hashed is None or (empty_is_random and not key):
            return randrange(count)
        return hashed(key or b"", count)

    return choose
