"""Random damage to valid bytes. Equal seeds give equal damage."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

HOSTILE_INTS = [value.to_bytes(4, "big", signed=True) for value in (-1, -2, 2**31 - 1, -(2**31), 1 << 20)]
HOSTILE_VARINTS = [b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", b"\x01", b"\x00"]


def _set(data: bytearray, at: int, random: Random) -> None:
    data[at] = random.randrange(256)


def _flip(data: bytearray, at: int, random: Random) -> None:
    data[at] ^= 1 << random.randrange(8)


def _insert(data: bytearray, at: int, random: Random) -> None:
    data[at:at] = random.randbytes(random.randint(1, 4))


def _delete(data: bytearray, at: int, random: Random) -> None:
    del data[at : at + random.randint(1, 4)]


def _splice_int(data: bytearray, at: int, random: Random) -> None:
    data[at : at + 4] = random.choice(HOSTILE_INTS)


def _splice_varint(data: bytearray, at: int, random: Random) -> None:
    data[at : at + 1] = random.choice(HOSTILE_VARINTS)


def _repeat(data: bytearray, at: int, random: Random) -> None:
    piece = data[at : at + random.randint(1, 30)]
    data[at:at] = piece


DAMAGE: list[Callable[[bytearray, int, Random], None]] = [_set, _flip, _insert, _delete, _splice_int, _splice_varint, _repeat]


def damaged(data: bytes | bytearray, random: Random, start: int = 0) -> bytes:
    """Return a copy with one to three faults at or after the index `start`."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 3)):
        if len(changed) > start:
            random.choice(DAMAGE)(changed, random.randrange(start, len(changed)), random)
    return bytes(changed)
