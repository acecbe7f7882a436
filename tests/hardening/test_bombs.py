"""M-C9: a bomb of 16 KiB stops at the limit, by streaming, and takes little more than the limit."""

from __future__ import annotations

import pytest

from bomb_cases import BOMBS
from hardening_kit import FULL, Cost, cost_of, needs_peak_memory, note

pytestmark = [pytest.mark.hardening, needs_peak_memory]

LIMIT_MIB = 80
PEER_ADDRESS_SPACE = 6 << 30

# These hold no more than the limit. What they hold is no records.
ALLOWED = {
    "gzip, all that fits": 15 << 20,
    "zstd, exactly the limit": 64 << 20,
    "zstd, exactly the limit in four frames": 64 << 20,
    "zstd, window of 128 MiB, 8 MiB in it": 8 << 20,
    "lz4, all that fits": 4_000_000,
    "gzip in zstd": 65_250,
}
IN_MAKE_TEST = [
    "gzip, all that fits",
    "zstd, 500 MiB",
    "zstd, exactly the limit in four frames",
    "zstd, announces 1 TiB",
    "lz4, announces 1 TiB",
    "snappy, block announces 4 GiB",
]
PEERS = {"aiokafka": "aiokafka.codec", "kafka-python": "kafka.codec"}


def shown(cost: Cost) -> str:
    return f"{cost.grown_mib:.1f} MiB, {cost.cpu_ms:.0f} ms, {cost.outcome.partition(':')[0]}"


@pytest.mark.parametrize("name", BOMBS if FULL else IN_MAKE_TEST)
def test_M_C9_a_bomb_costs_no_more_than_the_limit(name: str) -> None:
    cost = cost_of("bomb_cases:bomb_at_the_codec", name)

    note("M-C9", f"{name}: decompress", shown(cost), f"{LIMIT_MIB} MiB")
    assert cost.outcome.startswith(f"accepted {ALLOWED[name]} bytes" if name in ALLOWED else "DecompressionError: ")
    assert cost.grown_mib <= LIMIT_MIB


@pytest.mark.parametrize("name", BOMBS if FULL else IN_MAKE_TEST[1:3])
def test_M_C9_a_bomb_in_a_batch_costs_no_more_than_the_limit(name: str) -> None:
    cost = cost_of("bomb_cases:bomb_in_a_batch", name)
    kind = "CorruptRecordError: record batch at offset 0" if name in ALLOWED else "DecompressionError: "

    note("M-C9", f"{name}: batch to rows and columns", f"{cost.grown_mib:.1f} MiB, {cost.cpu_ms:.0f} ms", f"{LIMIT_MIB} MiB")
    assert [part.startswith(kind) for part in cost.outcome.split("; ") if "Error: " in part] == [True, True]
    assert cost.grown_mib <= LIMIT_MIB


@pytest.mark.parametrize("is_nested", [True, False], ids=["nested", "plain"])
@pytest.mark.parametrize("magic", [0, 1] if FULL else [1])
def test_M_C9_a_bomb_in_a_wrapper_costs_no_more_than_the_limit(magic: int, is_nested: bool) -> None:
    cost = cost_of("bomb_cases:bomb_in_a_wrapper", magic, is_nested)
    what = f"gzip in a wrapper of magic {magic}{', nested' if is_nested else ''}: to rows and columns"

    note("M-C9", what, shown(cost), f"{LIMIT_MIB} MiB")
    assert "compressed within compressed messages" in cost.outcome if is_nested else cost.outcome == "accepted 1; accepted 1"
    assert cost.grown_mib <= LIMIT_MIB


@pytest.mark.skipif(not FULL, reason="takes gigabytes: in `make test-hardening`")
@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("name", ["zstd, 500 MiB", "zstd, announces 1 TiB", "lz4, announces 1 TiB", "snappy, block announces 4 GiB"])
def test_M_C9_what_it_costs_others(name: str, peer: str) -> None:
    cost = cost_of("bomb_cases:bomb_at_peer", PEERS[peer], name, address_space=PEER_ADDRESS_SPACE)

    note("M-C9", f"{name}: {peer}", shown(cost), "for comparison")
    assert cost.outcome
