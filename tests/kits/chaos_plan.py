"""What happens in a simulated run, drawn from a seed: operations and faults as data, so that a run can be repeated and made shorter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from levada.error_codes import ErrorCode

NODES = 3
PARTITIONS = 2
STEPS = 200
FAULT_RATE = 0.10
ASKED = ("Produce", "Produce", "Produce", "Metadata", "InitProducerId", "Fetch")
"""The APIs that faults hit; Produce more often."""

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
"""What a leader answers for a batch that it did not append."""
APPENDED_ALL_THE_SAME = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
PASSING: Mapping[str, tuple[ErrorCode, ...]] = {
    "Metadata": (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT),
    "InitProducerId": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT),
    "Fetch": (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR),
}
"""What other APIs answer for a while, and then no longer."""


class Step(NamedTuple):
    """One operation or fault: the name of a method of World, and its arguments."""

    name: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.arguments))})"


class Plan(NamedTuple):
    """A run: the seed of its network, the settings of its producer, and its steps."""

    seed: int
    settings: Mapping[str, Any]
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "\n".join((f"seed {self.seed}, producer {dict(self.settings)}", *(f"  {step}" for step in self.steps)))


def draw(seed: int, steps: int = STEPS, **settings: Any) -> Plan:
    """Return the plan of a seed. settings: of the producer, instead of those that the seed would choose."""
    random = Random(seed)
    chosen = {**_settings(random), **settings}
    return Plan(seed, chosen, tuple(_step(random) for _ in range(steps)))


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
    if random.random() < 0.25:
        return Step("wait", (random.randint(0, 50),))
    if random.random() < 0.05:
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


def _forget(random: Random) -> Step:
    return Step("forget", (random.randrange(PARTITIONS),))


FAULTS: tuple[Callable[[Random], Step], ...] = (
    _refuse, _refuse, _answer, _append_and_refuse, _lose, _lose, _cut, _cut, _cut_frame, _slow, _slow, _throttle, _elect, _elect,
    _stop, _stop, _blackhole, _chunk, _forget,
)  # fmt: skip
"""How each fault is drawn; those named twice are drawn twice as often."""
