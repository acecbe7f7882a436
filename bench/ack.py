"""make bench-ack    The cost of an acknowledgement: an AckBuffer and a dict with a heap, send(ack=...) and a callback per record.

It measures CPU time of this process. The systems take turns, and the median counts. The embedded broker runs in another process.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from random import Random
from statistics import median
from typing import Any

import levada as lv

SIZE = 10_000
RUN = 500
"""The number of ids that are acknowledged together, like the records of a batch. The batches of a round come in any order."""
ROUND = 10
IDS = 1_000_000
RECORDS = 300_000
VALUE = b"x" * 100
PARTITIONS = 4
TARGET_PER_S = 2_000_000

Measure = Callable[[], float]


class DictAndHeap:
    """The code that a program would write without AckBuffer: ids by sequence, marked sequences in a heap, and a lock."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._changed = threading.Condition()
        self._ids: dict[int, Any] = {}
        self._marked: list[int] = []
        self._next = self._first = 0
        self._safe: Any = None

    def put(self, id: Any) -> int:
        with self._changed:
            while len(self._ids) >= self._size:
                self._changed.wait()
            sequence = self._next
            self._ids[sequence] = id
            self._next += 1
            return sequence

    def mark(self, sequence: int) -> None:
        with self._changed:
            heappush(self._marked, sequence)
            while self._marked and self._marked[0] == self._first:
                self._safe = self._ids.pop(heappop(self._marked))
                self._first += 1
            self._changed.notify_all()

    def mark_many(self, sequences: range) -> None:
        for sequence in sequences:
            self.mark(sequence)

    def drain(self) -> Any:
        with self._changed:
            return self._safe


def acknowledgements(buffer: Any, mark: Callable[[range], object]) -> float:
    """Return how many ids per second are put, marked out of order and drained."""
    random = Random(1)
    began = time.process_time()
    for start in range(0, IDS, RUN * ROUND):
        for id in range(start, start + RUN * ROUND):
            buffer.put(id)
        runs = list(range(start, start + RUN * ROUND, RUN))
        random.shuffle(runs)
        for first in runs:
            mark(range(first, first + RUN))
        buffer.drain()
    assert buffer.drain() == IDS - 1
    return IDS / (time.process_time() - began)


def one_by_one(buffer: Any) -> float:
    """Do what acknowledgements() does, with a call of mark() for each id."""
    mark = buffer.mark

    def mark_each(sequences: range) -> None:
        for sequence in sequences:
            mark(sequence)

    return acknowledgements(buffer, mark_each)


def many_at_once(buffer: Any) -> float:
    """Do what acknowledgements() does, with a call of mark_many() for each batch."""
    return acknowledgements(buffer, buffer.mark_many)


def sends(bootstrap_servers: str, send: Callable[[Any, lv.AckBuffer, int], object]) -> float:
    """Return the CPU time per record in nanoseconds until it is acknowledged and marked, without put(), which is the same for all."""
    buffer = lv.AckBuffer(RECORDS, retain=False)
    with lv.KafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
        producer.send("acks", VALUE).result(30)
        sequences = [buffer.put(id) for id in range(RECORDS)]
        began = time.process_time()
        for sequence in sequences:
            send(producer.send, buffer, sequence)
        producer.flush()
        return (time.process_time() - began) / RECORDS * 1e9


def plain(send: Any, buffer: lv.AckBuffer, sequence: int) -> None:
    send("acks", VALUE)


def with_ack(send: Any, buffer: lv.AckBuffer, sequence: int) -> None:
    send("acks", VALUE, ack=(buffer, sequence))


def with_callback(send: Any, buffer: lv.AckBuffer, sequence: int) -> None:
    def marked(metadata: Any, error: Any) -> None:
        if error is None:
            buffer.mark(sequence)

    send("acks", VALUE, on_delivery=marked)


@contextmanager
def broker() -> Iterator[str]:
    """Run the embedded broker in another process; yield its address."""
    program = (
        "import sys; from levada.testing import EmbeddedKafka\n"
        f"with EmbeddedKafka(num_partitions={PARTITIONS}) as kafka: print(kafka.bootstrap_servers, flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.communicate()


def in_turns(turns: int, systems: dict[str, Measure]) -> dict[str, float]:
    """Measure the systems in turns; return the median of each."""
    found: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(turns):
        for name, measure in systems.items():
            found[name].append(measure())
    return {name: median(values) for name, values in found.items()}


def main() -> None:
    """Measure, and print the results."""
    command = argparse.ArgumentParser(description=__doc__)
    command.add_argument("--turns", type=int, default=5)
    turns = command.parse_args().turns

    rates = in_turns(
        turns,
        {
            "AckBuffer, mark_many()": lambda: many_at_once(lv.AckBuffer(SIZE)),
            "AckBuffer, mark()": lambda: one_by_one(lv.AckBuffer(SIZE)),
            "dict and heap": lambda: one_by_one(DictAndHeap(SIZE)),
        },
    )
    print("acknowledgements a second, in process: put, mark out of order, drain")
    for name, rate in rates.items():
        print(f"  {name:26}{rate:12,.0f}{rate / rates['dict and heap']:8.1f}x")
    print(f"  target                    {TARGET_PER_S:12,}")

    with broker() as address:
        costs = in_turns(
            turns,
            {
                name: lambda send=send: sends(address, send)
                for name, send in (("send()", plain), ("ack=", with_ack), ("callback", with_callback))
            },
        )
    print("CPU of a record in ns, from send() until it is acknowledged and marked")
    for name, cost in costs.items():
        print(f"  {name:26}{cost:12,.0f}{cost - costs['send()']:+8.0f}")


if __name__ == "__main__":
    main()
