# cython: annotation_typing=False, boundscheck=False, wraparound=False, cdivision=True
"""Updates a CRC-32C after a change at the beginning of the bytes, without reading the bytes after the change.

A CRC is linear. If two inputs differ only at their beginning, their checksums differ by the difference of the beginnings' checksums, times
x to the power of the number of bits that follow, modulo the polynomial. So the header of a batch can change without reading its records.

This is a [c] module. The C types are in crc.pxd.
"""

from __future__ import annotations

# Polynomials over GF(2), in reflected form like the CRC: the highest bit is the coefficient of x^0.
POLYNOMIAL = 0x82F63B78
ONE = 1 << 31
MASK = 0xFFFFFFFF


def multiply(a: int, b: int) -> int:
    """Return the product of two polynomials over GF(2) modulo the polynomial of CRC-32C."""
    product = 0
    while a:
        if a & ONE:
            product ^= b
        a = a << 1 & MASK
        b = b >> 1 ^ (b & 1) * POLYNOMIAL
    return product


def shifted(difference: int, following_bytes: int) -> int:
    """Return the XOR of the checksums of two inputs that differ only in their first part.

    difference: the XOR of the checksums of the two first parts. following_bytes: the number of bytes after the first part.
    """
    result = difference
    power = ONE >> 8  # x^8: one byte
    left = following_bytes
    while left:
        if left & 1:
            result = multiply(power, result)
        power = multiply(power, power)
        left >>= 1
    return result
