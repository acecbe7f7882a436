"""The program's own partitioner, for the records of send() and the rows of send_arrow().

The first of these rules that applies decides: the partition that the caller named; the program's partitioner; the murmur2 hash of the key,
as in Java, unless partitioner.ignore.keys=true; the sticky partition. The last two are in Appender.partition_for() for a record, and in
PartitionChoice (levada.record.columnar.sorter) for rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count as counted
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa

STICKY = -1
"""The partition number that stands for the topic's current sticky partition."""

Partitioner: TypeAlias = Callable[[str, bytes | None, int], int]
"""A partitioner of the program: (topic, serialized key, partition count) -> partition. Called per record, without the engine's lock."""


@runtime_checkable
class RowPartitioner(Protocol):
    """A partitioner that can also partition a column of keys at once. send_arrow() calls other partitioners once per row."""

    def __call__(self, topic: str, key: bytes | None, count: int, /) -> int:
        """Return the partition of a record, 0 to count - 1."""
        ...

    def partition_rows(self, topic: str, keys: pa.Array, count: int, /) -> Sequence[int]:
        """Return the partition of each row, 0 to count - 1, as any sequence or array of integers.

        keys: a large_binary array; null means that the row has no key. It does not include rows for which the caller named a partition.
        """
        ...


class Partitioning:
    """Applies the producer's partitioner and partitioner.ignore.keys.

    Methods and the function from for_rows() call code of the program, so the caller must not hold the engine's lock.
    """

    def __init__(self, partitioner: Partitioner | None, *, ignore_keys: bool) -> None:
        self.partitioner = partitioner
        self.ignores_keys = ignore_keys

    def for_record(self, topic: str, key: bytes | None, count: int) -> int | None:
        """Return the partition that the program's partitioner chooses; None without a partitioner.

        Raises ValueError if the topic has no such partition.
        """
        if self.partitioner is None:
            return None
        return checked(self.partitioner(topic, key, count), topic, count)

    def for_rows(self, topic: str, count: int) -> Callable[[pa.Array], Sequence[int]] | None:
        """Return a function that calls the program's partitioner for a column of keys; None without a partitioner.

        The function raises ValueError for a partition that does not exist, or if the partitioner returns too few or too many partitions.
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
    """Return the partition that the program's partitioner chose. Raises ValueError if the topic has no such partition."""
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
    """A partitioner that sends the records of a topic to its partitions in turn and ignores keys."""

    def __init__(self) -> None:
        self._turns: dict[str, counted[int]] = {}

    def __call__(self, topic: str, key: bytes | None, count: int, /) -> int:
        """Return the next partition. count: the number of partitions. The key is not used."""
        return next(self._turns.setdefault(topic, counted())) % count

    def partition_rows(self, topic: str, keys: pa.Array, count: int, /) -> Sequence[int]:
        """Return the next len(keys) partitions."""
        turns = self._turns.setdefault(topic, counted())
        return [turn % count for turn in islice(turns, len(keys))]
