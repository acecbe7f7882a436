"""Which nodes have the replicas of a partition: chosen in turn or as a request says, and changed by a reassignment (KIP-455)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from levada.error_codes import ErrorCode
from levada.errors import BrokerError

MOST_NEW_PARTITIONS = 10_000
"""The limit of Kafka's controller for one request. A request of a few bytes can ask for any number, and each costs memory and time."""


def check_partition_count(count: int) -> int:
    """Return the partition count of a new topic after checking it. Raises INVALID_PARTITIONS, or POLICY_VIOLATION if it is more than one
    request may create.
    """
    if count < 1:
        raise BrokerError(f"a topic needs at least 1 partition, not {count}", code=ErrorCode.INVALID_PARTITIONS)
    check_new_partitions(count)
    return count


def check_new_partitions(count: int) -> None:
    """Raise POLICY_VIOLATION if one request asks for more than MOST_NEW_PARTITIONS partitions."""
    if count > MOST_NEW_PARTITIONS:
        raise BrokerError(f"{count} partitions at once; at most {MOST_NEW_PARTITIONS} are made", code=ErrorCode.POLICY_VIOLATION)


def check_replication_factor(factor: int, alive: Collection[int]) -> int:
    """Return the replication factor of new partitions after checking it. Raises INVALID_REPLICATION_FACTOR if it is below 1, or if fewer
    nodes are alive.
    """
    if not 1 <= factor <= len(alive):
        raise BrokerError(f"replication factor {factor} on a cluster of {len(alive)} brokers", code=ErrorCode.INVALID_REPLICATION_FACTOR)
    return factor


def place(partitions: int, factor: int, alive: Sequence[int]) -> list[tuple[int, ...]]:
    """Choose the replicas of each partition of a topic round-robin, beginning with the first node, so that the nodes lead about equally
    many partitions of the topic. factor: the number of replicas per partition.
    """
    return [tuple(alive[(index + replica) % len(alive)] for replica in range(factor)) for index in range(partitions)]


def check_assignment(assignment: Mapping[int, tuple[int, ...]], alive: Collection[int]) -> list[tuple[int, ...]]:
    """Return the replicas of each partition, in order, after checking the assignment of a request. Raises INVALID_REPLICA_ASSIGNMENT."""
    if sorted(assignment) != list(range(len(assignment))):
        fault = "partition numbers do not run from 0 without gaps"
    elif len({len(replicas) for replicas in assignment.values()}) != 1:
        fault = "partitions differ in their number of replicas"
    elif not all(are_nodes(replicas, alive) for replicas in assignment.values()):
        fault = "replicas must be known brokers, at least one and each only once"
    else:
        return [assignment[index] for index in range(len(assignment))]
    raise BrokerError(fault, code=ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def are_nodes(replicas: tuple[int, ...], alive: Collection[int]) -> bool:
    """Return whether the replicas are on at least one node, on no node twice, and only on nodes that are alive."""
    return bool(replicas) and len(set(replicas)) == len(replicas) and set(replicas) <= set(alive)


class Reassignment(NamedTuple):
    """A reassignment in progress (KIP-455).

    The added replicas copy the leader's log. Once all replicas of the target are in sync, the others are removed, and if the leader is one
    of them, a replica of the target becomes leader. Until then the reassignment can be cancelled, which removes the added replicas.

    before: the replicas when it began. target: the replicas at the end, the preferred leader first.
    """

    before: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def adding(self) -> tuple[int, ...]:
        """The nodes that get a new replica."""
        return tuple(node_id for node_id in self.target if node_id not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        """The nodes whose replicas are removed when the reassignment is complete."""
        return tuple(node_id for node_id in self.before if node_id not in self.target)

    @property
    def meanwhile(self) -> tuple[int, ...]:
        """The nodes that have replicas during the reassignment."""
        return self.target + self.removing

    def is_done(self, in_sync: Iterable[int]) -> bool:
        """Return whether all replicas of the target are in sync."""
        return set(self.target) <= set(in_sync)
