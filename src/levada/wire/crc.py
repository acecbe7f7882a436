# cython: annotation_typing=False, boundscheck=False, wraparound=False, cdivision=True
"""What a change in bytes does to a CRC-32C that covers many more of them behind it.

A CRC is linear: two inputs that differ only at their beginning have checksums that differ by what that beginning's checksums differ by,
times x to the number of bits that follow, modulo the polynomial. So to change the header of a batch takes no look at its records.

A [c] module; the C types are in crc.pxd.
"""

from __future__ import annotations

# Polynomials over one bit, reflected as the CRC is: the highest bit is the factor of x^0.
POLYNOMIAL = 0x82F63B78
ONE = 1 << 31
MASK = 0xFFFFFFFF


def multiply(a: int, b: int) -> int:
    """Return a times b modulo the polynomial."""
    product = 0
    while a:
        if a & ONE:
            product ^= b
        a = a << 1 & MASK
        b = b >> 1 ^ (b & 1) * POLYNOMIAL
    return product


def shifted(difference: int, following_bytes: int) -> int:
    """Return how the checksums of two inputs differ whose beginnings' checksums differ so, and that go on with so many equal bytes."""
    result = difference
    power = ONE >> 8  # x^8: one byte
    left = following_bytes
    while left:
        if left & 1:
            result = multiply(power, result)
        power = multiply(power, power)
        left >>= 1
    return result
