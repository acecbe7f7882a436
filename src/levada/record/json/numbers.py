# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Parses the numbers in JSON: 64-bit integers, correctly rounded doubles, and decimals of up to 38 digits.

read_long() and read_double() return the position -1 if the text is not such a number, or if an integer does not fit. Then the functions of
`text` find the end of the value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

# Compiled, these come by the .pxd file.
if not cython.compiled:
    from math import ldexp

    from levada.record.json.text import number_end

MOST = 2**63 - 1
LOW_HALF = 0xFFFFFFFF
ALL_BITS = 2**64 - 1
# Any number of so many digits fits an unsigned 64-bit integer.
MOST_DIGITS = 19
# A double holds every integer up to MOST_EXACT and every power of ten up to MOST_POWER exactly, so that one multiplication or division is
# correctly rounded.
MOST_EXACT = 2**53
MOST_POWER = 22
# Java counts the decimal places of a number in 32 bits.
MOST_EXPONENT_DIGITS = 9

# The powers of ten from -64 to 64 for nearest(): TENS has their first 64 bits, truncated, and TWOS their exponents of two.
MOST_TEN = 64

if not cython.compiled:
    POWERS = [0.0] * (MOST_POWER + 1)
    TENS = [0] * (2 * MOST_TEN + 1)
    TWOS = [0] * (2 * MOST_TEN + 1)
for power in range(MOST_POWER + 1):
    POWERS[power] = 10.0**power
for power in range(MOST_TEN + 1):
    ten: Any = 10**power
    TWOS[MOST_TEN + power] = ten.bit_length() - 1
    TENS[MOST_TEN + power] = (ten << 64 * 4) >> (64 * 4 - 64 + ten.bit_length())
    if power:
        TWOS[MOST_TEN - power] = -ten.bit_length()
        TENS[MOST_TEN - power] = (1 << (63 + ten.bit_length())) // ten


def read_long(source: Any, at: int, end: int) -> tuple[int, int]:
    """Read a signed 64-bit integer without fraction or exponent. Return (position after it, value), or (-1, 0) if there is none."""
    negative = at < end and source[at] == ord("-")
    if negative:
        at += 1
    first = at
    value = 0
    while at < end and ord("0") <= source[at] <= ord("9") and at - first <= MOST_DIGITS:
        digit = source[at] - ord("0")
        value = value * 10 + digit
        at += 1
    if at == first or at - first > MOST_DIGITS or (source[first] == ord("0") and at - first > 1):
        return -1, 0
    if at < end and (source[at] == ord(".") or (source[at] | 0x20) == ord("e")):
        return -1, 0
    if value > MOST:
        # Only the lowest integer has this absolute value.
        if negative and value == MOST + 1:
            return at, -MOST - 1
        return -1, 0
    whole = value
    return at, -whole if negative else whole


def read_double(source: Any, at: int, end: int) -> tuple[int, float]:
    """Read a number as a double. Return (position after it, value), or (-1, 0.0) if there is none. Too large numbers become infinite."""
    stop = number_end(source, at, end)
    if stop < 0:
        return -1, 0.0
    start = at
    negative = source[at] == ord("-")
    if negative:
        at += 1
    mantissa = 0
    digits = 0
    point = -1
    while at < stop and (source[at] | 0x20) != ord("e"):
        byte = source[at]
        if byte == ord("."):
            point = at
        else:
            # Leading zeros do not count.
            digits += mantissa > 0 or byte != ord("0")
            if digits > MOST_DIGITS:
                return stop, slow_double(source, start, stop)
            digit = byte - ord("0")
            mantissa = mantissa * 10 + digit
        at += 1
    exponent = read_exponent(source, at, stop) - (at - point - 1 if point >= 0 else 0)
    value = scaled(mantissa, exponent)
    if value < 0:
        return stop, slow_double(source, start, stop)
    # The integer -0 has no sign, because Java reads it as an integer first.
    return stop, -value if negative and (mantissa or point >= 0 or at < stop) else value


def scaled(mantissa: int, exponent: int) -> float:
    """Return the double nearest to mantissa * 10**exponent; -1 if this fast way cannot decide."""
    if mantissa > MOST_EXACT or exponent > MOST_POWER or exponent < -MOST_POWER:
        return nearest(mantissa, exponent) if mantissa and -MOST_TEN <= exponent <= MOST_TEN else -1.0
    value = float(mantissa)
    return value / POWERS[-exponent] if exponent < 0 else value * POWERS[exponent]


def nearest(mantissa: int, exponent: int) -> float:
    """Do what scaled() does with one multiplication of 64 by 64 bits (Lemire, Number Parsing at a Gigabyte per Second, 2021).

    The powers of ten are truncated to 64 bits, so the product is too small by less than the mantissa. Returns -1 if this could change the
    first 54 bits, on which rounding depends, or if these bits are half-way between two doubles.
    """
    shift = 0
    while mantissa <= MOST:
        mantissa <<= 1
        shift += 1
    high, low = product(mantissa, TENS[exponent + MOST_TEN])
    top = high >> 63
    bits = high >> (9 + top)
    rest = high & 0x1FF
    if (rest == 0x1FF and low > ALL_BITS - mantissa) or (rest == 0 and low == 0 and bits & 3 == 1):
        return -1.0
    rounded = (bits + (bits & 1)) >> 1
    two = TWOS[exponent + MOST_TEN] + 11 + top
    return ldexp(float(rounded), two - shift)


def product(left: int, right: int) -> tuple[int, int]:
    """Return the high and the low 64 bits of the product of two unsigned 64-bit numbers."""
    lows = (left & LOW_HALF) * (right & LOW_HALF)
    inner = (left >> 32) * (right & LOW_HALF) + (lows >> 32)
    outer = (left & LOW_HALF) * (right >> 32) + (inner & LOW_HALF)
    high = (left >> 32) * (right >> 32) + (inner >> 32) + (outer >> 32)
    return high, ((outer & LOW_HALF) << 32) | (lows & LOW_HALF)


def read_exponent(source: Any, at: int, stop: int) -> int:
    """Return the exponent after the e at `at`, 0 if the text ends there. An exponent that is too long is cut to a very large one."""
    if at >= stop:
        return 0
    at += 1
    negative = source[at] == ord("-")
    if negative or source[at] == ord("+"):
        at += 1
    value = 0
    while at < stop and value < 10**8:
        value = value * 10 + source[at] - ord("0")
        at += 1
    return -value if negative else value


def slow_double(source: Any, at: int, stop: int) -> float:
    """Return the number in a text that number_end() has accepted, parsed by Python's float()."""
    with cython.gil:
        return float(source[at:stop])


def read_decimal(source: Any, at: int, stop: int, precision: int, scale: int) -> tuple[bool, int, int]:
    """Return (whether the text is a number that fits, high 64 bits, low 64 bits) of the number times 10**scale, rounded half up.

    Rounding half up is away from zero, as in Java. The 128 bits are in two's complement. Like for Java's BigDecimal, the text may begin
    with a plus, and digits may be missing before or after the point.
    """
    negative = at < stop and source[at] == ord("-")
    if at < stop and (negative or source[at] == ord("+")):
        at += 1
    point, digits, tail = measure_decimal(source, at, stop)
    if digits == 0 or not is_exponent(source, tail, stop):
        return False, 0, 0
    keep = point + read_exponent(source, tail, stop) + scale
    high = 0
    low = 0
    significant = 0
    nines = True
    taken = 0
    while taken < keep and (taken < digits or significant):
        # After the last digit zeros follow, never more than the precision allows.
        while at < tail and source[at] == ord("."):
            at += 1
        digit = source[at] - ord("0") if at < tail else 0
        at += 1
        taken += 1
        significant += significant > 0 or digit > 0
        if significant > precision:
            return False, 0, 0
        nines = nines and (digit == 9 or significant == 0)
        high, low = ten_times(high, low, digit)
    if at < tail and source[at] == ord("."):
        at += 1
    if taken == keep and at < tail and source[at] >= ord("5"):
        if nines and significant == precision:
            return False, 0, 0
        low = (low + 1) & ALL_BITS
        high += low == 0
    if negative:
        # Two's complement.
        low = (ALL_BITS - low + 1) & ALL_BITS
        high = (ALL_BITS - high + (low == 0)) & ALL_BITS
    return True, high, low


def measure_decimal(source: Any, at: int, stop: int) -> tuple[int, int, int]:
    """Return how many digits stand before the point, how many there are in total, and the position after them."""
    point = -1
    digits = 0
    while at < stop:
        if source[at] == ord(".") and point < 0:
            point = digits
        elif ord("0") <= source[at] <= ord("9"):
            digits += 1
        else:
            break
        at += 1
    return digits if point < 0 else point, digits, at


def is_exponent(source: Any, at: int, stop: int) -> bool:
    """Whether the rest of the text is empty, or an e, an optional sign, and at most MOST_EXPONENT_DIGITS digits."""
    if at == stop:
        return True
    if (source[at] | 0x20) != ord("e"):
        return False
    at += 1
    if at < stop and (source[at] == ord("+") or source[at] == ord("-")):
        at += 1
    first = at
    while at < stop and ord("0") <= source[at] <= ord("9"):
        at += 1
    return at == stop and 0 < at - first <= MOST_EXPONENT_DIGITS


def ten_times(high: int, low: int, digit: int) -> tuple[int, int]:
    """Return the high and the low 64 bits of ten times a 128-bit number plus a digit."""
    first = (low & LOW_HALF) * 10 + digit
    second = (low >> 32) * 10 + (first >> 32)
    return high * 10 + (second >> 32), ((second & LOW_HALF) << 32) | (first & LOW_HALF)
