"""Shows the progress of a command on stderr, if that is a terminal and the command takes longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from levada.cli.text import counted

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

PATIENCE_S = 1.0
"""A command that ends sooner shows no progress."""
REFRESH_S = 0.1


class Progress:
    """Counts the progress of a command, and shows nothing. ProgressBar also shows it."""

    def __init__(self) -> None:
        self.done = 0
        self.total: int | None = None
        self._part: float | None = None

    @property
    def part(self) -> float | None:
        """How much of the whole is done, from 0 to 1; None if unknown."""
        return min(self.done / self.total, 1) if self.total else self._part

    def reach(self, part: float) -> None:
        """Set how much of the whole is done, from 0 to 1, if the number of units is not known."""
        self._part = min(part, 1)

    def advance(self, count: int = 1) -> None:
        """Add to the count of finished units."""
        self.update(self.done + count)

    def update(self, done: int, total: int | None = None) -> None:
        """Set how many units are done. total: how many there are; None keeps the total that is known, if any."""
        self.done, self.total = done, self.total if total is None else total


class ProgressBar(Progress):
    """A line on a terminal: what the command does, a bar, percent, the count, the rate per second, and the time left."""

    def __init__(self, what: str, total: int | None, unit: str, color: bool | None) -> None:
        super().__init__()
        self.total = total
        self._what, self._unit, self._color = what, unit, color
        self._began_s = self._shown_s = time.monotonic()
        self._bars: Bars | None = None

    def update(self, done: int, total: int | None = None) -> None:
        """Set the count as Progress does. Draws at most ten times a second, and only when called: there is no thread."""
        super().update(done, total)
        now_s = time.monotonic()
        if now_s - self._began_s >= PATIENCE_S and now_s - self._shown_s >= REFRESH_S:
            self._shown_s = now_s
            self._draw(now_s)

    def close(self) -> None:
        """If the bar was drawn, draw it with the last count, and end the line."""
        if self._bars is not None:
            self._draw(time.monotonic())
            self._bars.stop()

    def _draw(self, now_s: float) -> None:
        if self._bars is None:
            self._bars = _bars(self._color)
            self._bars.add_task(self._what, total=None, told="")
            self._bars.start()
        took_s, part = max(now_s - self._began_s, 1e-9), self.part
        percent = "" if part is None else f"{int(part * 100)}%  "
        count = counted(self.done, self._unit) if self.total is None else f"{self.done:,}/{counted(self.total, self._unit)}"
        left = f"  {_clock(took_s * (1 - part) / part)} left" if part else ""
        told = f"{percent}{count}  {self.done / took_s:,.0f}/s{left}"
        self._bars.update(self._bars.task_ids[0], completed=part or 0, total=None if part is None else 1, told=told, refresh=True)


@contextmanager
def progress(what: str, *, total: int | None, unit: str, color: bool | None = None) -> Iterator[Progress]:
    """Show a progress bar while the block runs, if stderr is a terminal.

    what: the description. total: None if unknown. unit: noun for the count, in singular.
    """
    if not sys.stderr.isatty():
        yield Progress()
        return
    bar = ProgressBar(what, total, unit, color)
    try:
        yield bar
    finally:
        bar.close()


def _bars(color: bool | None) -> Bars:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True, no_color=True if color is False else None)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), TextColumn("{task.fields[told]}"))
    return Bars(*columns, console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Pace:
    """Makes its caller wait, so that it sends at most `rate` records per second on average. rate: None for no limit."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._began_s = time.monotonic()
        self._done = 0

    @property
    def at_once(self) -> int:
        """Largest number for one call of wait(): a tenth of the rate, but at least 1, so that each wait is short; 2^30 without a rate."""
        return 1 << 30 if self._rate is None else max(int(self._rate / 10), 1)

    def wait(self, count: int = 1) -> None:
        """Count more records, and wait until the rate allows them."""
        if self._rate is None:
            return
        self._done += count
        ahead_s = self._done / self._rate - (time.monotonic() - self._began_s)
        if ahead_s > 0:
            time.sleep(ahead_s)
