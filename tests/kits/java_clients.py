"""Java's own producer and consumer (tests/java/Clients.java), for tests that need records which Java has written or read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol


class Asked(Protocol):
    """The method of JavaProgram that this module uses."""

    def ask(self, question: bytes) -> bytes: ...


class Record(NamedTuple):
    """A record to write, or a record that was read. partition, timestamp (in ms): None if the producer chooses them."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


BEGIN, COMMIT, ABORT = "begin", "commit", "abort"
_NULL = "-"


def write(program: Asked, servers: str, steps: Iterable[Record | str], transactional_id: str | None = None) -> None:
    """Write records in order. The steps BEGIN, COMMIT and ABORT begin and end transactions."""
    lines = [("write", servers, transactional_id or _NULL), *(_step(step) for step in steps)]
    program.ask("\n".join("\t".join(line) for line in lines).encode())


def read(program: Asked, servers: str, *topics: str, isolation_level: str = "read_uncommitted") -> list[Record]:
    """Read topics up to their current end offsets. The records of each partition are in order."""
    answer = program.ask("\t".join(["read", servers, isolation_level, *topics]).encode()).decode()
    return [_record(line.split("\t")) for line in answer.splitlines()]


def _step(step: Record | str) -> list[str]:
    if isinstance(step, str):
        return [step]
    headers = [text for name, value in step.headers for text in (name, _hex(value))]
    return ["send", step.topic, _number(step.partition), _number(step.timestamp), _hex(step.key), _hex(step.value), *headers]


def _record(fields: list[str]) -> Record:
    topic, partition, _, timestamp, key, value, *headers = fields
    pairs = tuple((name, _bytes(value)) for name, value in zip(headers[::2], headers[1::2], strict=True))
    return Record(topic, int(partition), _bytes(key), _bytes(value), int(timestamp), pairs)


def _number(value: int | None) -> str:
    return _NULL if value is None else str(value)


def _hex(value: bytes | None) -> str:
    return _NULL if value is None else value.hex()


def _bytes(text: str) -> bytes | None:
    return None if text == _NULL else bytes.fromhex(text)
