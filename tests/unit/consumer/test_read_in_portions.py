"""A batch that is read in portions, as records and as columns by turns, gives what it gives at once, and is stepped through once."""

from __future__ import annotations

from random import Random

import pytest

from consumer_kit import Bench, batch, run_flow
from levada.record.batch import RecordBatch
from levada.record.columnar import ColumnDecoder
from levada.record.compression import Codec

COLUMNS = ("offset", "value")
SMALL_THEN_LARGE = [b"%d" % n for n in range(60)] + [b"x" * n * 100 for n in range(60)]


def columns(bench: Bench, limit: int | None, names: tuple[str, ...] = COLUMNS) -> list[tuple[int, bytes]]:
    sink = ColumnDecoder(names)
    bench.collector.begin()
    found = run_flow(bench.collector.collect_columns(sink, limit, 1 << 30, sink.finish))
    return [] if found is None else list(zip(found["offset"].to_pylist(), found["value"].to_pylist(), strict=True))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("names", [COLUMNS, (*COLUMNS, "headers", "key")])
@pytest.mark.parametrize("seed", range(5))
def test_portions_of_a_batch_add_up(codec: Codec, names: tuple[str, ...], seed: int) -> None:
    random = Random(seed)
    bench = Bench()
    bench.assign(10)
    bench.fetched(batch(10, SMALL_THEN_LARGE, codec=codec) + batch(130, [b"a", b"b"]))
    found: list[tuple[int, bytes | None]] = []
    while len(found) < 122:
        limit = random.choice([1, 2, 7, 30])
        if random.random() < 0.5:
            found += columns(bench, limit, names)
        else:
            found += [(record.offset, record.value) for record in bench.records(limit)]
        assert bench.position() == 10 + len(found)
    assert found == list(zip(range(10, 132), [*SMALL_THEN_LARGE, b"a", b"b"], strict=True))


def test_a_limit_that_ends_with_the_batch_leaves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    make = RecordBatch.walker

    def walker(batch: RecordBatch, *limits: int) -> object:
        made.append(batch.base_offset)
        return make(batch, *limits)

    monkeypatch.setattr(RecordBatch, "walker", walker)
    bench = Bench()
    bench.assign(0)
    bench.fetched(batch(0, [b""] * 9, last_offset=19) + batch(20))
    assert [bench.offsets(3) for _ in range(4)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [20]]
    assert made == [0]
    assert bench.position() == 21
