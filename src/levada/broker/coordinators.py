"""Which node coordinates a group or a transactional id.

Kafka keeps what coordinators know in internal topics of 50 partitions; the key's hash chooses the partition, and its leader coordinates.
This broker keeps no such topics yet, so the partitions are spread over the nodes in order.
"""

from __future__ import annotations

from levada.broker.cluster import Cluster

_PARTITIONS = 50
"""Of __consumer_offsets, __transaction_state and __share_group_state: Kafka's default for all three."""


def coordinator_id(cluster: Cluster, key: str) -> int:
    """Return the id of the node that coordinates a key."""
    nodes = sorted(cluster.nodes)
    return nodes[partition_for(key) % len(nodes)]


def partition_for(key: str, partitions: int = _PARTITIONS) -> int:
    """Return the partition of an internal topic that a key belongs to, as Kafka chooses it: by the hash of a Java string."""
    value = java_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partitions


def java_hash(text: str) -> int:
    """Return String.hashCode(): over the UTF-16 code units, in 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
