from __future__ import annotations

import pytest

from levada.base.clock import LONG_WAIT_S, first_wait_s


@pytest.mark.parametrize("wait_s", [0.0, 0.001, LONG_WAIT_S - 0.001])
def test_a_short_wait_is_waited_for_at_once(wait_s: float) -> None:
    assert first_wait_s(wait_s) == wait_s


@pytest.mark.parametrize("wait_s", [LONG_WAIT_S, 3.0, 3600.0])
def test_a_long_wait_is_in_time_though_the_kernel_ends_it_late(wait_s: float) -> None:
    waited_s, waits = 0.0, 0
    while waited_s < wait_s:
        first_s = first_wait_s(wait_s - waited_s)
        waited_s, waits = waited_s + first_s * 1.005, waits + 1
    assert waited_s - wait_s < 0.003
    assert waits <= 4
