"""Records as Arrow columns. They need pyarrow, an optional dependency."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from levada.config import ConsumerConfig
from levada.errors import ConfigError

if TYPE_CHECKING:
    from levada.formats.columns import RecordColumns

ARROW_BYTES = 16 << 20
DEFAULT_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")


@contextmanager
def importing_columns() -> Iterator[None]:
    """Return a context around the import of levada.record.columnar. Without pyarrow, its ImportError says how to install it."""
    try:
        yield
    except ImportError as missing:
        raise ImportError("columns need pyarrow: pip install 'levada[arrow]'") from missing


def decoder(columns: tuple[str, ...] | None, text: tuple[str, ...], config: ConsumerConfig, *, notes_offsets: bool = False) -> Any:
    """Return a ColumnDecoder for these columns. Imports pyarrow. Raises ImportError without it.

    Raises ValueError for an empty tuple, for an unknown column, and for a column that cannot be text.

    columns: None for DEFAULT_COLUMNS. text: which of key and value become strings. notes_offsets: whether the decoder keeps the offset of
    each row.
    """
    if columns == ():
        raise ValueError(f"columns=[] would read records and return nothing of them; name at least one of {', '.join(DEFAULT_COLUMNS)}")
    with importing_columns():
        from levada.record.columnar import ColumnDecoder
    wanted = DEFAULT_COLUMNS if columns is None else columns
    null_bad_text = config.on_decode_error == "null"
    return ColumnDecoder(wanted, config.max_decompressed_bytes, text=text, notes_offsets=notes_offsets, null_bad_text=null_bad_text)


def typed_columns(
    columns: tuple[str, ...] | None, text: tuple[str, ...], formats: Mapping[str, Any], topics: Iterable[str]
) -> RecordColumns:
    """Return columns whose keys or values have a format. Imports pyarrow. Raises ImportError without it.

    columns: None for DEFAULT_COLUMNS and those that the formats add. formats: arguments of levada.formats.arguments. topics: what is read.
    Raises ConfigError, and ValueError for an empty tuple and for an unknown column.
    """
    with importing_columns():
        from levada.formats.columns import RecordColumns
        from levada.formats.options import typed
        from levada.record.columnar import COLUMNS, schema
    if text:
        raise ConfigError("text is for keys and values without a format; for a column of text beside it write key_format='string'")
    if columns == ():
        raise ValueError(f"columns=[] would read records and return nothing of them; name at least one of {', '.join(DEFAULT_COLUMNS)}")
    chosen = typed(formats, topics, COLUMNS)
    wanted = (*DEFAULT_COLUMNS, *chosen.added) if columns is None else columns
    schema([name for name in wanted if name not in chosen.added])  # It knows which columns there are.
    return RecordColumns(chosen, wanted)
