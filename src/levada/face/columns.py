"""Columns need pyarrow, which is an extra: without it, the error says how to get it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing_columns() -> Iterator[None]:
    """Around an import of levada.record.columnar."""
    try:
        yield
    except ImportError as missing:
        raise ImportError("columns need pyarrow: pip install 'levada[arrow]'") from missing
