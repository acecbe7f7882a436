"""Records as columns. They need pyarrow, which is an extra: without it, the error says how to get it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from levada.config import ConsumerConfig

ARROW_BYTES = 16 << 20
DEFAULT_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")


@contextmanager
def importing_columns() -> Iterator[None]:
    """Around an import of levada.record.columnar."""
    try:
        yield
    except ImportError as missing:
        raise ImportError("columns need pyarrow: pip install 'levada[arrow]'") from missing


def decoder(columns: tuple[str, ...] | None, text: tuple[str, ...], config: ConsumerConfig, *, notes_offsets: bool = False) -> Any:
    """Return a ColumnDecoder for these columns, None for DEFAULT_COLUMNS; imports pyarrow, an extra. Raises ValueError for none."""
    if columns == ():
        raise ValueError(f"columns=[] would read records and return nothing of them; name at least one of {', '.join(DEFAULT_COLUMNS)}")
    with importing_columns():
        from levada.record.columnar import ColumnDecoder
    wanted = DEFAULT_COLUMNS if columns is None else columns
    null_bad_text = config.on_decode_error == "null"
    return ColumnDecoder(wanted, config.max_decompressed_bytes, text=text, notes_offsets=notes_offsets, null_bad_text=null_bad_text)
