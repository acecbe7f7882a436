"""Sequence numbers, also where they wrap."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levada.producer.send.sequences import NO_IDENTITY, ProducerIdentity, Sequences, is_before

LAST = 2**31 - 1


@pytest.mark.parametrize(
    ("a", "b", "before"), [(0, 1, True), (1, 0, False), (5, 5, False), (LAST, 0, True), (0, LAST, False), (LAST - 5, 3, True)]
)
def test_I6_order_is_that_of_serial_numbers(a: int, b: int, before: bool) -> None:
    assert is_before(a, b) is before


@given(st.integers(0, LAST), st.integers(1, 2**29))
def test_I6_what_comes_later_is_later_everywhere(start: int, steps: int) -> None:
    assert is_before(start, (start + steps) % 2**31)
    assert not is_before((start + steps) % 2**31, start)


def test_I5_taking_wraps_to_0() -> None:
    sequences = Sequences()
    sequences.next = LAST - 1
    assert [sequences.take(2), sequences.take(3), sequences.next] == [LAST - 1, 0, 3]


def test_I10_acknowledgements_that_cross_do_not_go_back() -> None:
    sequences = Sequences()
    assert sequences.expected == 0
    sequences.acked(5, 3, 105)
    sequences.acked(0, 5, 100)
    assert (sequences.last_acked, sequences.expected, sequences.last_acked_offset) == (7, 8, 107)
    sequences.acked(8, 1, -1)
    assert (sequences.last_acked, sequences.last_acked_offset) == (8, 107)


def test_a_new_identity_begins_at_0() -> None:
    sequences = Sequences()
    sequences.take(10)
    sequences.unresolved = 10
    sequences.restart(ProducerIdentity(7, 3))
    found: tuple[Any, ...] = sequences.identity, sequences.next, sequences.unresolved, sequences.expected
    assert found == ((7, 3), 0, None, 0)
    assert not NO_IDENTITY.is_valid
