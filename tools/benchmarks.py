"""Draws docs/benchmarks.svg, the rates of the first table of docs/BENCHMARKS.md: `python tools/benchmarks.py > docs/benchmarks.svg`."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[1] / "docs" / "BENCHMARKS.md"
HEADING = "| what | beside | rate | processor time |"
LABEL_WIDTH, BAR_WIDTH, ROW_HEIGHT = 330, 420, 24
FASTER, SLOWER = "#2f7d6d", "#c8553d"
LEAST, MOST = 0.25, 16
"""The ends of the scale, which is logarithmic."""


class Row(NamedTuple):
    """A row of the table. rate: levada's as a multiple of the other client's."""

    what: str
    beside: str
    rate: float


def rows_of(page: str) -> Iterator[Row]:
    """Yield the rows of the page's first table that have a rate."""
    _, table = page.split(HEADING)
    for line in table.strip().splitlines()[1:]:
        if not line.startswith("|"):
            return
        what, beside, rate, _ = (cell.strip() for cell in line.strip("|").split("|"))
        yield Row(what.replace("`", ""), beside.replace("`", ""), float(re.sub(r"[^0-9.]", "", rate)))


def figure(rows: list[Row]) -> str:
    """Return an SVG with a bar for each row, from 1 (as fast) to its rate."""
    bottom = ROW_HEIGHT * len(rows)
    box = f"0 0 {LABEL_WIDTH + BAR_WIDTH + 60} {bottom + ROW_HEIGHT}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif" font-size="12">',
        "<style>text{fill:#24292f}.axis{stroke:#8c959f}@media(prefers-color-scheme:dark){text{fill:#e6edf3}}</style>",
    ]
    for number, row in enumerate(rows):
        top = ROW_HEIGHT * number
        begin, end = sorted((_place(1), _place(row.rate)))
        colour = FASTER if row.rate >= 1 else SLOWER
        parts += [
            f'<text x="{LABEL_WIDTH - 8}" y="{top + 16}" text-anchor="end">{escape(row.what)}</text>',
            f'<rect x="{begin:.1f}" y="{top + 4}" width="{end - begin:.1f}" height="{ROW_HEIGHT - 8}" fill="{colour}">'
            f"<title>{escape(row.what)}: {row.rate:g} times {escape(row.beside)}</title></rect>",
            f'<text x="{end + 6:.1f}" y="{top + 16}">{row.rate:g}</text>',
        ]
    for mark in (0.5, 1, 2, 4, 8, 16):
        x = _place(mark)
        opacity = 1 if mark == 1 else 0.25
        parts += [
            f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom}" stroke-opacity="{opacity}"/>',
            f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{mark:g}x</text>',
        ]
    return "\n".join([*parts, "</svg>"])


def _place(rate: float) -> float:
    return LABEL_WIDTH + BAR_WIDTH * math.log(rate / LEAST) / math.log(MOST / LEAST)


def drawn(page: str) -> str:
    """Return the figure of docs/BENCHMARKS.md, whose text is `page`."""
    return figure(list(rows_of(page))) + "\n"


if __name__ == "__main__":
    sys.stdout.write(drawn(PAGE.read_text("utf-8")))
