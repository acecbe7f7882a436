"""Seeds of which `make test` has the first ones, and a slower target the others."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet


def parts_of(seeds: int, size: int, in_every_run: int) -> list[ParameterSet]:
    """Return the first seed of each part of `size`; parts that begin at `in_every_run` or later carry the mark matrix."""
    return [pytest.param(first, marks=[pytest.mark.matrix] if first >= in_every_run else []) for first in range(0, seeds, size)]
