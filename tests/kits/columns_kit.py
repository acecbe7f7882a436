"""Record batches of Arrow columns, encoded without a producer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from levada.record.columnar import EncodedBatch, PartitionChoice, RejectedRow, seal_rows, sort_columns
from levada.record.compression import Codec
from levada.record.header import HEADER_SIZE


def encode_columns(
    data: Any,
    *,
    key: str | None,
    value: str | None,
    headers: str | None,
    timestamp: str | None,
    partition: str | None,
    partition_count: int,
    next_sticky_partition: Callable[[], int],
    codec: Codec,
    level: int | None,
    batch_size: int,
    max_record_size: int,
    now_ms: int,
    choose_rows: Callable[[pa.Array], Sequence[int]] | None = None,
    hash_keys: bool = True,
) -> tuple[Iterator[EncodedBatch], list[RejectedRow]]:
    """Rows of Arrow data as record batches per partition, by sort_columns() and seal_rows()."""
    columns = {"key": key, "value": value, "headers": headers, "timestamp": timestamp, "partition": partition}

    def next_sticky() -> tuple[int, int]:
        return next_sticky_partition(), batch_size - HEADER_SIZE

    choice = PartitionChoice(partition_count, next_sticky, choose_rows, hash_keys)
    rows, rejected = sort_columns(data, columns, choice, batch_size=batch_size, max_record_size=max_record_size, now_ms=now_ms)
    return seal_rows(rows, codec, level, batch_size), rejected
