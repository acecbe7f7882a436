"""levada top: a live view of a cluster's throughput, lag and leaders."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from levada.cli.command import command
from levada.cli.exits import CommandError
from levada.cli.invocation import Invocation
from levada.cli.output import OutputFormat
from levada.cli.top.look import look_at
from levada.cli.top.rates import BrokerRow, Frame, GroupRow, TopicRow, frame

app = typer.Typer(add_completion=False)


@command(app)
def top(
    invocation: Invocation,
    interval: Annotated[float, typer.Option("--interval", "-i", metavar="SECONDS", help="Time between two updates.", min=0.1)] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print the rates of one interval, and end. Also done if the output is no terminal.")
    ] = False,
    internal: Annotated[bool, typer.Option("--internal", help="Include Kafka's internal topics.")] = False,
    web: Annotated[bool, typer.Option("--web", help="Show it in a browser on this machine, until Ctrl-C.")] = False,
    port: Annotated[int, typer.Option("--port", help="Port of --web.", min=1, max=65535)] = 8000,
) -> None:
    """Watch a cluster: records per second, lag of groups, leaders. Ctrl-C or q ends it.

    Enter opens a topic, group, consumer or broker, Escape goes back, / filters, s sorts.
    """
    if web:
        _serve(port)
        return
    with invocation.admin() as admin:
        if once or not _has_screen() or invocation.format is not OutputFormat.TABLE:
            before = look_at(admin, internal=internal)
            time.sleep(interval)
            _print(invocation, frame(before, look_at(admin, internal=internal)))
            return
        # Textual takes a tenth of a second to import.
        from levada.cli.top.screen import Top

        if invocation.color is False:
            os.environ["NO_COLOR"] = "1"
        with _logging_kept_off_the_screen() as warnings:
            Top(lambda: look_at(admin, internal=internal), interval, warning=lambda: warnings[-1] if warnings else "").run()


def _has_screen() -> bool:
    # Behind --web, Textual writes for the browser to a pipe.
    return sys.stdout.isatty() or "TEXTUAL_DRIVER" in os.environ


def _serve(port: int) -> None:
    try:
        from textual_serve.server import Server
    except ImportError as missing:
        raise CommandError("--web needs the package textual-serve: pip install 'levada[web]'") from missing
    given = [word for word in sys.argv[1:] if word != "--web"]
    command = shlex.join([sys.executable, "-m", "levada.cli", *given])
    Server(command, host="localhost", port=port, title="levada top").serve()


def _print(invocation: Invocation, seen: Frame) -> None:
    if invocation.format is not OutputFormat.TABLE:
        invocation.show(seen)
        return
    for rows, columns in _parts(seen):
        invocation.show(rows, columns)


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


@contextmanager
def _logging_kept_off_the_screen() -> Iterator[deque[str]]:
    """While the block runs, write no log lines if stderr is a terminal, because they would overwrite the screen.

    Yields a deque that has the latest warning, and is empty before the first.
    """
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
