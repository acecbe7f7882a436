"""Draws the plan of a simulated group from a seed: the operations of its members, and faults, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, repeat
from random import Random
from typing import Any

from chaos_plan import Plan, Step

NODES = 3
TOPICS: Mapping[str, int] = {"t": 4, "u": 2}
OUT_PARTITIONS = 3
STEPS = 32
PROTOCOLS = ("classic", "consumer")
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky", "range,cooperative-sticky")
Codes = Mapping[str, tuple[str, ...]]
_OF_BOTH: Codes = {
    "Fetch": ("NOT_LEADER_OR_FOLLOWER", "UNKNOWN_SERVER_ERROR"),
    "FindCoordinator": ("COORDINATOR_NOT_AVAILABLE",),
    "TxnOffsetCommit": ("NOT_COORDINATOR", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "COORDINATOR_LOAD_IN_PROGRESS"),
}
CODES: Mapping[str, Codes] = {
    "classic": {
        "Heartbeat": ("NOT_COORDINATOR", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"),
        "JoinGroup": ("NOT_COORDINATOR", "UNKNOWN_MEMBER_ID", "COORDINATOR_LOAD_IN_PROGRESS", "REBALANCE_IN_PROGRESS"),
        "SyncGroup": ("NOT_COORDINATOR", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"),
        "OffsetCommit": ("NOT_COORDINATOR", "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "COORDINATOR_LOAD_IN_PROGRESS"),
        "OffsetFetch": ("NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "UNSTABLE_OFFSET_COMMIT"),
        **_OF_BOTH,
    },
    "consumer": {
        "ConsumerGroupHeartbeat": (
            "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH",
        ),
        "OffsetCommit": ("NOT_COORDINATOR", "STALE_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "COORDINATOR_LOAD_IN_PROGRESS"),
        "OffsetFetch": (
            "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "UNSTABLE_OFFSET_COMMIT", "STALE_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID",
        ),
        **_OF_BOTH,
    },
}  # fmt: skip
"""By group protocol and API, errors that brokers answer with once or twice, without executing the request."""


def draw_group(seed: int, steps: int = STEPS, **settings: Any) -> Plan:
    """Return the plan of a seed. settings: replace the members' settings that the seed gives. group_protocol: by default classic.

    With an odd seed the members write the records that they have read, in transactions with pauses. With an even seed, auto-commit is
    enabled with a probability of one half.
    """
    random = Random(seed)
    protocol = settings.get("group_protocol", "classic")
    chosen: dict[str, Any] = {
        **_assignor(random, protocol),
        "enable_auto_commit": seed % 2 == 0 and random.random() < 0.5,
        "auto_commit_interval_ms": 1000,
        "max_poll_records": random.choice([2, 500]),
        "commits_revoked": random.random() < 0.5,
        "transactional": seed % 2 == 1,
        "pause_ms": random.choice([0, 3_000, 22_000, 22_000]),
        "transaction_timeout_ms": random.choice([15_000, 40_000]),
        **settings,
    }
    begin = (Step("join", (random.random() < 0.3,)), Step("write", ("t", 0, 3)))
    return Plan(seed, chosen, (*begin, *_Steps(random, CODES[protocol]).draw(steps)))


def _assignor(random: Random, protocol: str) -> dict[str, Any]:
    if protocol == "classic":
        return {"partition_assignment_strategy": random.choice(STRATEGIES)}
    return {"group_remote_assignor": random.choice([None, "uniform", "range"])}


class _Steps:
    """Draws steps. Each method has the name of a step, and draws the step's arguments."""

    def __init__(self, random: Random, codes: Codes) -> None:
        self._random = random
        self._codes = codes

    def draw(self, count: int) -> Iterator[Step]:
        for _ in range(count):
            name = self._random.choice(_NAMES)
            arguments: Callable[[], tuple[Any, ...]] = getattr(self, name)
            yield Step(name, arguments())

    # What the program does

    def poll(self) -> tuple[int, int]:
        return self._member(), self._random.choice([10, 400, 1500])

    def write(self) -> tuple[str, int, int]:
        return *self._partition(), self._random.randint(1, 5)

    def join(self) -> tuple[bool]:
        return (self._random.random() < 0.3,)

    def close(self) -> tuple[int, bool | None]:
        return self._member(), self._random.choice([None, True, False])

    def die(self) -> tuple[int]:
        return (self._member(),)

    def commit(self) -> tuple[int]:
        return (self._member(),)

    def resubscribe(self) -> tuple[int, tuple[str, ...]]:
        return self._member(), self._random.choice([("t",), ("t", "u")])

    def idle(self) -> tuple[int]:
        """All members pause, in ms; some pauses are longer than the session timeout, some longer than max.poll.interval.ms."""
        return (self._random.choice([1_000, 8_000, 25_000]),)

    def slow(self) -> tuple[int, int]:
        """One member pauses, in ms; the others continue."""
        return self._member(), self._random.choice([5_000, 22_000])

    # Faults

    def move(self) -> tuple[int]:
        return (self._node(),)

    def lead(self) -> tuple[str, int, int]:
        return *self._partition(), self._node()

    def load(self) -> tuple[int]:
        return (self._random.randint(1, 3000),)

    def fail(self) -> tuple[str, str, int]:
        api = self._random.choice(sorted(self._codes))
        return api, self._random.choice(self._codes[api]), self._random.randint(1, 2)

    def cut(self) -> tuple[str, bool]:
        return self._api(), self._random.random() < 0.5

    def lose(self) -> tuple[str]:
        return (self._api(),)

    def late(self) -> tuple[str, int]:
        return self._api(), self._random.randint(100, 12_000)

    def stop(self) -> tuple[int, int]:
        return self._node(), self._random.randint(1, 12_000)

    def blackhole(self) -> tuple[int, int]:
        return self._node(), self._random.randint(1, 12_000)

    def _member(self) -> int:
        return self._random.randrange(100)

    def _partition(self) -> tuple[str, int]:
        topic = self._random.choice(sorted(TOPICS))
        return topic, self._random.randrange(TOPICS[topic])

    def _api(self) -> str:
        return self._random.choice((*sorted(self._codes), "EndTxn", "Produce"))

    def _node(self) -> int:
        return self._random.randint(1, NODES)


PROGRAMS: Mapping[str, int] = {
    "poll": 16, "write": 8, "join": 2, "close": 1, "die": 1, "commit": 4, "resubscribe": 1, "idle": 1, "slow": 1,
}  # fmt: skip
FAULTS: Mapping[str, int] = {"move": 2, "lead": 1, "load": 1, "fail": 2, "cut": 1, "lose": 2, "late": 1, "stop": 1, "blackhole": 1}
"""How often each step is drawn, in proportion to the others."""
_NAMES = tuple(chain.from_iterable(repeat(name, weight) for name, weight in {**PROGRAMS, **FAULTS}.items()))
