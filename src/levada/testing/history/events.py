"""The events of a history, and how they are written and read: a JSON object per line, appended by any number of processes.

An operation is two events: `invoke` before it begins, and one of three when it has ended. `ok`: it succeeded. `fail`: it certainly did not
happen. `info`: the outcome is unknown. An operation whose process died has no second event, which also means that the outcome is unknown.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeAlias

from levada.types import TopicPartition

UNKNOWN: Final = -1
_SEQUENCE_BITS: Final = 40


class Op(StrEnum):
    """The kind of an event.

    SEND: one record. BEGIN, COMMIT, ABORT: a transaction. POLL: the records that a consumer got. FAULT: a fault was injected (invoke) or
    removed (ok). CRASH: the process with this number was killed; the process that killed it records this. PROCESS: the figures of a
    process.

    For consumer groups: ASSIGN: a member has exactly these partitions, in this generation. REVOKE: these partitions were revoked or lost.
    OFFSETS: a member commits these offsets, in a transaction or not. COMMITTED: these offsets were found to be committed.
    """

    SEND = "send"
    BEGIN = "begin"
    COMMIT = "commit"
    ABORT = "abort"
    POLL = "poll"
    FAULT = "fault"
    CRASH = "crash"
    PROCESS = "process"
    ASSIGN = "assign"
    REVOKE = "revoke"
    OFFSETS = "offsets"
    COMMITTED = "committed"


class Type(StrEnum):
    """The progress of an operation: about to begin, succeeded, certainly failed, or ended with an unknown outcome."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class Found(NamedTuple):
    """A record that was read from a log, or that a consumer got. value: the value that was sent, see value_of()."""

    topic: str
    partition: int
    offset: int
    value: int

    @property
    def tp(self) -> TopicPartition:
        """The record's partition."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.tp}@{self.offset}"


class Place(NamedTuple):
    """A partition, and for some events an offset in this partition."""

    topic: str
    partition: int
    offset: int = UNKNOWN

    @property
    def tp(self) -> TopicPartition:
        """The partition, without the offset."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a history. Fields that do not apply are -1 or empty.

    at_ms: the time, by a clock that all processes of the run share. process: the number of the process, with which its values begin. value:
    the value of a SEND, see value_of(). transaction: a number that is unique in the run. within_ms: the time limit of the operation, in its
    invoke. text: an error, or the name of a fault. read: the records of a POLL. figures: the figures of a PROCESS by name.
    source: for a SEND, the value of the record from which this record was made.

    For consumer groups: group: the group.id. generation: the generation of an ASSIGN. places: partitions or offsets. text of an ASSIGN: the
    group.instance.id. value of an OFFSETS: a number that connects its two events, unique in the process.
    """

    at_ms: int
    process: int
    op: Op
    type: Type
    value: int = UNKNOWN
    topic: str = ""
    partition: int = UNKNOWN
    offset: int = UNKNOWN
    transaction: int = UNKNOWN
    within_ms: int = UNKNOWN
    text: str = ""
    source: int = UNKNOWN
    group: str = ""
    generation: int = UNKNOWN
    read: tuple[Found, ...] = ()
    places: tuple[Place, ...] = ()
    figures: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the event as a line of a history file. Fields that do not apply are left out."""
        line: dict[str, Any] = {"t": self.at_ms, "proc": self.process, "op": self.op.value, "type": self.type.value}
        line |= {name: getattr(self, name) for name in _NUMBERS if getattr(self, name) != UNKNOWN}
        line |= {name: getattr(self, name) for name in _FILLED if getattr(self, name)}
        return json.dumps(line, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Event:
        """Parse a line of a history file. Raises ValueError if it is not an event."""
        try:
            line = json.loads(text)
            known = {name: line[name] for name in (*_NUMBERS, *_FILLED) if name in line}
            known["read"] = tuple(Found(*found) for found in known.get("read", ()))
            known["places"] = tuple(Place(*place) for place in known.get("places", ()))
            return cls(line["t"], line["proc"], Op(line["op"]), Type(line["type"]), **known)
        except (TypeError, KeyError) as missing:
            raise ValueError(f"no event of a history: {text[:200]}") from missing


_NUMBERS: Final = ("value", "partition", "offset", "transaction", "within_ms", "source", "generation")
_FILLED: Final = ("topic", "text", "group", "read", "places", "figures")

Writer: TypeAlias = Callable[[Event], object]
"""The function that takes events: the write method of a HistoryFile, or the append method of a list."""


def value_of(process: int, number: int) -> int:
    """Return the value of the record that a process sends as its n-th one. Values are unique in a run and ascend in the order in which the
    process sends. number: n, from 1. Numbers of transactions are made in the same way.
    """
    return process << _SEQUENCE_BITS | number


def process_of(value: int) -> int:
    """Return the number of the process that sent a value or began a transaction."""
    return value >> _SEQUENCE_BITS


def name_of(value: int) -> str:
    """Return a value, or the number of a transaction, in readable form, as "process:number"."""
    return f"{process_of(value)}:{value & ((1 << _SEQUENCE_BITS) - 1)}"


class HistoryFile:
    """A file to which events are appended. Several processes may write to the same file.

    Each event is written at once. If the process is killed, its last line may be incomplete.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, event: Event) -> None:
        """Append an event. After this call, the event survives a crash of the process, but not of the machine."""
        # The newline comes first, so that the event is a line of its own even after an incomplete line of another process.
        os.write(self._file, f"\n{event.to_json()}".encode())

    def close(self) -> None:
        """Close the file. Further calls have no effect."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class History(NamedTuple):
    """All events of a run, in the order of their times. torn: the number of lines that are not events; each killed process can leave at
    most one, which is incomplete.
    """

    events: tuple[Event, ...]
    torn: int = 0

    @classmethod
    def of(cls, events: Iterable[Event]) -> History:
        """Return the history of these events, which may be in any order."""
        return cls(tuple(sorted(events, key=lambda event: event.at_ms)))

    def from_its_start(self) -> History:
        """Return the same history with times in milliseconds since the first event."""
        began_ms = self.events[0].at_ms if self.events else 0
        return self._replace(events=tuple(replace(event, at_ms=event.at_ms - began_ms) for event in self.events))

    @classmethod
    def read(cls, *paths: str | os.PathLike[str]) -> History:
        """Read the files of a run. Raises OSError if a file cannot be read."""
        events: list[Event] = []
        torn = 0
        for line in _lines(paths):
            try:
                events.append(Event.from_json(line))
            except ValueError:
                torn += 1
        return cls(cls.of(events).events, torn)


def _lines(paths: Iterable[str | os.PathLike[str]]) -> Iterator[str]:
    for path in paths:
        with Path(path).open(encoding="utf-8", errors="replace") as lines:
            yield from (line for line in map(str.strip, lines) if line)
