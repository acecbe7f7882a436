"""N20: exponential back-off."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from levada.base.clock import ExponentialBackoff


@given(attempts=st.integers(0, 10_000), seed=st.integers())
def test_N20_a_delay_stays_within_its_bounds(attempts: int, seed: int) -> None:
    delay = ExponentialBackoff(50, 1000, Random(seed)).delay_ms(attempts)
    assert min(50 * 2 ** min(attempts, 10) * 0.8, 1000 * 0.8) - 1 <= delay <= min(50 * 2 ** min(attempts, 10) * 1.2, 1000)


def test_N20_delays_differ_between_clients() -> None:
    assert len({ExponentialBackoff(50, 1000, Random(seed)).delay_ms(3) for seed in range(50)}) > 20


def test_N20_a_maximum_not_above_the_base_fixes_the_delay() -> None:
    assert {ExponentialBackoff(100, 40, Random(1)).delay_ms(attempts) for attempts in range(5)} == {40}
    assert {ExponentialBackoff(100, 100, Random(1)).delay_ms(attempts) for attempts in range(5)} == {100}
