"""Shortens a list of items that makes a test fail: delta debugging (Zeller and Hildebrandt, 2002)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def shortest(items: tuple[T, ...], fails: Callable[[tuple[T, ...]], bool], *, tries: int = 400) -> tuple[T, ...]:
    """Return some of the items, in order, for which fails() is still true. No single one can be left out, unless `tries` ran out."""
    parts = 2
    left = iter(range(tries))
    while items:
        size = max(len(items) // parts, 1)
        for start in range(0, len(items), size):
            if next(left, None) is None:
                return items
            rest = items[:start] + items[start + size :]
            if fails(rest):
                items, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(items))
    return items
