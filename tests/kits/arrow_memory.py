"""What a piece of code takes of Arrow's memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from levada.record.columnar import rows as conversions

# An array needs the pool it came from until it is gone.
_POOLS: list[pa.MemoryPool] = []


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """Fail if what is done within allocates `size` bytes at once, or nothing at all."""
    # A conversion that was tried out before would allocate nothing here.
    conversions._try_out.cache_clear()
    usual = pa.default_memory_pool()
    measured = pa.proxy_memory_pool(usual)
    _POOLS.append(measured)
    pa.set_memory_pool(measured)
    try:
        yield
    finally:
        pa.set_memory_pool(usual)
    assert 0 < measured.max_memory() < size
