# cython: annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""JSON's grammar over untrusted bytes: finds the end of a string, a number or a whole value, and replaces the escapes of a string.

Functions get the bytes, a position and the end, and return the position after the part that they read. A negative position is a fault at
byte FAULT - position. All rules of the grammar are here, so a value that is skipped is checked as strictly as a value that is read.

The grammar is RFC 8259, with the extensions that Spark's from_json accepts by default: strings in single quotes, the escape \\' and the
numbers NaN, Infinity, +Infinity, -Infinity, +INF and -INF.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cython  # type: ignore[import-untyped]
else:
    from levada import _pure as cython

if cython.compiled:
    from cython.cimports.libc.string import memcmp, memcpy  # type: ignore[import-untyped]

# Positions from this number down are faults. Negative numbers above it are free for callers, see MISMATCH and STARVED of `reader`.
FAULT = -16
# The limits of Jackson, with which Spark reads JSON.
MAX_DEPTH = 1000
MAX_NUMBER_SIZE = 1000


def same(source: Any, at: int, end: int, other: Any, start: int, size: int) -> bool:
    """Whether the bytes at `at` are equal to `size` bytes of `other` from `start` on."""
    if size > end - at:
        return False
    if cython.compiled:
        return bool(memcmp(source + at, other + start, size) == 0)
    return bool(source[at : at + size] == other[start : start + size])


def skip_space(source: Any, at: int, end: int) -> int:
    """Return the position of the first byte from `at` on that is not white space."""
    while at < end:
        byte = source[at]
        if byte > ord(" ") or not (byte == ord(" ") or byte == ord("\n") or byte == ord("\r") or byte == ord("\t")):
            return at
        at += 1
    return at


def plain_end(source: Any, at: int, end: int, quote: int) -> int:
    """Return the position of the first byte of a string that needs attention: the quote, a backslash, a control character or not ASCII.

    May return an earlier position; the caller examines the bytes from there one by one.
    """
    if cython.compiled:
        word = 0
        ones = 0x0101010101010101
        while end - at >= 8:
            memcpy(cython.address(word), source + at, 8)
            # The highest bit of a byte is set if it is below 0x20, above 0x7F, the quote or a backslash. A borrow may set it wrongly, but
            # only in bytes after such a byte.
            odd = word | (word - ones * 0x20) | ((word ^ (ones * quote)) - ones) | ((word ^ (ones * ord("\\"))) - ones)
            odd &= ones << 7
            if odd:
                return at + first_marked(odd)  # type: ignore[name-defined, no-any-return]  # noqa: F821 - C, see text.pxd
            at += 8
    return at


def scan_string(source: Any, at: int, end: int) -> tuple[int, bool]:
    """Return the position of the quote that ends the string whose first quote is at `at`, and whether the string has escapes."""
    quote = source[at]
    escaped = False
    at += 1
    while True:
        at = plain_end(source, at, end, quote)
        if at >= end:
            return FAULT - end, False
        byte = source[at]
        if byte == quote:
            return at, escaped
        if byte == ord("\\"):
            escaped = True
            size = escape_size(source, at, end)
        elif byte < ord(" "):
            size = 0
        else:
            size = 1 if byte < 0x80 else utf8_size(source, at, end)
        if size == 0:
            return FAULT - at, False
        at += size


def escape_size(source: Any, at: int, end: int) -> int:
    """Return the size in bytes of the escape at `at`; 0 if it is not a valid escape."""
    byte = source[at + 1] if at + 1 < end else 0
    if byte == ord("u"):
        return 6 if end - at >= 6 and hex4(source, at + 2) >= 0 else 0
    return 2 if simple_escape(byte) else 0


def simple_escape(byte: int) -> int:
    """Return the byte that a backslash and this byte stand for; 0 if they are not an escape."""
    if byte == ord("n"):
        return 10
    if byte == ord("t"):
        return 9
    if byte == ord("r"):
        return 13
    if byte == ord("b"):
        return 8
    if byte == ord("f"):
        return 12
    return byte if byte == ord('"') or byte == ord("\\") or byte == ord("/") or byte == ord("'") else 0


def hex4(source: Any, at: int) -> int:
    """Return the number in four hexadecimal digits; -1 if they are not hexadecimal."""
    code = 0
    for place in range(4):
        byte = source[at + place]
        if ord("0") <= byte <= ord("9"):
            digit = byte - ord("0")
        else:
            digit = (byte | 0x20) - ord("a") + 10
            if digit < 10 or digit > 15:
                return -1
        code = code * 16 + digit
    return code


def utf8_size(source: Any, at: int, end: int) -> int:
    """Return the size in bytes of the non-ASCII character at `at`; 0 if it is not UTF-8 (overlong, a surrogate, incomplete)."""
    lead = source[at]
    if lead < 0xC2 or lead > 0xF4:
        return 0
    size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    if size > end - at:
        return 0
    second = source[at + 1]
    least = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
    most = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
    if second < least or second > most:
        return 0
    for place in range(2, size):
        if source[at + place] & 0xC0 != 0x80:
            return 0
    return size


def unescape(source: Any, at: int, stop: int, target: Any, to: int) -> int:
    """Write the text of a scanned string without escapes, never more bytes than with them; return the position after it in `target`."""
    while at < stop:
        byte = source[at]
        if byte != ord("\\"):
            target[to] = byte
            to += 1
            at += 1
        elif source[at + 1] != ord("u"):
            target[to] = simple_escape(source[at + 1])
            to += 1
            at += 2
        else:
            code = hex4(source, at + 2)
            at += 6
            if 0xD800 <= code < 0xDC00 and stop - at >= 6 and source[at] == ord("\\") and source[at + 1] == ord("u"):
                low = hex4(source, at + 2)
                if 0xDC00 <= low < 0xE000:
                    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                    at += 6
            to = write_utf8(code, target, to)
    return to


def write_utf8(code: int, target: Any, to: int) -> int:
    """Write the character with this code point as UTF-8 at position `to` of `target`; return the position after it.

    As in Java, half a surrogate pair becomes a question mark.
    """
    if code < 0x80 or 0xD800 <= code < 0xE000:
        target[to] = code if code < 0x80 else ord("?")
        return to + 1
    if code < 0x800:
        target[to] = 0xC0 | (code >> 6)
        target[to + 1] = 0x80 | (code & 0x3F)
        return to + 2
    if code < 0x10000:
        target[to] = 0xE0 | (code >> 12)
        target[to + 1] = 0x80 | ((code >> 6) & 0x3F)
        target[to + 2] = 0x80 | (code & 0x3F)
        return to + 3
    target[to] = 0xF0 | (code >> 18)
    target[to + 1] = 0x80 | ((code >> 12) & 0x3F)
    target[to + 2] = 0x80 | ((code >> 6) & 0x3F)
    target[to + 3] = 0x80 | (code & 0x3F)
    return to + 4


def digits_end(source: Any, at: int, end: int) -> int:
    """Return the position after the digits at `at`."""
    while at < end and ord("0") <= source[at] <= ord("9"):
        at += 1
    return at


def number_end(source: Any, at: int, end: int) -> int:
    """Return the position after the number at `at`."""
    start = at
    if at < end and source[at] == ord("-"):
        at += 1
    first = at
    at = digits_end(source, at, end)
    if at == first or (source[first] == ord("0") and at - first > 1):
        return FAULT - start
    if at < end and source[at] == ord("."):
        first = at + 1
        at = digits_end(source, first, end)
        if at == first:
            return FAULT - start
    if at < end and (source[at] | 0x20) == ord("e"):
        first = at + 1
        if first < end and (source[first] == ord("+") or source[first] == ord("-")):
            first += 1
        at = digits_end(source, first, end)
        if at == first:
            return FAULT - start
    return at if at - start <= MAX_NUMBER_SIZE else FAULT - start


def literal_end(source: Any, at: int, end: int) -> int:
    """Return the position after a literal: true, false, null, NaN or an infinity. Return a number of FAULT or below if there is none."""
    first = source[at]
    if first == ord("t") and same(source, at, end, b"true", 0, 4):
        return at + 4
    if first == ord("f") and same(source, at, end, b"false", 0, 5):
        return at + 5
    if first == ord("n") and same(source, at, end, b"null", 0, 4):
        return at + 4
    return special_number_end(source, at, end)


def special_number_end(source: Any, at: int, end: int) -> int:
    """Return the position after NaN or an infinity. Return a number of FAULT or below if there is none."""
    if same(source, at, end, b"NaN", 0, 3):
        return at + 3
    if same(source, at, end, b"Infinity", 0, 8):
        return at + 8
    if at < end and (source[at] == ord("+") or source[at] == ord("-")):
        if same(source, at + 1, end, b"Infinity", 0, 8):
            return at + 9
        if same(source, at + 1, end, b"INF", 0, 3):
            return at + 4
    return FAULT - at


def scalar_end(source: Any, at: int, end: int) -> int:
    """Return the position after a string, number or literal. Return a number of FAULT or below if there is none."""
    byte = source[at] if at < end else 0
    if byte == ord('"') or byte == ord("'"):
        at, _ = scan_string(source, at, end)
        return at + 1 if at >= 0 else at
    if ord("0") <= byte <= ord("9"):
        return number_end(source, at, end)
    if byte == ord("-") and at + 1 < end and source[at + 1] != ord("I"):
        return number_end(source, at, end)
    return literal_end(source, at, end) if at < end else FAULT - at


def key_end(source: Any, at: int, end: int) -> int:
    """Return the position of the value after the key at `at`."""
    byte = source[at] if at < end else 0
    if byte != ord('"') and byte != ord("'"):
        return FAULT - at
    at, _ = scan_string(source, at, end)
    return colon_end(source, at + 1, end) if at >= 0 else at


def colon_end(source: Any, at: int, end: int) -> int:
    """Return the position of the value after a colon, which is at `at` or follows white space."""
    at = skip_space(source, at, end)
    if at >= end or source[at] != ord(":"):
        return FAULT - at
    return skip_space(source, at + 1, end)


def value_end(source: Any, at: int, end: int, depth: int, stack: Any) -> int:
    """Return the position after the value at `at`, which is inside `depth` objects and arrays. stack: MAX_DEPTH bytes of work memory."""
    outside = depth
    while True:
        byte = source[at] if at < end else 0
        if byte == ord("{") or byte == ord("["):
            if depth >= MAX_DEPTH:
                return FAULT - at
            stack[depth] = byte
            depth += 1
            at = skip_space(source, at + 1, end)
            if at >= end or source[at] != byte + 2:
                if byte == ord("{"):
                    at = key_end(source, at, end)
                if at < 0:
                    return at
                continue
        else:
            at = scalar_end(source, at, end)
        at, depth = close(source, at, end, depth, outside, stack)
        if at < 0 or depth == outside:
            return at


def close(source: Any, at: int, end: int, depth: int, outside: int, stack: Any) -> tuple[int, int]:
    """After a value, move to the next value, or past all closing brackets down to depth `outside`; return the position and depth.

    For malformed JSON the position is a number of FAULT or below.
    """
    while at >= 0 and depth > outside:
        at = skip_space(source, at, end)
        byte = source[at] if at < end else 0
        kind = stack[depth - 1]
        if byte == ord(","):
            at = skip_space(source, at + 1, end)
            return (key_end(source, at, end) if kind == ord("{") else at), depth
        # In ASCII the code of a closing bracket is the code of its opening bracket plus 2.
        if byte != kind + 2:
            return FAULT - at, depth
        at += 1
        depth -= 1
    return at, depth
