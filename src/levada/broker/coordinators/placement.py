"""Which node coordinates a group, a transactional id or a share partition.

Kafka's coordinators store their state in internal topics. A key's hash selects the partition, and the leader of that partition coordinates
the key. A new leader begins a new epoch, and answers COORDINATOR_LOAD_IN_PROGRESS until it has read the partition. Here all nodes share the
coordinators' state, so loading takes no time; a test can let a coordinator answer as if it was loading (begin_loading). The topic is
created when a coordinator is first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from levada.error_codes import ErrorCode
from levada.errors import BrokerError, ConfigError
from levada.types import Node, TopicPartition


class Placement:
    """Decides which node leads each partition of an internal topic, and so coordinates the keys in it: group ids, transactional ids or
    share partitions.

    nodes: the nodes of the cluster. When the topic is created, its partitions are spread over them in order. As in Kafka, a node that is
    added later gets none by itself: partitions move only by a test, by an election or reassignment, or because their node has stopped.
    partitions: the number of partitions, or the number that create() will make. has_topic: whether the topic exists.
    """

    def __init__(self, topic: str, partitions: int, nodes: Mapping[int, Node], create: Callable[[], object] = lambda: None) -> None:
        self.topic = topic
        self.partitions = self._usual_partitions = partitions
        self.has_topic = False
        self._nodes = nodes
        self._create = create
        self._leaders: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._loading: set[int] = set()
        self._watchers: list[Callable[[], None]] = []

    def watch(self, changed: Callable[[], None]) -> None:
        """Register a callback that is called when partitions may have another leader, begin to load or have been loaded, and when the topic
        is created or deleted.
        """
        self._watchers.append(changed)

    def _notify_watchers(self) -> None:
        """Call the callbacks that watch() has registered."""
        for changed in self._watchers:
            changed()

    def need(self) -> None:
        """Create the topic if it does not exist, because a client looks for a coordinator."""
        if not self.has_topic:
            self._create()

    def partition_of(self, key: str) -> int:
        """Return the number of the partition to which a key belongs."""
        return partition_for(key, self.partitions)

    def place_of(self, key: str) -> TopicPartition:
        """Return the partition to which a key belongs, with the topic's name."""
        return TopicPartition(self.topic, self.partition_of(key))

    def leader_of(self, key: str) -> int:
        """Return the id of the node that coordinates a key."""
        return self._leader(self.partition_of(key))

    def epoch_of(self, key: str) -> int:
        """Return the epoch of a key's coordinator."""
        return self._epochs.get(self.partition_of(key), 0)

    def leader_and_epoch(self, partition: int) -> tuple[int, int]:
        """Return the id of the node that leads a partition, and the leader epoch."""
        return self._leader(partition), self._epochs.get(partition, 0)

    @property
    def epochs(self) -> Mapping[int, int]:
        """The leader epochs by partition number, without the partitions that are still in their first epoch."""
        return self._epochs

    def check(self, key: str, node_id: int) -> None:
        """Raise NOT_COORDINATOR if the node does not coordinate the key, COORDINATOR_LOAD_IN_PROGRESS if it has not loaded the key's
        partition yet. Creates the topic if it does not exist.
        """
        self.need()
        leader = self.leader_of(key)
        if leader != node_id:
            raise BrokerError(f"node {leader} coordinates {key!r}, not node {node_id}", code=ErrorCode.NOT_COORDINATOR)
        self.check_loaded(key)

    def check_loaded(self, key: str) -> None:
        """Raise COORDINATOR_LOAD_IN_PROGRESS if the coordinator of a key is still loading."""
        if self.partition_of(key) in self._loading:
            raise BrokerError(f"the coordinator of {key!r} is loading", code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def is_loading(self, node_id: int) -> bool:
        """Return whether a node is still loading one of the partitions that it leads."""
        return any(self._leader(partition) == node_id for partition in self._loading)

    def loaded_by(self, node_id: int) -> dict[int, int]:
        """Return the partitions that a node leads and has loaded, with the leader epoch of each."""
        partitions = [partition for partition in range(self.partitions) if self._leader(partition) == node_id]
        return {partition: self._epochs.get(partition, 0) for partition in partitions if partition not in self._loading}

    def move(self, key: str, node_id: int) -> None:
        """Make a node the coordinator of a key, and of all keys of its partition, in a new epoch. Raises ConfigError for an unknown
        node.
        """
        if node_id not in self._nodes:
            raise ConfigError(f"there is no node {node_id}; the cluster has {', '.join(map(str, sorted(self._nodes)))}")
        self.move_partition(self.partition_of(key), node_id)

    def move_partition(self, partition: int, node_id: int) -> None:
        """Make a node the leader of a partition, in a new epoch."""
        self._move(partition, node_id)
        self._notify_watchers()

    def continue_from(self, partition: int, epoch: int) -> None:
        """Set the epoch of a partition to the one after `epoch`, which was its last epoch before a restart."""
        self._epochs[partition] = epoch + 1

    def begin(self, partitions: int) -> None:
        """Note that the topic was created with this number of partitions."""
        self.has_topic, self.partitions = True, partitions
        self._leaders = {partition: self._leader(partition) for partition in range(partitions)}
        self._notify_watchers()

    def end(self) -> None:
        """Note that the topic was deleted. If it is created again, its partitions begin new epochs."""
        self.has_topic = False
        for partition in range(self.partitions):
            self._epochs[partition] = self._epochs.get(partition, 0) + 1
        self.partitions = self._usual_partitions
        self._notify_watchers()

    def leave(self, node_id: int, alive: Sequence[int]) -> None:
        """Move the partitions of a node that has stopped to nodes that are alive, if there are any. They stay there when the node is
        started again.
        """
        if not alive:
            return
        for partition in range(self.partitions):
            if self._leader(partition) == node_id:
                self._move(partition, alive[partition % len(alive)])
        self._notify_watchers()

    def begin_loading(self, key: str) -> None:
        """Let the coordinator of a key behave as if it was loading, until end_loading() is called."""
        self._loading.add(self.partition_of(key))
        self._notify_watchers()

    def end_loading(self, key: str) -> None:
        """End begin_loading(): the coordinator of the key answers requests again."""
        self._loading.discard(self.partition_of(key))
        self._notify_watchers()

    def _move(self, partition: int, node_id: int) -> None:
        self._leaders[partition] = node_id
        self._epochs[partition] = self._epochs.get(partition, 0) + 1

    def _leader(self, partition: int) -> int:
        nodes = sorted(self._nodes)
        return self._leaders.get(partition, nodes[partition % len(nodes)])


def partition_for(key: str, partitions: int) -> int:
    """Return the number of the internal topic's partition to which a key belongs. It is computed from the Java hash code of the key, as in
    Kafka.
    """
    value = java_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partitions


def java_hash(text: str) -> int:
    """Return the result of Java's String.hashCode() for a text, a signed integer of 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
