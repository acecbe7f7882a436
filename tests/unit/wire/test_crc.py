"""A change at the beginning of what a CRC-32C covers."""

from __future__ import annotations

from random import Random

import pytest
from crc32c import crc32c

from levada.wire.crc import shifted


@pytest.mark.parametrize("following", [0, 1, 7, 8, 61, 255, 4096, 262_144, 1_000_003])
def test_M13_a_checksum_follows_a_change_without_a_look_at_the_bytes_behind_it(following: int) -> None:
    random = Random(following)
    rest = random.randbytes(following)
    for size in (1, 4, 40):
        before, after = random.randbytes(size), random.randbytes(size)
        assert crc32c(after + rest) == crc32c(before + rest) ^ shifted(crc32c(before) ^ crc32c(after), following)


def test_M13_equal_bytes_change_nothing() -> None:
    assert shifted(0, 1000) == 0
    assert shifted(0xDEADBEEF, 0) == 0xDEADBEEF
