"""Writes docs/STATES.md, a diagram of each state machine: `python tools/states.py > docs/STATES.md`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from levada.broker.coordinators.groups import group_states as group
from levada.broker.coordinators.transactions import transaction_states as transaction
from levada.broker.share import record_states as record
from levada.client.setup import states as connection
from levada.consumer.acks import states as unacked
from levada.consumer.group import classic_states as member
from levada.consumer.group import consumer_states as consumer_member
from levada.consumer.share import states as share_member
from levada.producer.transactions import states as producer


class Machine(NamedTuple):
    """A state machine. module: its docstring explains the states. transitions: by state, then by event."""

    title: str
    module: ModuleType
    transitions: Mapping[Any, Mapping[Any, Any]]


MACHINES = (
    Machine("A connection's set-up", connection, connection.TRANSITIONS),
    Machine("A transactional producer", producer, producer.TRANSITIONS),
    Machine("A member of a classic group", member, member.TRANSITIONS),
    Machine("A member of a consumer group (KIP-848)", consumer_member, consumer_member.TRANSITIONS),
    Machine("A record of consumer.acks()", unacked, unacked.TRANSITIONS),
    Machine("A member of a share group (KIP-932)", share_member, share_member.TRANSITIONS),
    Machine("A classic group at the embedded broker", group, group.TRANSITIONS),
    Machine("A record of a share group (KIP-932) at the embedded broker", record, record.TRANSITIONS),
    Machine("A transactional id at the embedded broker", transaction, transaction.TRANSITIONS),
)

INTRODUCTION = """\
# States

`make docs` draws these diagrams from the transition tables that the code uses; a test keeps the page current. The docstring of each module
explains its states, and says what can never happen."""


def document() -> str:
    """Return the page as Markdown."""
    return "\n\n".join([INTRODUCTION, *map(_section, MACHINES)]) + "\n"


def _section(machine: Machine) -> str:
    name = machine.module.__name__.replace(".", "/")
    theory = (inspect.getdoc(machine.module) or "").partition("\n")[0].partition(" The table below")[0]
    lines = [f"    {_id(state)}: {state.value}" for state in machine.transitions]
    lines += [
        f"    {_id(state)} --> {_id(following)}: {_label(event)}"
        for state, events in machine.transitions.items()
        for event, following in events.items()
    ]
    return "\n".join(
        [f"## {machine.title}", "", f"{theory} [{name}.py](../src/{name}.py)", "", "```mermaid", "stateDiagram-v2", *lines, "```"]
    )


def _id(state: Enum) -> str:
    return state.name


def _label(event: Enum) -> str:
    return str(event.value).replace(":", " -")


if __name__ == "__main__":
    print(document(), end="")
