"""The arguments of scan() as keywords, for type checkers and editors. Nothing imports this at run time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal

from levada.config.typed import ConsumerSettings
from levada.consumer.scan.bounds import Bound
from levada.consumer.scan.scanning import ScanProgress
from levada.types import K, TopicPartition, V


class ScanArguments(ConsumerSettings[K, V], Generic[K, V], total=False):
    """What scan() takes by keyword: its own arguments and a consumer's settings."""

    start: Bound | Mapping[Any, Bound]
    """Where to begin. Default: "earliest"."""
    end: Bound | Mapping[Any, Bound]
    """Where to stop; exclusive. Default: "latest"."""
    assignments: Mapping[TopicPartition, tuple[Bound, Bound]]
    """Exactly the partitions to read, with start and end each, instead of topics."""
    partitions: Iterable[int | TopicPartition] | None
    """Only these partitions of the topics."""
    keys: Iterable[bytes | str | None] | None
    """Only records with one of these keys."""
    timestamps: tuple[Bound | None, Bound | None] | None
    """Only records of a span of time: the first time, and the first that is too late."""
    progress: Callable[[ScanProgress], object] | None
    """Called after each piece that was read."""
    columns: Sequence[str] | None
    """As poll_arrow() has them."""
    text: Sequence[str]
    """As poll_arrow() has them."""
    batch_rows: int
    """An Arrow batch is full with this many rows. Default: 65,536."""
    batch_bytes: int
    """An Arrow batch is full with this many bytes. Default: 16 MiB."""
    on_data_loss: Literal["raise", "skip"]
    """What to do when records between start and end are gone. Default: "raise"."""
