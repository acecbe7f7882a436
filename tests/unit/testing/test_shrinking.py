"""What makes a failing list shorter."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shrinking import shortest


@given(st.integers(1, 60), st.data())
def test_the_items_that_are_needed_remain_in_their_order(length: int, data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.integers(0, length - 1), max_size=4))
    assert shortest(tuple(range(length)), lambda items: needed <= set(items)) == tuple(sorted(needed))


def test_it_ends_when_its_tries_are_used_up() -> None:
    tried: list[tuple[int, ...]] = []

    def fails(items: tuple[int, ...]) -> bool:
        tried.append(items)
        return False

    assert shortest(tuple(range(100)), fails, tries=7) == tuple(range(100))
    assert len(tried) == 7
