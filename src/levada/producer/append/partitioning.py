"""Which partition a record or a row goes to: the one place that chooses, for send() and for send_arrow().

A partition named by the caller wins, then the caller's own partitioner, then the key's murmur2 hash over all partitions, as in Java
(unless partitioner.ignore.keys), and last the sticky choice of levada.producer.append.sticky.
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
"""What stands for the partition that keyless records stick to at the moment."""

Partitioner: TypeAlias = Callable[[str, bytes | None, int], int]
"""A caller's own choice: (topic, key, partition count) -> partition. Called once per record, outside the engine lock."""


@runtime_checkable
class RowPartitioner(Protocol):
    """A partitioner that also chooses for a whole column of keys at once; send_arrow() calls others row by row."""

    def __call__(self, topic: str, key: bytes | None, count: int, /) -> int:
        """Return the partition of a record, 0 to count - 1."""
        ...

    def partition_rows(self, topic: str, keys: pa.Array, count: int, /) -> Sequence[int]:
        """Return the partition of each row, 0 to count - 1, as any sequence or array of integers.

        keys: a large_binary array, null where a row has no key; rows whose partition the caller named are not among them.
        """
        ...


class Partitioning:
    """A producer's settings about partitions, applied. Methods may run user code: call them outside the engine lock, but for for_key()."""

    def __init__(self, partitioner: Partitioner | None, *, ignore_keys: bool) -> None:
        self.partitioner = partitioner
        self.ignores_keys = ignore_keys

    def for_key(self, key: bytes | None, count: int) -> int:
        """Return the partition of a record that nobody named one for: STICKY, or the key's among `count`."""
        return STICKY if key is None or self.ignores_keys else partition_for_key(key, count)

    def for_record(self, topic: str, key: bytes | None, count: int) -> int | None:
        """Return what the caller's own partitioner chooses, None without one. Raises ValueError for a partition that is not there."""
        if self.partitioner is None:
            return None
        return checked(self.partitioner(topic, key, count), topic, count)

    def for_rows(self, topic: str, count: int) -> Callable[[pa.Array], Sequence[int]] | None:
        """Return what chooses for a column of keys by the caller's own partitioner, None without one. It raises as for_record() does."""
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
    """Return what a caller's partitioner chose, or raise ValueError when there is no such partition."""
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
    """A partitioner that deals each topic's records out in turn, whatever their keys."""

    def __init__(self) -> None:
        self._turns: dict[str, counted[int]] = {}

    def __call__(self, topic: str, key: bytes | None, count: int, /) -> int:
        """Return the next partition in turn."""
        return next(self._turns.setdefault(topic, counted())) % count

    def partition_rows(self, topic: str, keys: pa.Array, count: int, /) -> Sequence[int]:
        """Return the next partitions in turn."""
        turns = self._turns.setdefault(topic, counted())
        return [turn % count for turn in islice(turns, len(keys))]
