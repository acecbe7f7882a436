"""Lays out tables of text: for a pipe as wide as they are, for a terminal within its width.

A table that is too wide for the terminal first loses the columns without any value, then its headings are broken at spaces into two lines,
then the widest texts are cut off, with an ellipsis. Numbers are never cut off, because a part of a number is a wrong number. If all that is
not enough, columns at the right are left out, and a line below the table names them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

BETWEEN = "  "
LEAST_TEXT = 12
"""Width below which texts are not cut off."""
LEAST_NAME = 20
"""The same for the first column, which names the row."""
ELLIPSIS = "…"
_NUMBER = re.compile(r"[-\d.e+]*")


class Layout(NamedTuple):
    """The lines of a table. left_out: headings of the columns that do not fit."""

    headings: list[str]
    rows: Iterator[str]
    left_out: list[str]


class _Column(NamedTuple):
    heading: str
    cells: Sequence[str]
    width: int
    """The width without any loss."""


def as_wide_as_needed(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table in which nothing is cut off. headings: empty for a table without headings."""
    lines = [headings, *rows] if headings else rows
    widths = [max(map(width_of, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield _joined(line, widths)


def within(width: int, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Layout:
    """Return the lines of a table for a terminal of this width. width: in characters."""
    cells = list(zip(*rows, strict=True)) or [()] * len(headings)
    columns = [_Column(heading, column, max(map(width_of, [heading, *column]))) for heading, column in zip(headings, cells, strict=True)]
    if _total([column.width for column in columns]) <= width:
        return _made(columns, [column.width for column in columns], [])
    columns = [column for column in columns if not rows or any(column.cells)] or columns
    if _total([column.width for column in columns]) <= width:
        return _made(columns, [column.width for column in columns], [])
    left_out: list[str] = []
    while (widths := _narrowed(columns, width)) is None and len(columns) > 1:
        left_out.insert(0, columns.pop().heading)
    return _made(columns, widths or [width], left_out)


def of_one_result(width: int, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table of names and values. A long value is broken after spaces and commas, and goes on in the next line."""
    names = max((width_of(name) for name, _ in rows), default=0)
    room = max(width - names - len(BETWEEN), LEAST_TEXT)
    for name, value in rows:
        for part in _pieces(value, room):
            yield _joined((name, part), (names, 0))
            name = ""


def width_of(text: str) -> int:
    """Return the width of a text in columns of a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _narrowed(columns: Sequence[_Column], width: int) -> list[int] | None:
    """Return the widths of columns with headings in two lines and texts cut off, or None if they do not fit."""
    least = [_least(column, LEAST_TEXT if index else LEAST_NAME) for index, column in enumerate(columns)]
    if _total(least) > width:
        return None
    widths = [min(max(_in_two_lines(column.heading), *map(width_of, column.cells), 0), width) for column in columns]
    while (over := _total(widths) - width) > 0:
        widest = max((index for index in range(len(widths)) if widths[index] > least[index]), key=widths.__getitem__)
        # Bring the widest column down to the next one, or to what is needed.
        next_width = max((one for one in widths if one < widths[widest]), default=0)
        widths[widest] = max(widths[widest] - over, min(next_width, widths[widest] - 1), least[widest])
    return widths


def _least(column: _Column, least_text: int) -> int:
    heading = _in_two_lines(column.heading)
    longest = max(map(width_of, column.cells), default=0)
    is_number = all(map(_NUMBER.fullmatch, column.cells))
    return max(heading, longest if is_number else min(longest, least_text))


def _made(columns: Sequence[_Column], widths: Sequence[int], left_out: list[str]) -> Layout:
    headings = [_lines_of(column.heading, width) for column, width in zip(columns, widths, strict=True)]
    height = max(map(len, headings), default=0)
    lines = zip(*([""] * (height - len(lines)) + lines for lines in headings), strict=True)
    rows = zip(*(column.cells for column in columns), strict=True)
    return Layout(
        [_joined(line, widths) for line in lines],
        (_joined([_cut(cell, width) for cell, width in zip(row, widths, strict=True)], widths) for row in rows),
        left_out,
    )


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(BETWEEN) * (len(widths) - 1)


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    return BETWEEN.join(cell + " " * (width - width_of(cell)) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _in_two_lines(heading: str) -> int:
    """Return the smallest width in which a heading has at most two lines."""
    return min(max(map(width_of, lines)) for lines in _splits(heading))


def _lines_of(heading: str, width: int) -> list[str]:
    return next((lines for lines in _splits(heading) if max(map(width_of, lines)) <= width), [_cut(heading, width)])


def _splits(heading: str) -> Iterator[list[str]]:
    """Yield a heading in one line, and in two lines broken at each of its spaces, the last space first."""
    yield [heading]
    words = heading.split(" ")
    for count in range(len(words) - 1, 0, -1):
        yield [" ".join(words[:count]), " ".join(words[count:])]


def _cut(text: str, width: int) -> str:
    if width_of(text) <= width:
        return text
    if text.isascii():
        return text[: width - 1] + ELLIPSIS
    from rich.cells import set_cell_size

    return set_cell_size(text, width - 1).rstrip() + ELLIPSIS


def _pieces(value: str, width: int) -> Iterator[str]:
    line = ""
    for word in re.findall(r"[^ ,]*(?:,+ *| +|$)", value):
        if line and word and width_of(line + word.rstrip()) > width:
            yield line.rstrip()
            line = ""
        line += word
    yield line.rstrip()
