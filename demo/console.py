"""Prints the progress of the demo: a line for each stage, and a progress bar. Uses colours if rich is installed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

try:
    from rich.console import Console as RichConsole
    from rich.table import Table
except ImportError:
    RichConsole = None

BAR_WIDTH = 24


class Stage:
    """A running stage of the demo."""

    def __init__(self, title: str, refresh) -> None:
        self._title = title
        self._refresh = refresh
        self.result = ""

    def progress(self, fraction: float, text: str) -> None:
        """Show the progress. fraction: from 0 to 1."""
        filled = round(min(fraction, 1.0) * BAR_WIDTH)
        self._refresh(f"{self._title}  {'█' * filled}{'░' * (BAR_WIDTH - filled)}  {text}")

    def done(self, result: str) -> None:
        """Set the result, which is printed in the stage's final line."""
        self.result = result


class Console:
    """Prints to the terminal, or line by line into a file."""

    def __init__(self) -> None:
        self._rich = RichConsole(highlight=False, width=None if sys.stdout.isatty() else 120) if RichConsole else None

    def say(self, text: str) -> None:
        """Print a line."""
        self._print(text, "dim")

    @contextmanager
    def stage(self, title: str) -> Iterator[Stage]:
        """Show a stage while it runs. At its end, print a line with its duration and result."""
        began = time.perf_counter()
        try:
            with self._live(title) as refresh:
                stage = Stage(title, refresh)
                yield stage
        except BaseException:
            self._print(f"✗ {title}", "red")
            raise
        self._print(f"✓ {title:<28} {time.perf_counter() - began:5.1f} s   {stage.result}", "green")

    @contextmanager
    def _live(self, title: str) -> Iterator:
        if self._rich is None or not self._rich.is_terminal:
            yield _occasionally(title)
            return
        with self._rich.status(title) as status:
            yield status.update

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table. The first column is text, the others are numbers."""
        if self._rich is None:
            widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
            for row in [heads, *rows]:
                print(
                    "  ".join(
                        cell.ljust(width) if not column else cell.rjust(width)
                        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
                    )
                )
            return
        table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
        for column, head in enumerate(heads):
            table.add_column(head, justify="right" if column else "left")
        for row in rows:
            table.add_row(*row)
        self._rich.print()
        self._rich.print(table)
        self._rich.print()

    def verdict(self, good: bool, text: str) -> None:
        """Print whether a comparison succeeded."""
        self._print(f"{'✓' if good else '✗'} {text}", "bold green" if good else "bold red")

    def _print(self, text: str, style: str) -> None:
        if self._rich is None:
            print(text, flush=True)
        else:
            self._rich.print(text, style=style, markup=False)


def _occasionally(title: str, every_s: float = 3.0):
    """Return a refresh function for a file or a plain terminal. It prints a line every few seconds."""
    print(f"… {title}", file=sys.stderr, flush=True)
    last, shown = time.perf_counter(), ""

    def refresh(text: str) -> None:
        nonlocal last, shown
        if text != shown and time.perf_counter() - last >= every_s:
            last, shown = time.perf_counter(), text
            print(f"  {text}", file=sys.stderr, flush=True)

    return refresh
