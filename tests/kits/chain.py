"""A chain of three groups that read, transform and write in transactions, in processes that are killed; and a check of the output.

As a program, this module is one process of the chain. It runs one member of each group, each in a thread, until it is killed or leaves in
the middle of a transaction.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from random import Random
from types import TracebackType
from typing import Any, NamedTuple, Self

import levada as lv
from levada.errors import KafkaError

PARTITIONS = (7, 11, 31)
"""The number of partitions of the topic that each group reads."""
STAGES = len(PARTITIONS)
MARK = b"+"
"""Each stage appends this to a value."""
LEFT = 3
"""The exit status of a process that left by itself."""


class Left(BaseException):
    """Raised in a member to leave without committing the records that it has read."""


def topic(prefix: str, stage: int) -> str:
    """Return the name of the topic that a stage reads. Stage n writes to the topic of stage n + 1; the output topic has number STAGES."""
    return f"{prefix}-{stage}"


class Outcome(NamedTuple):
    """The faults in the output of a chain, one line each, and the number of records in the output."""

    wrong: list[str]
    records: int


def verdict(records: Iterable[tuple[bytes, bytes]], per_key: Mapping[bytes, int]) -> Outcome:
    """Check the output of a chain: each key must have the numbers 0, 1, ... once, in this order.

    records: key and value, partition by partition. per_key: how many numbers each key must have.
    """
    numbers: dict[bytes, list[int]] = defaultdict(list)
    wrong: list[str] = []
    for key, value in records:
        if not value.endswith(MARK * STAGES):
            wrong.append(f"{value!r} of {key!r} did not go through every stage once")
        numbers[key].append(int(value.rstrip(MARK)))
    for key in sorted(numbers.keys() | per_key.keys()):
        if numbers[key] != list(range(per_key.get(key, 0))):
            wrong.append(f"{key!r}: {_difference(numbers[key], per_key.get(key, 0))}")
    return Outcome(wrong, sum(map(len, numbers.values())))


def _difference(found: list[int], count: int) -> str:
    missing, twice = set(range(count)) - set(found), len(found) - len(set(found))
    if not missing and not twice:
        return "all there, in another order"
    return f"{len(missing)} of {count} missing, the first {min(missing, default=None)}; {twice} there twice"


class Processes:
    """The processes of a chain. look() starts ended processes again. A context manager that kills all processes at its end."""

    def __init__(self, servers: str, prefix: str, *, count: int, seed: int = 0) -> None:
        self.random = Random(seed)
        self.killed = self.left = self.failed = 0
        self._arguments = [sys.executable, __file__, servers, prefix]
        self._running = {f"p{number}": self._start(f"p{number}") for number in range(count)}

    def kill_one(self) -> None:
        """Kill a random process with SIGKILL."""
        process = self._running[self.random.choice(sorted(self._running))]
        process.kill()
        process.wait()
        self.killed += 1

    def look(self) -> None:
        """Start again each process that has ended."""
        for name, process in self._running.items():
            if (status := process.poll()) is not None:
                self.left += status == LEFT
                self.failed += status not in (LEFT, -9)
                self._running[name] = self._start(name)

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self._arguments, name, str(self.random.randrange(1 << 30))])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()


class End:
    """Reads the output topic of a chain while the chain runs."""

    def __init__(self, servers: str, prefix: str) -> None:
        name = topic(prefix, STAGES)
        self.records: dict[int, list[tuple[bytes, bytes]]] = defaultdict(list)
        self.count = 0
        self._consumer = lv.KafkaConsumer(bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest")
        self._consumer.assign(self._consumer.partitions_for(name))

    def read(self, timeout_s: float) -> int:
        """Poll once, for at most timeout_s seconds, and store the records. Returns how many records arrived."""
        found = self._consumer.poll(timeout_s, max_records=100_000)
        for record in found:
            self.records[record.partition].append((bytes(record.key or b""), bytes(record.value or b"")))
        self.count += len(found)
        return len(found)

    def close(self) -> Iterable[tuple[bytes, bytes]]:
        """Close the consumer, and return key and value of all stored records, partition by partition."""
        self._consumer.close()
        return [record for partition in sorted(self.records) for record in self.records[partition]]


def write(servers: str, prefix: str, records: int, keys: int) -> dict[bytes, int]:
    """Write the input of a chain, and return the number of records of each key."""
    per_key: dict[bytes, int] = dict.fromkeys((b"key-%d" % number for number in range(keys)), 0)
    names = list(per_key)
    with lv.KafkaProducer(bootstrap_servers=servers, delivery_timeout_ms=180_000) as producer:
        for number in range(records):
            key = names[number % keys]
            producer.send(topic(prefix, 0), value=b"%d" % per_key[key], key=key)
            per_key[key] += 1
    return per_key


class Stage(threading.Thread):
    """A member of one group, in its own thread. In processes with an even number it is a static member (KIP-345)."""

    def __init__(self, servers: str, prefix: str, name: str, stage: int, random: Random) -> None:
        super().__init__(daemon=True)
        self._random = random
        self._source, self._target = topic(prefix, stage), topic(prefix, stage + 1)
        member = f"{prefix}-{stage}-{name}"
        self._consumer_settings: dict[str, Any] = {
            "bootstrap_servers": servers,
            "group_id": f"{prefix}-{stage}",
            "group_instance_id": member if int(name[1:]) % 2 == 0 else None,
            "isolation_level": "read_committed",
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 500,
            "max_poll_records": 2_000,
            "enable_auto_commit": False,
            "partition_assignment_strategy": random.choice(["range,cooperative-sticky", "cooperative-sticky,range"]),
        }
        self._producer_settings: dict[str, Any] = {
            "bootstrap_servers": servers,
            "transactional_id": member,
            "transaction_timeout_ms": 30_000,
        }

    def run(self) -> None:
        """Read and write until an error that this member cannot recover from; then end the whole process."""
        try:
            with lv.KafkaProducer(**self._producer_settings) as producer, lv.KafkaConsumer(**self._consumer_settings) as consumer:
                producer.init_transactions()
                consumer.subscribe([self._source])
                while True:
                    self._round(consumer, producer)
        except Left:
            os._exit(LEFT)
        except BaseException as error:
            print(f"{self._source}: {error!r}", file=sys.stderr, flush=True)
            os._exit(1)

    def _round(self, consumer: lv.KafkaConsumer, producer: lv.KafkaProducer) -> None:
        records = consumer.poll(0.2)
        if not records:
            return
        try:
            with producer.transaction():
                for record in records:
                    producer.send(self._target, value=bytes(record.value or b"") + MARK, key=record.key)
                if self._random.random() < 0.02:
                    raise Left
                producer.send_offsets_to_transaction(consumer.consumed_offsets(), consumer.group_metadata())
        except KafkaError as error:
            if error.fatal:
                raise
            consumer.seek_to_committed()


def main() -> None:
    servers, prefix, name, seed = sys.argv[1:]
    random = Random(int(seed))
    for stage in range(STAGES):
        Stage(servers, prefix, name, stage, random).start()
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main()
