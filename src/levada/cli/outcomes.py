"""Prints the outcomes of a command that changes several resources, such as topics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from typing import Any, NamedTuple

from levada.base.asking import is_about_data
from levada.cli.exits import Exit, exit_of
from levada.cli.invocation import Invocation
from levada.cli.output import OutputFormat
from levada.cli.text import counted, in_one_line
from levada.errors import KafkaError, RecordDeserializationError
from levada.logs import SKIPPED, UNASKED
from levada.types import TopicPartition

MOST_SKIPS = 3


class OutcomeRow(NamedTuple):
    """The outcome for one resource. name: of the topic, group and so on. outcome: the text of a success, else "". error: the failure."""

    name: str
    outcome: str
    error: KafkaError | None = None


def rows_of(outcomes: Mapping[Any, Any], told: str | Callable[[Any], str]) -> list[OutcomeRow]:
    """Return a row for each outcome of KafkaAdmin.outcomes(). told: the text of a success, or a function that makes it from the result."""

    def row(key: Any, found: Any) -> OutcomeRow:
        if isinstance(found, KafkaError):
            return OutcomeRow(str(key), "", found)
        return OutcomeRow(str(key), told if isinstance(told, str) else told(found))

    return [row(key, found) for key, found in outcomes.items()]


def left_out(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, KafkaError]:
    """Return the outcomes of partitions that a command leaves out, because the start and end of their logs are unknown."""
    return {tp: KafkaError("left out, because it does not exist or has no leader") for tp in partitions}


def show_outcomes(invocation: Invocation, rows: Sequence[OutcomeRow]) -> Exit:
    """Print the rows, name the failures on stderr, and return the exit code. A table leaves out failures, because stderr names them."""
    if invocation.format is not OutputFormat.TABLE:
        invocation.show(rows)
    elif done := [row for row in rows if row.error is None]:
        invocation.show(done, OutcomeRow._fields[:2])
    return tell_errors(invocation, {row.name: row.error for row in rows})


@contextmanager
def _filtered(handlers: Iterable[logging.Handler], is_shown: Callable[[logging.LogRecord], bool]) -> Iterator[None]:
    """Let handlers take only the log lines for which a function returns True, until the block ends."""
    with ExitStack() as stack:
        for handler in handlers:
            handler.addFilter(is_shown)
            stack.callback(handler.removeFilter, is_shown)
        yield


@contextmanager
def failures_told_once() -> Iterator[None]:
    """Hold back a producer's warning about failed records until the block ends. If the block raises an error, drop the warning."""
    held: list[logging.LogRecord] = []

    def is_shown(line: logging.LogRecord) -> bool:
        if UNASKED not in line.getMessage():
            return True
        if line not in held:
            held.append(line)
        return False

    handlers = logging.getLogger("levada").handlers[:]
    with _filtered(handlers, is_shown):
        yield
    for line, handler in product(held, handlers):
        handler.handle(line)


@contextmanager
def skips_counted(invocation: Invocation) -> Iterator[None]:
    """Let only the first MOST_SKIPS warnings about skipped records through, and tell how many more there were when the block ends."""
    seen: list[logging.LogRecord] = []

    def is_shown(line: logging.LogRecord) -> bool:
        if SKIPPED not in line.getMessage():
            return True
        seen.append(line)
        return len(seen) <= MOST_SKIPS

    try:
        with _filtered(logging.getLogger("levada").handlers[:1], is_shown):
            yield
    finally:
        if (more := len(seen) - MOST_SKIPS) > 0:
            invocation.say(f"{counted(more, 'more record')} skipped")


@contextmanager
def advising(advice: str) -> Iterator[None]:
    """Add advice to the error of a record that cannot be decoded."""
    try:
        yield
    except RecordDeserializationError as error:
        if is_about_data(error.__cause__):
            error.add_note(advice)
        raise


def tell_errors(invocation: Invocation, outcomes: Mapping[Any, object]) -> Exit:
    """Name the failures on stderr. Return DONE without failures, PARTLY if only some outcomes failed, else the code of the first one."""
    errors = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, KafkaError)}
    for name, error in errors.items():
        invocation.say(str(error) if str(name) in str(error) else f"{in_one_line(str(name))}: {error}")
    if not errors:
        return Exit.DONE
    return exit_of(next(iter(errors.values()))) if len(errors) == len(outcomes) else Exit.PARTLY
