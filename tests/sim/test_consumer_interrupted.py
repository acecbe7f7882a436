"""A call that is broken off at any line neither skips nor repeats records, whatever is called next (M-P4).

A signal handler may raise between any two lines of the user's thread, but for those that hold the engine's lock: drivers defer handlers
there. The tests raise at each of these lines in turn, and then read on with another call.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from consumer_kit import batch
from consumer_sim import World
from levada.record.compression import Codec
from levada.sync.consumer import KafkaConsumer
from levada.testing.simulation import SimDriver, Simulation
from levada.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
RECORDS = 10
INTERRUPTIBLE = ("/levada/consumer/", "/levada/record/", "/levada/sync/consumer.py", "/levada/api/consumer/consuming.py")

Found = dict[int, list[int]]
Read = Callable[[KafkaConsumer], Found]


class Interrupt(BaseException):
    """What the handler raises."""


Line = tuple[str, int]


class Interrupter:
    """Counts how often each line that may be interrupted is come to, and raises at the `nth` time that `line` is."""

    def __init__(self, lock: Any, line: Line | None = None, nth: int = 0) -> None:
        self.lines: Counter[Line] = Counter()
        self._lock = lock
        self._at = line, nth

    def __enter__(self) -> None:
        sys.settrace(self._trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if not any(part in frame.f_code.co_filename for part in INTERRUPTIBLE):
            return None
        if event == "line" and not self._lock._is_owned():
            line = frame.f_code.co_filename, frame.f_lineno
            self.lines[line] += 1
            if self._at == (line, self.lines[line]):
                raise Interrupt(f"at {frame.f_code.co_name}, line {frame.f_lineno}")
        return self._trace


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaConsumer]:
    step = SimDriver.step

    def locked_step(driver: SimDriver) -> int:
        with driver.lock:
            return step(driver)

    monkeypatch.setattr(SimDriver, "step", locked_step)
    with Simulation(seed=5) as simulation:
        world = World(simulation)
        world.topic("t", 2)
        for partition in (0, 1):
            world.append("t", [b"%d" % n for n in range(3)], partition)
            world.append_raw("t", batch(0, [b"aborted"], producer=(9, 0)), partition)
            world.append("t", [b"%d" % n for n in range(4, RECORDS)], partition, codec=Codec.GZIP)
        yield world.consumer(T0, T1)


def of_records(consumer: KafkaConsumer, limit: int) -> Found:
    found: Found = {}
    for record in consumer.poll(1.0, max_records=limit):
        found.setdefault(record.partition, []).append(record.offset)
    return found


def of_columns(consumer: KafkaConsumer, columns: tuple[str, ...], limit: int | None = None, max_bytes: int | None = None) -> Found:
    found: Found = {}
    table = consumer.poll_arrow(1.0, max_records=limit, max_bytes=max_bytes, columns=columns)
    if limit is not None:
        assert table.num_rows <= limit
    for partition, offset in zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True):
        found.setdefault(partition, []).append(offset)
    return found


READS: dict[str, Read] = {
    "poll 4": lambda consumer: of_records(consumer, 4),
    "poll 500": lambda consumer: of_records(consumer, 500),
    "arrow": lambda consumer: of_columns(consumer, ("partition", "offset", "value", "headers")),
    "arrow 5": lambda consumer: of_columns(consumer, ("offset", "partition"), limit=5),
    "arrow 1 byte": lambda consumer: of_columns(consumer, ("partition", "offset"), max_bytes=1),
}


@pytest.mark.parametrize(
    ("broken_off", "then", "resumes"),
    [
        ("poll 4", "arrow 5", False),
        ("poll 500", "poll 4", True),
        ("arrow", "arrow 5", True),
        ("arrow 5", "poll 4", False),
        ("arrow 1 byte", "arrow", True),
    ],
)
def test_M_P4_a_call_broken_off_at_any_line_neither_skips_nor_repeats(
    consumer: KafkaConsumer, broken_off: str, then: str, resumes: bool
) -> None:
    everything = {0: list(range(RECORDS)), 1: list(range(RECORDS))}
    lock = consumer._driver.lock
    lines = Interrupter(lock)
    for _ in range(2):
        begin_again(consumer, resumes=resumes)
        with lines:
            READS[broken_off](consumer)
    assert len(lines.lines) > 100
    for line, count in lines.lines.items():
        for nth in {1, count // 2}:
            first = begin_again(consumer, resumes=resumes)
            found = {}
            with suppress(Interrupt), Interrupter(lock, line, nth):
                found = READS[broken_off](consumer)
            assert read_on(consumer, READS[then], first, found) == everything, f"broken off at {line}, time {nth}"


def begin_again(consumer: KafkaConsumer, *, resumes: bool) -> Found:
    """Go back to the start; with `resumes` a record is read first, so that the next call goes on within a batch."""
    consumer.seek(T0, 0)
    consumer.seek(T1, 0)
    return of_records(consumer, 1) if resumes else {}


def read_on(consumer: KafkaConsumer, read: Read, *before: Found) -> Found:
    """Everything, in the order in which it came out."""
    found: Found = {0: [], 1: []}

    def add(part: Found) -> None:
        for partition, offsets in part.items():
            found[partition] += offsets

    for part in before:
        add(part)
    calls = 0
    while sum(map(len, found.values())) < 2 * RECORDS and calls < 30:
        add(read(consumer))
        calls += 1
    assert (consumer.position(T0), consumer.position(T1)) == (len(found[0]), len(found[1]))
    return found
