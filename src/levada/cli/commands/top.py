"""levada top: a live view of a cluster: throughput, lag, leaders."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levada import KafkaAdmin, KafkaError
from levada.cli.command import command
from levada.cli.group_views import group_views
from levada.cli.invocation import Invocation
from levada.cli.log_ends import ends_at_leaders, log_ends
from levada.cli.output import OutputFormat, plain, table
from levada.cli.top_frame import BrokerRow, Frame, GroupRow, Look, TopicRow, frame
from levada.error_codes import ErrorCode
from levada.errors import BrokerError

if TYPE_CHECKING:
    from rich.console import Group

app = typer.Typer(add_completion=False)

_MOST_ROWS = 20


@command(app)
def top(
    invocation: Invocation,
    interval: Annotated[float, typer.Option("--interval", "-i", metavar="SECONDS", help="Time between two looks.", min=0.1)] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="Look twice, print one frame, and end; so too where the output is no terminal.")
    ] = False,
    internal: Annotated[bool, typer.Option("--internal", help="With Kafka's own topics.")] = False,
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


def _watch(invocation: Invocation, admin: KafkaAdmin, before: Look, interval: float, *, internal: bool) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(no_color=True if invocation.color is False else None, highlight=False)
    with suppress(KeyboardInterrupt), Live(_screen(frame(None, before)), console=console, screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(interval)
            now = _look(admin, internal=internal)
            live.update(_screen(frame(before, now)), refresh=True)
            before = now


def _screen(seen: Frame) -> Group:
    from rich.console import Group
    from rich.text import Text

    tables = [part for rows, columns in _parts(seen) for part in (table(plain(rows[:_MOST_ROWS]), columns), Text(""))]
    return Group(*tables)


def _parts(seen: Frame) -> list[tuple[Sequence[Any], Sequence[str]]]:
    """Return what is shown, as rows with their columns."""
    parts: list[tuple[Sequence[Any], Sequence[str]]] = [
        (_rounded(seen.brokers), BrokerRow._fields),
        (_rounded(seen.topics), TopicRow._fields),
        (_rounded(seen.groups), GroupRow._fields),
    ]
    return [*parts, (seen.faults, ("value",))] if seen.faults else parts


def _rounded(rows: Sequence[Any]) -> list[Any]:
    """Return rows whose rates people can read."""
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
    # A topic or group that was deleted between two questions is no fault; it is not shown any more.
    gone = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND)
    errors = [one for one in outcomes if isinstance(one, KafkaError)]
    return tuple(str(error) for error in errors if not (isinstance(error, BrokerError) and error.code in gone))
