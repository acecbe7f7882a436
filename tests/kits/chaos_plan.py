"""Draws the plan of a simulated run from a seed: operations and faults as data, so that a run can be repeated and shortened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

from levada.error_codes import ErrorCode

NODES = 3
PARTITIONS = 2
STEPS = 150
FAULT_RATE = 0.10
ASKED = ("Produce", "Produce", "Produce", "Metadata", "InitProducerId", "Fetch")
"""The APIs that faults affect. Produce stands here three times, so that it is chosen more often."""

REFUSED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
"""Errors of a leader that did not append the batch."""
APPENDED_ALL_THE_SAME = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
PASSING: Mapping[str, tuple[ErrorCode, ...]] = {
    "Metadata": (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT),
    "InitProducerId": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT),
    "Fetch": (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
}
"""By API, errors with which a broker answers the next one to three requests."""
ABOUT_TRANSACTIONS = (
    "EndTxn",
    "EndTxn",
    "EndTxn",
    "InitProducerId",
    "AddPartitionsToTxn",
    "FindCoordinator",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
)
COORDINATOR_AWAY = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class Step(NamedTuple):
    """One operation or fault: the name of a method of World, and its arguments."""

    name: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.arguments))})"


class Plan(NamedTuple):
    """A run: the seed of its network, the settings of its producer, its steps, and the settings of its brokers."""

    seed: int
    settings: Mapping[str, Any]
    steps: tuple[Step, ...]
    brokers: Mapping[str, Any] = MappingProxyType({})

    @property
    def is_transactional(self) -> bool:
        return "transactional_id" in self.settings

    def __str__(self) -> str:
        first = f"seed {self.seed}, producer {dict(self.settings)}, brokers {dict(self.brokers)}"
        return "\n".join((first, *(f"  {step}" for step in self.steps)))


def draw(seed: int, steps: int = STEPS, **settings: Any) -> Plan:
    """Return the plan of a seed. settings: settings of the producer that replace those drawn from the seed.

    Odd seeds make transactional producers; for half of these the brokers have transaction.version 0, like Kafka before 4.0.
    """
    return draw_transactions(seed, steps, **settings) if seed % 2 else draw_records(seed, steps, **settings)


def draw_records(seed: int, steps: int = STEPS, **settings: Any) -> Plan:
    """Return a plan of an idempotent producer."""
    random = Random(seed)
    chosen = {**_settings(random), **settings}
    return Plan(seed, chosen, tuple(_step(random) for _ in range(steps)))


def draw_transactions(seed: int, steps: int = STEPS, **settings: Any) -> Plan:
    """Return a plan of a transactional producer."""
    random = Random(seed)
    chosen = {**_settings(random), "transactional_id": "tx", "max_block_ms": random.choice([2500, 6000, 60_000]), **settings}
    brokers = {"transaction_version": 2 if seed % 4 == 1 else 0}
    return Plan(seed, chosen, tuple(islice(_transactions(random), steps)), brokers)


def _transactions(random: Random) -> Iterator[Step]:
    while True:
        yield Step("begin")
        for _ in range(random.randint(0, 12)):
            yield _step_of_transaction(random)
        yield Step("abort" if random.random() < 0.25 else "commit", (random.randint(0, 2),))
        if random.random() < 0.10:
            yield Step("take_over")


def _step_of_transaction(random: Random) -> Step:
    if random.random() < FAULT_RATE:
        return random.choice(TRANSACTION_FAULTS)(random)
    if random.random() < 0.04:
        return Step("offsets", (random.randrange(1000),))
    if random.random() < 0.06:
        return Step("zombie", (random.randrange(PARTITIONS),))
    return _operation(random, polls=0.15)


def _settings(random: Random) -> dict[str, Any]:
    return {
        "batch_size": random.choice([1, 200, 1000]),
        "linger_ms": random.choice([0, 5]),
        "compression_type": random.choice(["none", "lz4"]),
        "request_timeout_ms": 2000,
        "delivery_timeout_ms": random.choice([3000, 8000, 60_000]),
        "buffer_memory": random.choice([5000, 1 << 20]),
        "max_block_ms": 60_000,
    }


def _step(random: Random) -> Step:
    if random.random() < FAULT_RATE:
        return random.choice(FAULTS)(random)
    return _operation(random, polls=0.05)


def _operation(random: Random, *, polls: float) -> Step:
    if random.random() < 0.25:
        return Step("wait", (random.randint(0, 50),))
    if random.random() < polls:
        return Step("poll", (random.randint(0, 200),))
    return Step("send", (random.randrange(PARTITIONS), random.randint(0, 120)))


def _node(random: Random) -> int:
    return random.randint(1, NODES)


def _refuse(random: Random) -> Step:
    return Step("refuse", (_node(random), random.choice(REFUSED).name, random.randrange(PARTITIONS), random.randint(1, 3)))


def _answer(random: Random) -> Step:
    api = random.choice(sorted(PASSING))
    return Step("answer", (_node(random), api, random.choice(PASSING[api]).name, random.randint(1, 3)))


def _append_and_refuse(random: Random) -> Step:
    return Step("append_and_refuse", (_node(random), random.choice(APPENDED_ALL_THE_SAME).name))


def _lose(random: Random) -> Step:
    return Step("lose", (_node(random), random.choice(ASKED)))


def _cut(random: Random) -> Step:
    return Step("cut", (_node(random), random.choice(ASKED), random.randint(1, 3), random.random() < 0.5))


def _cut_frame(random: Random) -> Step:
    return Step("cut_frame", (_node(random), random.choice(ASKED), random.randint(1, 40)))


def _slow(random: Random) -> Step:
    return Step("slow", (_node(random), random.choice(ASKED), random.randint(10, 3000), random.randint(1, 3)))


def _throttle(random: Random) -> Step:
    return Step("throttle", (_node(random), random.choice(ASKED), random.randint(10, 2000)))


def _elect(random: Random) -> Step:
    return Step("elect", (random.randrange(PARTITIONS), _node(random)))


def _stop(random: Random) -> Step:
    return Step("stop", (_node(random), random.randint(1, 3000)))


def _blackhole(random: Random) -> Step:
    return Step("blackhole", (_node(random), random.randint(1, 5000)))


def _chunk(random: Random) -> Step:
    return Step("chunk", (random.choice([17, 1000, 1 << 20]),))


def _end_badly(random: Random) -> Step:
    """Draw a fault of a request that begins, extends or ends a transaction."""
    node, api = _node(random), random.choice(ABOUT_TRANSACTIONS)
    kinds = [
        Step("lose", (node, api)),
        Step("cut", (node, api, 1, random.random() < 0.5)),
        Step("slow", (node, api, random.randint(10, 3000), 1)),
        Step("answer", (node, api, random.choice(COORDINATOR_AWAY).name, random.randint(1, 3))),
    ]
    return random.choice(kinds)


def _hold_markers(random: Random) -> Step:
    return Step("slow", (_node(random), "WriteTxnMarkers", random.randint(10, 3000), random.randint(1, 3)))


def _move_coordinator(random: Random) -> Step:
    return Step("move_coordinator", (_node(random),))


def _load_coordinator(random: Random) -> Step:
    return Step("load_coordinator", (random.randint(1, 3000),))


def _forget(random: Random) -> Step:
    return Step("forget", (random.randrange(PARTITIONS),))


FAULTS: tuple[Callable[[Random], Step], ...] = (
    _refuse, _refuse, _answer, _append_and_refuse, _lose, _lose, _cut, _cut, _cut_frame, _slow, _slow, _throttle, _elect, _elect,
    _stop, _stop, _blackhole, _chunk, _forget,
)  # fmt: skip
"""The functions that draw faults. A function that is named twice is chosen twice as often."""
TRANSACTION_FAULTS = (
    *(fault for fault in FAULTS if fault is not _forget),
    *(_end_badly, _end_badly, _end_badly, _end_badly, _hold_markers, _move_coordinator, _load_coordinator),
)
