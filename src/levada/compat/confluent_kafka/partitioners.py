"""librdkafka's partitioners. Java's, which is its murmur2_random, is levada's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import randrange
from time import monotonic
from typing import Final, TypeAlias
from zlib import crc32

from levada.compat.confluent_kafka.error import ErrorCodes, exception
from levada.wire.murmur2 import partition_for_key

Hash: TypeAlias = Callable[[bytes, int], int]
Partitioner: TypeAlias = Callable[[str, bytes | None, int], int]


def _checked(key: bytes, partition_count: int) -> None:
    if not isinstance(key, bytes):
        raise TypeError(f"key must be bytes, not {type(key).__name__}")
    if partition_count <= 0:
        raise ValueError("partition_count must be > 0")


def consistent(key: bytes, partition_count: int) -> int:
    """Return the partition of a key by its CRC32, librdkafka's default."""
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


class _Sticky:
    """Chooses random partitions; a topic keeps its partition for sticky.partitioning.linger.ms, so that batches grow."""

    def __init__(self, linger_ms: int) -> None:
        self._linger_s = linger_ms / 1000
        self._chosen: dict[str, tuple[int, float]] = {}

    def choose(self, topic: str, count: int) -> int:
        partition, until = self._chosen.get(topic, (count, 0.0))
        now = monotonic()
        if partition >= count or now >= until:
            partition = randrange(count)
            self._chosen[topic] = (partition, now + self._linger_s)
        return partition


_HASHES: Final[Mapping[str, tuple[Hash | None, bool, bool]]] = {
    "random": (None, True, True),
    "consistent": (consistent, False, False),
    "consistent_random": (consistent, True, True),
    "murmur2": (murmur2, False, False),
    "fnv1a": (fnv1a, False, False),
    "fnv1a_random": (fnv1a, True, False),
}
"""The hash, and whether null keys and empty keys go to random partitions."""


def partitioner(name: str, sticky_linger_ms: int) -> Partitioner | None:
    """Return the partitioner of a name for levada; None for levada's own. Raises KafkaException for an unknown name."""
    if name == "murmur2_random":
        return None
    if name not in _HASHES:
        known = ", ".join(sorted({*_HASHES, "murmur2_random"}))
        raise exception(ErrorCodes._INVALID_ARG, f'Invalid value for configuration property "partitioner": {name!r}; known are {known}')
    hashed, null_is_random, empty_is_random = _HASHES[name]
    sticky = _Sticky(sticky_linger_ms)

    def choose(topic: str, key: bytes | None, count: int) -> int:
        if hashed is None or (null_is_random and key is None) or (empty_is_random and not key):
            return sticky.choose(topic, count)
        return hashed(key or b"", count)

    return choose
