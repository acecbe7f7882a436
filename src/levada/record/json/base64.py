# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Decodes base64 in JSON strings like Jackson: groups of four characters with padding; white space may stand between groups."""

from __future__ import annotations

from typing import Any


def sextet(byte: int) -> int:
    """Return the six bits of a base64 character; -1 if it is not in the alphabet."""
    if ord("A") <= byte <= ord("Z"):
        return byte - ord("A")
    if ord("a") <= byte <= ord("z"):
        return byte - ord("a") + 26
    if ord("0") <= byte <= ord("9"):
        return byte - ord("0") + 52
    return 62 if byte == ord("+") else 63 if byte == ord("/") else -1


def decode_base64(data: Any, at: int, stop: int) -> int:
    """Decode the text from `at` to `stop` in place; return the position after the last byte, or -1 if the text is not base64."""
    to = at
    while True:
        while at < stop and data[at] <= ord(" "):
            at += 1
        if at == stop:
            return to
        size = group_size(data, at, stop)
        if size == 0:
            return -1
        bits = sextet(data[at]) << 18 | sextet(data[at + 1]) << 12
        if size > 1:
            bits |= sextet(data[at + 2]) << 6
        if size > 2:
            bits |= sextet(data[at + 3])
        for place in range(size):
            data[to] = (bits >> (16 - 8 * place)) & 0xFF
            to += 1
        at += 4


def group_size(data: Any, at: int, stop: int) -> int:
    """Return how many bytes the four characters at `at` encode; 0 if they are not a valid group."""
    if stop - at < 4 or sextet(data[at]) < 0 or sextet(data[at + 1]) < 0:
        return 0
    if data[at + 3] != ord("="):
        return 3 if sextet(data[at + 2]) >= 0 and sextet(data[at + 3]) >= 0 else 0
    if data[at + 2] == ord("="):
        return 1
    return 2 if sextet(data[at + 2]) >= 0 else 0
