"""A group of many members in one process, each in its own thread. Their listeners record which member owns which partitions.

The time of a rebalance begins when a member is started or begins to close, and ends when every partition has one owner and the numbers of
partitions differ by at most one.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Iterable
from statistics import median
from typing import Any

from engine_process import Figures
from measure import own_cpu_seconds

FORM, JOIN, LEAVE, CPU = "form ms", "join ms", "leave ms", "CPU ms per join and leave"
TIMEOUT_S = 60
POLL_S = 0.5
# The defaults of 3 s and 45 s would dominate the measurement. Consumer groups get their heartbeat interval from the broker: 200 ms.
CLASSIC = {"heartbeat.interval.ms": 200, "session.timeout.ms": 6000, "partition.assignment.strategy": "range"}


def settings(protocol: str) -> dict[str, Any]:
    """Return the settings that all clients get."""
    return {"group.protocol": protocol, **(CLASSIC if protocol == "classic" else {}), "auto.offset.reset": "earliest"}


class Ownership:
    """The partitions of the topic that each member owns."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._owned: dict[Member, set[int]] = {}
        self._changed = threading.Condition()
        self._last_change = 0.0

    def joins(self, member: Member) -> None:
        with self._changed:
            self._owned[member] = set()

    def leaves(self, member: Member) -> None:
        with self._changed:
            del self._owned[member]

    def assigned(self, member: Member, partitions: Iterable[Any]) -> None:
        self._change(member, set.update, partitions)

    def revoked(self, member: Member, partitions: Iterable[Any]) -> None:
        self._change(member, set.difference_update, partitions)

    def _change(self, member: Member, change: Any, partitions: Iterable[Any]) -> None:
        with self._changed:
            if member in self._owned:
                change(self._owned[member], [tp.partition for tp in partitions])
                self._last_change = time.perf_counter()
                self._changed.notify()

    def settled(self) -> float:
        """Wait until the assignment is complete and fair; return the time of its last change."""
        with self._changed:
            if not self._changed.wait_for(self._is_settled, TIMEOUT_S):
                raise TimeoutError(f"{sorted(len(owned) for owned in self._owned.values())} of {self._partitions} partitions are owned")
            return self._last_change

    def _is_settled(self) -> bool:
        counts = [len(owned) for owned in self._owned.values()]
        is_fair = max(counts) - min(counts) <= 1
        return is_fair and sum(counts) == self._partitions == len(set().union(*self._owned.values()))


class Member(threading.Thread):
    """Polls until close(). Subclasses make the consumer."""

    def __init__(self, ownership: Ownership, topic: str, config: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self.topic, self.config, self.ownership = topic, config, ownership
        self._stopping = threading.Event()
        self._closing_since = 0.0
        ownership.joins(self)

    def run(self) -> None:
        consumer = self.subscribed()
        while not self._stopping.is_set():
            consumer.poll(POLL_S)
        self.ownership.leaves(self)
        self._closing_since = time.perf_counter()
        consumer.close()

    def stop(self) -> None:
        """Make the member close soon."""
        self._stopping.set()

    def close(self) -> float:
        """Leave the group; return the time when leaving began."""
        self.stop()
        self.join(TIMEOUT_S)
        assert not self.is_alive()
        return self._closing_since

    @abstractmethod
    def subscribed(self) -> Any:
        """Return a subscribed consumer whose listener updates `ownership`."""

    def on_assigned(self, *given: Any) -> None:
        self.ownership.assigned(self, given[-1])

    def on_revoked(self, *given: Any) -> None:
        self.ownership.revoked(self, given[-1])


class LevadaMember(Member):
    def __init__(self, ownership: Ownership, topic: str, config: dict[str, Any]) -> None:
        super().__init__(ownership, topic, config)
        # Imported before time is measured.
        from levada import KafkaConsumer

        self._consumer = KafkaConsumer

    def subscribed(self) -> Any:
        consumer: Any = self._consumer(self.config)
        consumer.subscribe([self.topic], on_assigned=self.on_assigned, on_revoked=self.on_revoked)
        return consumer


class ConfluentMember(Member):
    def __init__(self, ownership: Ownership, topic: str, config: dict[str, Any]) -> None:
        super().__init__(ownership, topic, config)
        from confluent_kafka import Consumer

        self._consumer = Consumer

    def subscribed(self) -> Any:
        consumer: Any = self._consumer(self.config)
        consumer.subscribe([self.topic], on_assign=self.on_assigned, on_revoke=self.on_revoked, on_lost=self.on_revoked)
        return consumer


MEMBERS = {"levada": LevadaMember, "confluent": ConfluentMember}


def rebalances(
    bootstrap_servers: str, topic: str, group: str, client: str, protocol: str, members: int, partitions: int, rounds: int
) -> Figures:
    """Form a group, then let one more member join and leave again in each round; return the medians of the rounds."""
    ownership = Ownership(partitions)
    config = {"bootstrap.servers": bootstrap_servers, "group.id": group, **settings(protocol)}

    def started(count: int) -> tuple[list[Member], float]:
        new = [MEMBERS[client](ownership, topic, config) for _ in range(count)]
        since = time.perf_counter()
        for member in new:
            member.start()
        return new, (ownership.settled() - since) * 1e3

    all_members, form = started(members)
    joins, leaves = [], []
    cpu = own_cpu_seconds()
    for _ in range(rounds):
        (newcomer,), join = started(1)
        joins.append(join)
        since = newcomer.close()
        leaves.append((ownership.settled() - since) * 1e3)
    cpu = own_cpu_seconds() - cpu
    for member in all_members:
        member.stop()
    for member in all_members:
        member.close()
    return {FORM: form, JOIN: median(joins), LEAVE: median(leaves), CPU: cpu * 1e3 / rounds}
