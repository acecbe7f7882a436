"""levada top: a live view of a cluster's throughput, lag and leaders."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from levada import KafkaAdmin, KafkaError
from levada.base.clock import SystemClock
from levada.cli.command import command
from levada.cli.group_views import group_views
from levada.cli.invocation import Invocation
from levada.cli.output import OutputFormat, plain, table
from levada.cli.positions import ends_at_leaders, log_ends
from levada.cli.text import counted, in_one_line
from levada.cli.top_rates import BrokerRow, Frame, GroupRow, Look, TopicRow, frame, shared_lines, tables_that_fit, without_rates
from levada.error_codes import ErrorCode
from levada.errors import BrokerError

if TYPE_CHECKING:
    from rich.console import Group

app = typer.Typer(add_completion=False)

PATIENCE_S = 3.0
"""Time in seconds without an answer after which the screen is marked as stale."""


@command(app)
def top(
    invocation: Invocation,
    interval: Annotated[float, typer.Option("--interval", "-i", metavar="SECONDS", help="Time between two updates.", min=0.1)] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print the rates of one interval, and end. Also done if the output is no terminal.")
    ] = False,
    internal: Annotated[bool, typer.Option("--internal", help="Include Kafka's internal topics.")] = False,
) -> None:
    """Watch a cluster: records per second, lag of groups, leaders. Ctrl-C ends it."""
    with invocation.admin() as admin:
        before = _look(admin, internal=internal)
        if once or not sys.stdout.isatty():
            time.sleep(interval)
            _print(invocation, frame(before, _look(admin, internal=internal)))
        else:
            _watch(invocation, admin, before, interval, internal=internal)


def _print(invocation: Invocation, seen: Frame) -> None:
    if invocation.format is not OutputFormat.TABLE:
        invocation.show(seen)
        return
    for rows, columns in _parts(seen):
        invocation.show(rows, columns)


class _Shown(NamedTuple):
    """The content of the screen. at: time of day of its snapshot. fault: why there is no newer snapshot, "" if there was no error."""

    seen: Frame
    at: str
    fault: str = ""


def _watch(invocation: Invocation, admin: KafkaAdmin, first: Look, interval: float, *, internal: bool) -> None:
    """Update the screen until Ctrl-C. A thread takes the snapshots, so that the screen can show that brokers do not answer."""
    from rich.console import Console
    from rich.live import Live

    console = Console(no_color=True if invocation.color is False else None, highlight=False)
    before: Look | None = first
    shown = _Shown(frame(None, first), _time_of_day())
    looks = ThreadPoolExecutor(1, "levada-top")
    with (
        suppress(KeyboardInterrupt),
        _logging_kept_off_the_screen() as warnings,
        Live(_screen(shown, console.height), console=console, screen=True, auto_refresh=False) as live,
    ):
        try:
            while True:
                time.sleep(interval)
                look = looks.submit(_look, admin, internal=internal)
                while not wait([look], PATIENCE_S).done:
                    fault = warnings[-1] if warnings else "no answer"
                    live.update(_screen(shown._replace(fault=fault), console.height), refresh=True)
                try:
                    now = look.result()
                except KafkaError as error:
                    # Rates over the time of the outage would be wrong, so the next frame has none.
                    before, shown = None, shown._replace(fault=warnings[-1] if warnings else str(error))
                else:
                    before, shown = now, _Shown(frame(before, now), _time_of_day())
                    warnings.clear()
                live.update(_screen(shown, console.height), refresh=True)
        finally:
            # Closing the client ends a snapshot that waits for an answer.
            admin.close()
            looks.shutdown()


def _time_of_day() -> str:
    return f"{datetime.fromtimestamp(SystemClock().wall_ms() / 1000):%H:%M:%S}"


@contextmanager
def _logging_kept_off_the_screen() -> Iterator[deque[str]]:
    """Keep only the latest warning while the block runs, because log lines would overwrite the screen. Yields it as a deque."""
    log, latest = logging.getLogger("levada"), _Latest()
    handlers = log.handlers[:]
    if sys.stderr.isatty():
        log.handlers[:] = [latest]
    else:
        log.addHandler(latest)
    try:
        yield latest.lines
    finally:
        log.handlers[:] = handlers


class _Latest(logging.Handler):
    """Keeps the latest warning in lines, which is empty before the first."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: deque[str] = deque(maxlen=1)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _screen(shown: _Shown, height: int) -> Group:
    """Return the screen: the state, then tables of brokers, topics and groups. height: the number of lines of the terminal."""
    from rich.console import Group
    from rich.text import Text

    def line(text: str, style: str = "") -> Text:
        return Text(in_one_line(text.partition("\n")[0]), style, no_wrap=True, overflow="ellipsis")

    state = line(f"STALE: last seen at {shown.at}", "bold red") if shown.fault else line(f"{shown.at}  live")
    parts = _parts(without_rates(shown.seen) if shown.fault else shown.seen)
    count = len(parts)
    parts = parts[: tables_that_fit(height - 2, [len(rows) for rows, _ in parts])]
    left_out = "" if len(parts) == count else f"{counted(count - len(parts), 'table')} more on a larger terminal"
    # The state takes two lines, each table one for its heading, and one line separates two tables.
    lines = shared_lines(height - 2 - 2 * len(parts) + 1, [len(rows) for rows, _ in parts])
    drawn: list[Any] = [state, line(shown.fault or left_out)]
    for (rows, columns), most in zip(parts, lines, strict=True):
        fit = rows if len(rows) <= most else rows[: most - 1]
        drawn += [table(plain(fit), columns), *([line(f"and {len(rows) - len(fit):,} more")] if len(fit) < len(rows) else []), Text("")]
    return Group(*drawn[:-1])


def _parts(seen: Frame) -> list[tuple[Sequence[Any], Sequence[str]]]:
    """Return the tables of a frame, each as rows and the names of its columns."""
    parts: list[tuple[Sequence[Any], Sequence[str]]] = [
        (_rounded(seen.brokers), BrokerRow._fields),
        (_rounded(seen.topics), TopicRow._fields),
        (_rounded(seen.groups), GroupRow._fields),
    ]
    return [*parts, (seen.faults, ("value",))] if seen.faults else parts


def _rounded(rows: Sequence[Any]) -> list[Any]:
    """Return the rows with floats rounded to one decimal."""
    return [row._replace(**{name: round(value, 1) for name, value in row._asdict().items() if isinstance(value, float)}) for row in rows]


def _look(admin: KafkaAdmin, *, internal: bool) -> Look:
    cluster = admin.describe_cluster()
    described = admin.outcomes(admin.describe_topics, admin.list_topics(internal=internal))
    partitions = tuple(info for found in described.values() if not isinstance(found, KafkaError) for info in found.partitions)
    ends = ends_at_leaders(admin, partitions)
    views = group_views(admin, admin.list_groups(), lambda wanted: log_ends(admin, wanted))
    groups = {name: view for name, view in views.items() if not isinstance(view, KafkaError)}
    return Look(time.monotonic(), cluster, partitions, ends, groups, _faults([*described.values(), *views.values()]))


def _faults(outcomes: Iterable[object]) -> tuple[str, ...]:
    # A topic or group that was deleted between two requests is not an error. It is not shown any more.
    gone = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND)
    errors = [one for one in outcomes if isinstance(one, KafkaError)]
    return tuple(str(error) for error in errors if not (isinstance(error, BrokerError) and error.code in gone))
