"""The program on the terminal: shows one table at a time, and takes snapshots on a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import DataTable, Footer, Input, Static

from levada import KafkaError
from levada.base.clock import SystemClock
from levada.cli.text import in_one_line
from levada.cli.top.look import Look
from levada.cli.top.views import PLACES, Cell, Column, Line, Place, Seconds, Trend, View, Watched, health, view_of

PATIENCE_S = 3.0
"""Time in seconds without an answer after which figures are marked as old."""
BETWEEN_CHECKS_S = 0.5
TREND_WIDTH = 10
NARROWEST_NAME = 12


class Taken(Message):
    """A snapshot, or why there is none."""

    def __init__(self, outcome: Look | KafkaError) -> None:
        super().__init__()
        self.outcome = outcome


class Top(App[None]):
    """Shows a cluster until the user quits.

    take: asks the brokers for a snapshot, on a thread; raises KafkaError if none answers. interval: seconds between two snapshots. warning:
    returns the last warning of the clients, which tells why brokers do not answer; "" without one.
    """

    TITLE = "levada top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #state { height: 1; background: $primary-background; text-style: bold; }
    #state.old { background: $error; color: $text; }
    #health { height: 1; }
    #health.bad { color: $text-error; }
    #places { height: 1; }
    #about { height: 1; color: $text-muted; }
    #filter { height: 1; border: none; padding: 0 1; display: none; }
    #filter.shown { display: block; }
    DataTable { height: 1fr; }
    DataTable.old { opacity: 60%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"go({number - 1})", place[0], show=False) for number, place in enumerate(PLACES, 1)),
        Binding("tab", "next_place", "next", priority=True),
        Binding("shift+tab", "next_place(-1)", "back", show=False, priority=True),
        Binding("enter", "open", "open", priority=True),
        Binding("escape", "leave", "back"),
        Binding("slash", "filter", "filter"),
        Binding("s", "sort", "sort"),
        Binding("r", "reverse", "reverse"),
        Binding("space", "pause", "pause"),
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(self, take: Callable[[], Look], interval: float, *, warning: Callable[[], str] = lambda: "") -> None:
        super().__init__()
        self._take, self._interval, self._warning = take, interval, warning
        self.watched = Watched()
        self.path: list[Place] = [PLACES[0]]
        """The places that Escape leads back to, and last the place that is shown."""
        self._sorted: dict[tuple[str, int], tuple[str, bool]] = {}
        self._containing = ""
        self._paused = False
        self._fault = ""
        self._seen_at = ""
        self._asked_s: float | None = None
        """Monotonic time in seconds at which the awaited snapshot was asked for; None if none is awaited."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="levada-top", daemon=True)

    # Snapshots

    def _watch(self) -> None:
        while not self._over.is_set():
            self._asked_s = time.monotonic()
            try:
                outcome: Look | KafkaError = self._take()
            except KafkaError as error:
                outcome = error
            self._asked_s = None
            self.post_message(Taken(outcome))
            self._over.wait(self._interval)

    @on(Taken)
    def _show_taken(self, taken: Taken) -> None:
        outcome = taken.outcome
        if self._paused:
            return
        if isinstance(outcome, KafkaError):
            self._show_fault(self._warning() or str(outcome))
            return
        self.watched.update(outcome)
        self._fault = ""
        self._seen_at = f"{datetime.fromtimestamp(SystemClock().wall_ms() / 1000):%H:%M:%S}"
        self.draw()

    def _check_answers(self) -> None:
        asked_s = self._asked_s
        if asked_s is not None and time.monotonic() - asked_s > PATIENCE_S and not self._paused:
            self._show_fault(self._warning() or "no answer")

    def _show_fault(self, text: str) -> None:
        if text != self._fault:
            self._fault = text
            self.watched.failed()
            self.draw()

    # The screen

    def compose(self) -> ComposeResult:
        """Make the widgets, from the top down."""
        for name in ("state", "health", "places", "about"):
            yield Static(id=name, markup=False)
        yield Input(placeholder="only lines with this text", id="filter", compact=True)
        yield DataTable[Text](cursor_type="row", zebra_stripes=True)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to take snapshots."""
        self.table.focus()
        self.draw()
        self.set_interval(BETWEEN_CHECKS_S, self._check_answers)
        self._thread.start()

    def on_unmount(self) -> None:
        """Take no more snapshots."""
        self._over.set()

    def on_resize(self) -> None:
        """Fit the names into the new width."""
        self.draw()

    @property
    def table(self) -> DataTable[Text]:
        """The table."""
        return self.query_one(DataTable)

    @property
    def place(self) -> Place:
        """The place that is shown."""
        return self.path[-1]

    def draw(self) -> None:
        """Show the figures that are known now."""
        if not self.query("#state"):
            # The first resize event comes before the widgets exist. A last snapshot may come after they are gone.
            return
        view = view_of(self.place, self.watched)
        text, is_bad = health(self.watched)
        self._say("state", self._state()).set_class(bool(self._fault), "old")
        self._say("health", text).set_class(is_bad, "bad")
        self._say("places", self._places())
        self._say("about", in_one_line(view.about + (f"  with {self._containing!r}" if self._containing else "")))
        self._fill(view)

    def _say(self, name: str, text: str | Text) -> Static:
        widget = self.query_one(f"#{name}", Static)
        widget.update(text)
        return widget

    def _state(self) -> str:
        if self._fault:
            since = f"last seen at {self._seen_at}" if self._seen_at else "not seen yet"
            return f"STALE: {since}: {in_one_line(self._fault.partition(chr(10))[0])}"
        if self._paused:
            return f"PAUSED at {self._seen_at}"
        return f"levada top  {self._seen_at}"

    def _places(self) -> Text:
        counts = [len(view_of(place, self.watched).lines) for place in PLACES]
        text = Text(no_wrap=True)
        for number, (place, count) in enumerate(zip(PLACES, counts, strict=True), 1):
            style = "reverse" if place == self.path[0] else "bold red" if place == ("errors",) and count else ""
            text.append(f" {number} {place[0]} {count} ", style)
        for place in self.path[1:]:
            text.append(f" > {in_one_line(place[-1])}")
        return text

    def _fill(self, view: View) -> None:
        table = self.table
        table.set_class(self.watched.is_old, "old")
        kept = self._key_under_cursor() if table.cursor_row else None
        scrolled = table.scroll_offset
        heading, is_reversed = self._order(view)
        lines = view.ordered(heading, is_reversed, self._containing)
        labels = [self._label(column, heading, is_reversed=is_reversed) for column in view.columns]
        widths = _widths(view.columns, labels, lines, self.size.width)
        table.clear(columns=True)
        for column, label, width in zip(view.columns, labels, widths, strict=True):
            table.add_column(Text(label, justify="right" if column.is_number else "left"), width=width, key=column.heading)
        for line in lines:
            table.add_row(*(_drawn(cell, line, width) for cell, width in zip(line.cells, widths, strict=True)), key=line.key)
        if kept is not None and kept in table.rows:
            table.move_cursor(row=table.get_row_index(kept), animate=False, scroll=False)
        table.scroll_to(*scrolled, animate=False, force=True)

    @staticmethod
    def _label(column: Column, heading: str, *, is_reversed: bool) -> str:
        return f"{column.heading} {'↑' if is_reversed else '↓'}" if column.heading == heading else column.heading

    def _key_under_cursor(self) -> str | None:
        table = self.table
        if not table.is_valid_row_index(table.cursor_row):
            return None
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value

    # Keys

    def _order(self, view: View) -> tuple[str, bool]:
        return self._sorted.get((self.place[0], len(self.place)), (view.sorted_by, False))

    def _sort_by(self, heading: str, *, is_reversed: bool) -> None:
        self._sorted[self.place[0], len(self.place)] = heading, is_reversed
        self.draw()

    def _move_to(self, path: list[Place]) -> None:
        self.path = path
        self._containing = ""
        self.query_one("#filter", Input).clear()
        self.query_one("#filter").remove_class("shown")
        self.table.focus()
        self.table.move_cursor(row=0, animate=False)
        self.table.scroll_to(0, 0, animate=False)
        self.draw()

    def action_go(self, number: int) -> None:
        """Go to one of the main places. number: its index in PLACES."""
        self._move_to([PLACES[number]])

    def action_next_place(self, step: int = 1) -> None:
        """Go to the next one of the main places. step: -1 for the one before."""
        self.action_go((PLACES.index(self.path[0]) + step) % len(PLACES))

    @on(DataTable.RowSelected)
    def action_open(self) -> None:
        """While a filter is typed, end that. Otherwise go where the line under the cursor leads, if anywhere."""
        if not self.table.has_focus:
            self.query_one("#filter").set_class(bool(self._containing), "shown")
            self.table.focus()
            return
        key = self._key_under_cursor()
        line = next((line for line in view_of(self.place, self.watched).lines if line.key == key), None)
        if line is not None and line.leads_to:
            self._move_to([*self.path, line.leads_to])

    def action_leave(self) -> None:
        """Remove the filter. If there is none, go back to the place before."""
        if self._containing or self.query_one("#filter").has_class("shown"):
            self._move_to(self.path)
        elif len(self.path) > 1:
            self._move_to(self.path[:-1])

    def action_filter(self) -> None:
        """Let the user type a filter."""
        self.query_one("#filter").add_class("shown")
        self.query_one("#filter").focus()

    @on(Input.Changed)
    def _only_lines_with(self, changed: Input.Changed) -> None:
        self._containing = changed.value
        self.draw()

    def action_sort(self) -> None:
        """Sort by the next column."""
        view = view_of(self.place, self.watched)
        headings = [column.heading for column in view.columns]
        if headings:
            heading, _ = self._order(view)
            self._sort_by(headings[(headings.index(heading) + 1) % len(headings) if heading in headings else 0], is_reversed=False)

    def action_reverse(self) -> None:
        """Reverse the order of the lines."""
        heading, is_reversed = self._order(view_of(self.place, self.watched))
        self._sort_by(heading, is_reversed=not is_reversed)

    @on(DataTable.HeaderSelected)
    def _sort_by_clicked(self, clicked: DataTable.HeaderSelected) -> None:
        heading, is_reversed = self._order(view_of(self.place, self.watched))
        chosen = str(clicked.column_key.value)
        self._sort_by(chosen, is_reversed=chosen == heading and not is_reversed)

    def action_pause(self) -> None:
        """Pause: drop snapshots that come. If paused, go on."""
        self._paused = not self._paused
        # Rates need two consecutive snapshots, and a pause leaves a gap.
        self.watched.is_old = self.watched.is_old or self._paused
        self.draw()


def _drawn(cell: Cell, line: Line, width: int) -> Text:
    text = _text(cell)
    style = "bold red" if line.is_bad else "dim" if line.is_stale else "cyan" if isinstance(cell, Trend) else ""
    drawn = Text(text, style, justify="left" if isinstance(cell, str | Trend) else "right", no_wrap=True, overflow="ellipsis")
    if isinstance(cell, str) and drawn.cell_len > width > 2:
        # Names often differ only at their ends, so the middle is cut out.
        half = (width - 1) // 2
        drawn.plain = f"{text[: width - 1 - half]}…{text[-half:]}"
    return drawn


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, Trend):
        return cell.bars(TREND_WIDTH)
    if isinstance(cell, Seconds):
        return _length_of_time(cell)
    if isinstance(cell, float):
        return f"{cell:,.1f}" if abs(cell) < 100 else f"{cell:,.0f}"
    return f"{cell:,}" if isinstance(cell, int) else in_one_line(cell)


def _length_of_time(seconds: float) -> str:
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if minutes < 1:
        return f"{seconds:.0f}s"
    if hours < 1:
        return f"{int(minutes)}m {int(seconds % 60)}s"
    return f"{int(hours)}h {int(minutes % 60)}m" if days < 1 else f"{days:,.0f}d"


def _widths(columns: Sequence[Column], labels: Sequence[str], lines: Sequence[Line], total: int) -> list[int]:
    """Return the width of each column: as wide as its contents, but names are shortened to fit the terminal."""
    wanted = [
        max(len(label), *(TREND_WIDTH if isinstance(line.cells[at], Trend) else cell_len(_text(line.cells[at])) for line in lines), 0)
        for at, label in enumerate(labels)
    ]
    # Each cell has a space on both sides. The scroll bar takes two columns.
    left = total - 2 - 2 * len(columns)
    names = sorted((at for at, column in enumerate(columns) if not column.is_number), key=lambda at: wanted[at])
    left -= sum(width for at, width in enumerate(wanted) if at not in names)
    for done, at in enumerate(names):
        wanted[at] = min(wanted[at], max(left // (len(names) - done), NARROWEST_NAME))
        left -= wanted[at]
    return wanted
