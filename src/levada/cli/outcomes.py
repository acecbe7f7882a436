"""What became of each of several things that a command was to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from levada.cli.exits import Exit, exit_of
from levada.cli.invocation import Invocation
from levada.errors import KafkaError


class OutcomeRow(NamedTuple):
    """name: of a topic, a partition, a group. outcome: what was done, "" where it was not. error: why not, None where it was."""

    name: str
    outcome: str
    error: KafkaError | None = None


def rows_of(outcomes: Mapping[Any, Any], told: str | Callable[[Any], str]) -> list[OutcomeRow]:
    """Return a row for each of KafkaAdmin.outcomes(). told: what is said of those that were done, or makes it of what was returned."""

    def row(key: Any, found: Any) -> OutcomeRow:
        if isinstance(found, KafkaError):
            return OutcomeRow(str(key), "", found)
        return OutcomeRow(str(key), told if isinstance(told, str) else told(found))

    return [row(key, found) for key, found in outcomes.items()]


def show_outcomes(invocation: Invocation, rows: Sequence[OutcomeRow]) -> Exit:
    """Print the rows, name on stderr what failed, and return the exit code."""
    invocation.show(rows, OutcomeRow._fields if any(row.error for row in rows) else OutcomeRow._fields[:2])
    return tell_errors(invocation, {row.name: row.error for row in rows})


def tell_errors(invocation: Invocation, outcomes: Mapping[Any, object]) -> Exit:
    """Name on stderr what failed, and return the exit code."""
    errors = [outcome for outcome in outcomes.values() if isinstance(outcome, KafkaError)]
    for error in errors:
        invocation.say(str(error))
    if not errors:
        return Exit.DONE
    return exit_of(errors[0]) if len(errors) == len(outcomes) else Exit.PARTLY
