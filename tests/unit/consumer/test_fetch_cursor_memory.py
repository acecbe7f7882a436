"""Fetched data, megabytes of it, goes with the cursor that reads it, and does not wait for Python's cycle collector."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from consumer_kit import Bench, batch, run_flow
from levada.record.columnar import ColumnDecoder
from levada.record.compression import Codec


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def as_records(bench: Bench) -> None:
    assert bench.records(4)


def as_columns(bench: Bench) -> None:
    sink = ColumnDecoder(("value", "headers"))
    bench.collector.begin()
    assert run_flow(bench.collector.collect_columns(sink, 4, 1 << 20, sink.finish)) is not None


@pytest.mark.parametrize("used_up", [True, False])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("read", [as_records, as_columns])
def test_what_was_read_is_free_at_once(read: Callable[[Bench], None], codec: Codec, used_up: bool) -> None:
    data = bytearray(batch(0, [b"v"] * 4, codec=codec) + batch(4, [b"v"] * 2, codec=codec))
    bench = Bench()
    bench.assign(0)
    bench.fetched(memoryview(data))
    read(bench)
    with pytest.raises(BufferError):
        data.append(0)
    if used_up:
        read(bench)
    else:
        bench.subscription.seek(next(iter(bench.subscription.assignment)), 0)
        bench.fetched(batch(0))
        read(bench)
    data.append(0)
