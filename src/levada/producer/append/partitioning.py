"""The partitioner, for send() and send_arrow(): the partition of a record or a row.

A partition that the caller has named comes first, then the caller's own partitioner, then the murmur2 hash of the key over all partitions,
as in Java (unless partitioner.ignore.keys), and last the sticky partition of levada.producer.append.sticky.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count as counted
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from levada.wire.murmur2 import partition_for_key

if TYPE_CHECKING:
    import pyarrow as pa

STICKY = -1
"""The number that means the sticky partition."""

Partitioner: TypeAlias = Callable[[str, bytes | None, int], int]
"""A partitioner: (topic, key, partition count) -> partition. Called once per record, without the engine's lock."""


@runtime_checkable
class RowPartitioner(Protocol):
    """A partitioner that also takes a whole column of keys; send_arrow() calls other partitioners row by row."""

    def __call__(self, topic: str, key: bytes | None, count: int, /) -> int:
        """Return the partition of a record, 0 to count - 1."""
        ...

    def partition_rows(self, topic: str, keys: pa.Array, count: int, /) -> Sequence[int]:
        """Return the partition of each row, 0 to count - 1, as any sequence or array of integers.

        keys: a large_binary array, null where a row has no key; rows whose partition the caller named are not among them.
        """
        ...


class Partitioning:
    """Applies the producer's partitioner options. Methods may call user code, so call them without the engine's lock, except for_key()."""

    def __init__(self, partitioner: Partitioner | None, *, ignore_keys: bool) -> None:
        self.partitioner = partitioner
        self.ignores_keys = ignore_keys

    def for_key(self, key: bytes | None, count: int) -> int:
        """Return the partition of a record without an explicit one: STICKY, or that of the key among `count`."""
        return STICKY if key is None or self.ignores_keys else partition_for_key(key, count)

    def for_record(self, topic: str, key: bytes | None, count: int) -> int | None:
        """Return the partition that the caller's partitioner chooses; None without a partitioner.

        Raises ValueError if it does not exist.
        """
        if self.partitioner is None:
            return None
        return checked(self.partitioner(topic, key, count), topic, count)

    def for_rows(self, topic: str, count: int) -> Callable[[pa.Array], Sequence[int]] | None:
        """Return a function that partitions a column of keys with the caller's partitioner; None without one.

        It raises as for_record() does.
        """
        partitioner = self.partitioner
        if partitioner is None:
            return None

        def choose(keys: pa.Array) -> Sequence[int]:
            if isinstance(partitioner, RowPartitioner):
                chosen = _as_list(partitioner.partition_rows(topic, keys, count))
                if len(chosen) != len(keys):
                    raise ValueError(f"the partitioner chose {len(chosen)} partitions for {len(keys)} rows of topic {topic!r}")
            else:
                chosen = [partitioner(topic, key.as_py(), count) for key in keys]
            return [checked(partition, topic, count) for partition in chosen]

        return choose


def checked(partition: int, topic: str, count: int) -> int:
    """Return the partition that the caller's partitioner chose. Raises ValueError if it does not exist."""
    if isinstance(partition, int) and 0 <= partition < count:
        return partition
    raise ValueError(f"the partitioner chose partition {partition!r} for topic {topic!r}, which has partitions 0 to {count - 1}")


def _as_list(chosen: Any) -> list[int]:
    for method in ("to_pylist", "tolist"):
        if hasattr(chosen, method):
            plain: list[int] = getattr(chosen, method)()
            return plain
    return list(chosen)


class RoundRobin:
    """A partitioner that sends the records of a topic to its partitions in turn, whatever their keys."""

    def __init__(self) -> None:
        self._turns: dict[str, counted[int]] = {}

    def __call__(self, topic: str, key: bytes | None, count: int, /) -> int:
        """Return the next partition in turn."""
        return next(self._turns.setdefault(topic, counted())) % count

    def partition_rows(self, topic: str, keys: pa.Array, count: int, /) -> Sequence[int]:
        """Return the next partitions in turn."""
        turns = self._turns.setdefault(topic, counted())
        return [turn % count for turn in islice(turns, len(keys))]
