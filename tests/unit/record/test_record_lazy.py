"""Records that a loop gets: what is kept stays as it was, though a record let go of becomes another."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.record.lazy import LazyRecord
from levada.record.reader import COMPILED
from record_kit import build, only_batch, records, values


def fields(record: LazyRecord) -> tuple[object, ...]:
    return (record.offset, record.timestamp, record.key, record.value, record.headers)


@contextmanager
def without_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@given(rows=records, choice=st.lists(st.booleans(), min_size=40, max_size=40))
def test_a_record_that_is_kept_never_changes(rows: list[tuple[object, ...]], choice: list[bool]) -> None:
    batch = only_batch(build(rows))
    kept: list[LazyRecord] = []

    for record, keep in zip(batch, choice, strict=False):
        if keep:
            kept.append(record)

    wanted = [record for record, keep in zip(batch.records(), choice, strict=False) if keep]
    assert [fields(record) for record in kept] == wanted


@given(rows=records)
def test_neighbours_are_two_records(rows: list[tuple[object, ...]]) -> None:
    batch = only_batch(build(rows))

    assert [(fields(one), fields(other)) for one, other in pairwise(batch)] == list(pairwise(batch.records()))


def test_two_loops_over_one_batch_do_not_meet() -> None:
    batch = only_batch(build(values(5)))

    assert [(one.offset, other.offset) for one in batch for other in batch] == [(one, other) for one in range(5) for other in range(5)]


def test_a_record_outlives_its_loop() -> None:
    loop = iter(only_batch(build(values(3))))
    first = next(loop)
    next(loop)
    del loop

    assert fields(first) == fields(next(iter(only_batch(build(values(3))))))


@pytest.mark.skipif(not COMPILED, reason="interpreted, every record is a new one")
def test_a_loop_that_keeps_nothing_makes_two_records() -> None:
    assert len({id(record) for record in only_batch(build(values(100)))}) == 2


def test_a_loop_left_early_lets_go_of_the_batch_at_once() -> None:
    data = build(values(10))

    with without_collector():
        for record in only_batch(data):
            if record.offset == 3:
                break
        del record
        # A bytearray refuses to change its size while somebody looks at its bytes.
        data += b"x"


@pytest.mark.skipif(not COMPILED, reason="a Python object with attributes is always known to the collector")
def test_keeping_records_does_not_burden_the_garbage_collector() -> None:
    assert not any(map(gc.is_tracked, list(only_batch(build(values(10))))))


def test_a_field_is_found_by_a_name_from_elsewhere_too() -> None:
    (record,) = only_batch(build([(7, b"k", b"v", (("name", b"x"),))]))
    names = ["".join(name) for name in ("offset", "timestamp", "key", "value", "headers")]

    assert tuple(getattr(record, name) for name in names) == fields(record) == (0, 7, b"k", b"v", (("name", b"x"),))


def test_an_unknown_field_is_named() -> None:
    (record,) = only_batch(build(values(1)))

    assert record.__class__ is LazyRecord
    with pytest.raises(AttributeError, match="LazyRecord' object has no attribute 'topic'"):
        record.topic  # type: ignore[attr-defined]  # noqa: B018


def test_a_record_of_nothing_has_no_fields() -> None:
    with pytest.raises(AttributeError):
        LazyRecord().key  # noqa: B018
