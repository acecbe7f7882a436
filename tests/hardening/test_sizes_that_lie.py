"""M-C5 and M-C6: what is announced costs nothing until it is there."""

from __future__ import annotations

import pytest

from hardening_kit import FULL, cost_of, needs_peak_memory, note

pytestmark = [pytest.mark.hardening, needs_peak_memory]

LIMIT_MIB = 2
LIMIT_MS = 10
MAX_FRAME = 100 << 20
MAX_RESPONSE = 1 << 30
# What the kernels on both sides hold before anybody reads.
IN_FLIGHT_BYTES = 16 << 20


@pytest.mark.parametrize("size", [-1, 0, 3, MAX_FRAME + 1, 2**31 - 1] if FULL else [-1, MAX_FRAME + 1])
def test_M_C5_a_broker_closes_after_the_prefix(size: int) -> None:
    cost = cost_of("hostile_cases:flood_of_a_broker", size)

    note("M-C5", f"broker, size {size}, then zeros", f"{cost.grown_mib:.2f} MiB, {cost.outcome}", f"{LIMIT_MIB} MiB, closed at once")
    assert cost.grown_mib <= LIMIT_MIB
    assert bytes_sent(cost.outcome) < IN_FLIGHT_BYTES


@pytest.mark.parametrize("size", [-1, 0, 3, MAX_RESPONSE + 1, 2**31 - 1] if FULL else [3, MAX_RESPONSE + 1])
def test_M_C5_a_client_closes_after_the_prefix(size: int) -> None:
    cost = cost_of("hostile_cases:flood_of_a_client", size)

    note("M-C5", f"client, size {size}, then zeros", f"{cost.grown_mib:.2f} MiB, {cost.outcome}", f"{LIMIT_MIB} MiB, closed at once")
    assert cost.outcome.startswith("BootstrapError")
    assert cost.grown_mib <= LIMIT_MIB
    assert bytes_sent(cost.outcome.partition(", ")[2]) < IN_FLIGHT_BYTES


def bytes_sent(outcome: str) -> int:
    return int(outcome.split(" ")[0])


@pytest.mark.parametrize(
    ("what", "case"),
    [
        ("a lying length in every place of messages", ["lying_lengths"]),
        ("10,000 unknown tagged fields", ["many_tags", 10_000, True]),
        ("10,000 unknown tagged fields, one of them missing", ["many_tags", 10_000, False]),
        ("100 structs with 100 unknown tagged fields each", ["nested_tags", 100, 100]),
    ],
)
def test_M_C6_lengths_that_lie_cost_neither_memory_nor_time(what: str, case: list[object]) -> None:
    name, *arguments = case
    cost = cost_of(f"hostile_cases:{name}", *arguments)

    note("M-C6", what, f"{cost.grown_mib:.2f} MiB; {cost.outcome}", f"{LIMIT_MIB} MiB, {LIMIT_MS} ms")
    assert cost.grown_mib <= LIMIT_MIB
    assert float(cost.outcome.split(" ")[-2]) < LIMIT_MS
