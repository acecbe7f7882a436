"""Rows of columns go into the open batches that send() fills, and are charged like its records."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from accumulator_kit import Bench
from levada.client.driver_interface import closed
from levada.errors import ClosedError
from levada.producer.append.buffer_pool import Ticket
from levada.producer.append.record_accumulator import AppendedRows
from levada.record.batch import RecordBatch
from levada.record.columnar import PartitionChoice, PartitionRows, sort_columns


def rows_of(values: list[bytes], partition: int = 0) -> PartitionRows:
    rows, _ = sort_columns(
        pa.table({"value": pa.array(values, pa.binary())}),
        {"value": "value"},
        PartitionChoice(partition + 1, next_sticky=lambda: (partition, 1 << 40)),
        batch_size=1 << 20,
        max_record_size=1 << 20,
        now_ms=123,
    )
    (only,) = rows
    return only


def append(bench: Bench, rows: PartitionRows, first: int = 0) -> AppendedRows:
    taken = bench.accumulator.append_rows("t", rows, first, 0)
    assert isinstance(taken, AppendedRows)
    return taken


def values_in(bench: Bench) -> list[bytes | None]:
    """What the next batches hold, in the order of the wire."""
    found: list[bytes | None] = []
    while batches := bench.drain(now_ms=1000):
        for batch in batches:
            assert batch.data is not None
            stored = RecordBatch(memoryview(batch.data))
            stored.verify_crc()
            found += [record.value for record in stored.records()]
            bench.finish(batch)
    return found


def test_rows_and_records_of_a_partition_share_the_open_batch_in_order() -> None:
    bench = Bench()
    bench.append(b"first")
    taken = append(bench, rows_of([b"second", b"third"]))
    bench.append(b"fourth")
    assert (taken.first_index, taken.end) == (1, 2)
    assert append(bench, rows_of([b"fifth"])).batch is taken.batch
    assert values_in(bench) == [b"first", b"second", b"third", b"fourth", b"fifth"]


def test_small_tables_over_many_partitions_do_not_make_a_batch_each() -> None:
    bench = Bench()
    batches = {append(bench, rows_of([b"%d" % table], partition)).batch for table in range(10) for partition in (0, 1, 2)}
    assert len(batches) == 3


def test_A8_rows_linger_as_records_do() -> None:
    bench = Bench()
    append(bench, rows_of([b"small"]))
    assert not bench.accumulator.ready(9).nodes
    assert bench.accumulator.ready(10).nodes == [1]


def test_rows_that_do_not_fit_begin_the_next_batch() -> None:
    bench = Bench()
    rows = rows_of([b"v" * 100 for _ in range(20)])
    ends, batches, first = [], [], 0
    while first < 20:
        taken = append(bench, rows, first)
        assert taken.first_index == 0
        first = taken.end
        ends.append(first)
        batches.append(taken.batch)
    assert ends == [8, 16, 20]
    assert len(set(batches)) == 3
    assert all(batch.size <= 1000 for batch in batches)
    assert values_in(bench) == [b"v" * 100] * 20


def test_B12_an_open_batch_of_rows_counts_in_buffer_memory() -> None:
    bench = Bench(batch_size=100_000, memory=1_000_000, max_request_size=200_000)
    taken = append(bench, rows_of([b"v" * 1000] * 50))
    assert bench.pool.available == 1_000_000 - taken.batch.charged
    assert taken.batch.charged >= taken.batch.size > 50_000
    assert values_in(bench) == [b"v" * 1000] * 50
    assert bench.pool.available == 1_000_000


def test_B4_rows_for_which_there_is_no_memory_wait_and_the_batch_before_is_due() -> None:
    bench = Bench(batch_size=100_000, memory=5_000)
    rows = rows_of([b"v" * 1000] * 9)
    taken = append(bench, rows)
    assert taken.end == 3
    ticket = bench.accumulator.append_rows("t", rows, taken.end, 0)
    assert isinstance(ticket, Ticket)
    assert bench.pool.available >= 0
    (batch,) = bench.drain(now_ms=0)
    assert batch is taken.batch
    assert not ticket.promise.done
    bench.finish(batch)
    assert ticket.promise.done
    again = bench.accumulator.append_rows("t", rows, taken.end, 0, ticket)
    assert isinstance(again, AppendedRows)
    bench.pool.cancel(ticket)
    assert (again.first_index, bench.pool.available) == (0, 5_000 - again.batch.charged)


def test_rows_of_a_topic_that_is_not_known_wait_for_metadata() -> None:
    assert Bench().accumulator.append_rows("another", rows_of([b"early"]), 0, 0) is None


def test_A7_a_closed_accumulator_takes_no_rows() -> None:
    bench = Bench()
    bench.accumulator.close(closed)
    with pytest.raises(ClosedError):
        bench.accumulator.append_rows("t", rows_of([b"late"]), 0, 0)


@pytest.mark.parametrize("seed", range(20))
def test_B12_memory_is_never_overdrawn_and_comes_back_exactly_once(seed: int) -> None:
    random = Random(seed)
    total = random.choice([6_000, 20_000, 200_000])
    bench = Bench(batch_size=random.choice([500, 4000]), memory=total)
    sent: dict[int, list[bytes]] = {0: [], 1: []}
    got: dict[int, list[bytes | None]] = {0: [], 1: []}

    def drain() -> None:
        for batch in bench.drain(now_ms=10_000):
            assert batch.data is not None
            got[batch.tp.partition] += [record.value for record in RecordBatch(memoryview(batch.data)).records()]
            bench.finish(batch)

    for number in range(60):
        partition = random.randrange(2)
        values = [b"%d-%d" % (number, index) + b"x" * random.randrange(700) for index in range(random.randrange(1, 12))]
        sent[partition] += values
        rows, first, ticket = rows_of(values, partition), 0, None
        while first < len(values):
            taken = bench.accumulator.append_rows("t", rows, first, 0, ticket)
            if isinstance(taken, Ticket):
                ticket = taken
                while not ticket.promise.done:
                    drain()
            else:
                assert taken is not None
                first = taken.end
                if ticket is not None:
                    bench.pool.cancel(ticket)
                    ticket = None
            charged = sum(batch.charged for batch in bench.charged_batches())
            granted = ticket.granted if ticket is not None else 0
            assert bench.pool.available == total - charged - granted >= 0
        if random.random() < 0.3:
            drain()
    while bench.accumulator.incomplete or bench.accumulator.appender.has_news:
        drain()
    assert got == sent
    assert bench.pool.available == total
