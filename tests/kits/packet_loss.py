"""Makes the kernel drop what arrives at a socket, all of it or a share, as a firewall does: nothing is acknowledged, nothing is refused.

A filter is attached to the socket (SO_ATTACH_FILTER). Where it accepts no packet, a connection looks half-open to the other side, and
connecting to a listening socket takes until the caller gives up. Connections that a listening socket accepts have its filter, too. Linux
only, without root.
"""

from __future__ import annotations

import ctypes
import struct
from contextlib import suppress
from typing import Protocol

SO_ATTACH_FILTER = 26
SO_DETACH_FILTER = 27
SOL_SOCKET = 1
INSTRUCTION = struct.Struct("HBBI")
"""Of the classic packet filter: code, how many instructions to skip if true and if false, operand."""
RETURN_NOTHING = INSTRUCTION.pack(0x06, 0, 0, 0)
RETURN_ALL = INSTRUCTION.pack(0x06, 0, 0, 0xFFFFFFFF)
LOAD_RANDOM = INSTRUCTION.pack(0x20, 0, 0, 0x1_0000_0000 - 0x1000 + 56)
"""A load from the extension SKF_AD_RANDOM: 32 random bits."""


class HasOptions(Protocol):
    """A socket, or what asyncio hands out in its place."""

    def setsockopt(self, level: int, option: int, value: int | bytes, /) -> None: ...


def drop_packets(at: HasOptions) -> None:
    """Drop every packet that arrives from now on."""
    _attach(at, RETURN_NOTHING)


def lose_packets(at: HasOptions, share: float) -> None:
    """Drop this share of the packets that arrive from now on, chosen at random."""
    skip_if_at_least = INSTRUCTION.pack(0x35, 1, 0, int(share * 0x1_0000_0000))
    _attach(at, LOAD_RANDOM + skip_if_at_least + RETURN_NOTHING + RETURN_ALL)


def pass_packets(at: HasOptions) -> None:
    """Take all packets again."""
    # A connection that was accepted just before the filter came has none.
    with suppress(FileNotFoundError):
        at.setsockopt(SOL_SOCKET, SO_DETACH_FILTER, 0)


def _attach(at: HasOptions, program: bytes) -> None:
    kept = ctypes.create_string_buffer(program, len(program))
    at.setsockopt(SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", len(program) // INSTRUCTION.size, ctypes.addressof(kept)))
