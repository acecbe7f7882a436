"""Any course of appends, copies, elections and outages keeps what replication promises."""

from __future__ import annotations

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from broker_kit import START_MS, make_batch
from levada.broker.cluster.cluster import Cluster
from levada.broker.config.settings import BrokerSettings
from levada.broker.log.end_transaction_marker import EndTransactionMarker, read_marker
from levada.broker.replication.partition import NO_LEADER, Partition
from levada.broker.replication.replica import Replica
from levada.broker.replication.waiting import PendingAppend
from levada.record.batch import RecordBatch, seal
from levada.types import Node

NODES = (1, 2, 3)
PRODUCERS = (70, 71)
LAG_MS = 30_000
TRANSACTIONAL = 0x10
FLAGS_AT = 22

a_node = st.sampled_from(NODES)
a_producer = st.sampled_from(PRODUCERS)


def batches(replica: Replica, end: int) -> list[tuple[int, bytes]]:
    return [(batch.base_offset, bytes(batch.data)) for batch in replica.log.batches() if batch.next_offset <= end]


def last_stable_offset(replica: Replica) -> int:
    """Where the oldest transaction begins whose marker is missing or not committed, by what the log says."""
    unstable: dict[int, int] = {}
    for batch in replica.log.batches():
        if batch.is_control and read_marker(batch):
            if batch.base_offset < replica.log.high_watermark:
                unstable.pop(batch.producer_id, None)
        elif batch.is_transactional:
            unstable.setdefault(batch.producer_id, batch.base_offset)
    return min([replica.log.high_watermark, *unstable.values()])


def transactional(data: bytes) -> bytes:
    flagged = bytearray(data)
    flagged[FLAGS_AT] |= TRANSACTIONAL
    seal(flagged)
    return bytes(flagged)


class Replication(RuleBasedStateMachine):
    """Three replicas of one partition. acknowledged: what clients were told to be safe, by offset."""

    waiting: Bundle[tuple[PendingAppend, bytes]] = Bundle("waiting")

    @initialize(min_insync=st.sampled_from(["1", "2", "3"]), unclean=st.sampled_from(["false", "true"]))
    def begin(self, min_insync: str, unclean: str) -> None:
        self.cluster = Cluster(BrokerSettings(default_replication_factor=3), Random(1))
        for number in NODES:
            self.cluster.join(Node(number, f"b{number}", 9092))
        config = {"min.insync.replicas": min_insync, "unclean.leader.election.enable": unclean}
        self.partition: Partition = self.cluster.add(self.cluster.plan("t", 1, config=config)).partitions[0]
        self.number = 0
        self.acknowledged: dict[int, bytes] = {}
        self.visible: list[tuple[int, bytes]] = []
        self.high_watermark = 0
        self.paused: set[int] = set()

    @property
    def leader(self) -> Replica:
        return self.partition.replicas[self.partition.leader]

    @property
    def has_leader(self) -> bool:
        return self.partition.leader != NO_LEADER

    # What clients do

    @precondition(lambda self: self.has_leader)
    @rule(target=waiting, producer=st.none() | a_producer)
    def append(self, producer: int | None) -> tuple[PendingAppend, bytes]:
        self.number += 1
        value = b"%d" % self.number
        data = make_batch(value)
        if producer is not None:
            entry = next((entry for known, entry in self.partition.producers if known == producer), None)
            sequence = 0 if entry is None else entry.last_sequence + 1
            data = transactional(make_batch(value, producer=(producer, 0, sequence)))
        written = PendingAppend.of(self.partition, self.partition.append(data, START_MS))
        self.cluster.replicate(self.partition)
        return written, value

    @precondition(lambda self: self.has_leader)
    @rule(producer=a_producer, committed=st.booleans())
    def end_transaction(self, producer: int, committed: bool) -> None:
        self.partition.append_marker(EndTransactionMarker(producer, 0, committed, 0), START_MS)
        self.cluster.replicate(self.partition)

    @rule(one=consumes(waiting))
    def acknowledge(self, one: tuple[PendingAppend, bytes]) -> None:
        written, value = one
        if written.is_committed:
            self.acknowledged[written.end_offset - 1] = value

    # What happens to nodes

    @rule(node=a_node)
    def pause(self, node: int) -> None:
        self.cluster.pause_replication(node)
        self.paused.add(node)

    @rule(node=a_node)
    def resume(self, node: int) -> None:
        self.cluster.resume_replication(node)
        self.paused.discard(node)

    @rule(node=a_node)
    def stop(self, node: int) -> None:
        if node not in self.cluster.stopped:
            self._maybe_uncleanly(lambda: self.cluster.stop_node(node))

    @rule(node=a_node)
    def start(self, node: int) -> None:
        if node in self.cluster.stopped:
            self._maybe_uncleanly(lambda: self.cluster.start_node(node))

    @rule(node=a_node)
    def elect(self, node: int) -> None:
        if node not in self.cluster.stopped:
            self._maybe_uncleanly(lambda: self.cluster.move_leader(self.partition, node))

    @rule(node=a_node, offset=st.integers(0, 5))
    def elect_one_that_has_lost_records(self, node: int, offset: int) -> None:
        if node not in self.cluster.stopped:
            self.cluster.move_leader(self.partition, node, lose_from=offset)
            self._accept_loss()

    @rule(ms=st.integers(1, 2 * LAG_MS))
    def time_passes(self, ms: int) -> None:
        self.cluster.now_ms += ms
        if self.has_leader:
            self.cluster.drop_lagging(self.partition.leader)

    def _maybe_uncleanly(self, change) -> None:  # type: ignore[no-untyped-def]
        """Records may be lost if, and only if, a replica was elected that was not in sync."""
        in_sync, epoch = self.partition.isr, self.partition.leader_epoch
        change()
        if self.partition.leader_epoch > epoch and self.has_leader and self.partition.leader not in in_sync:
            self._accept_loss()

    def _accept_loss(self) -> None:
        left = dict(batches(self.leader, self.leader.log.end_offset))
        self.acknowledged = {at: value for at, value in self.acknowledged.items() if at in left and _holds(left[at], value)}
        self.visible = batches(self.leader, self.leader.log.high_watermark)
        self.high_watermark = 0

    # What is always true

    @invariant()
    def the_high_watermark_never_falls(self) -> None:
        assert self.partition.log.high_watermark >= self.high_watermark
        self.high_watermark = self.partition.log.high_watermark

    @invariant()
    def what_was_readable_never_changes(self) -> None:
        now = batches(self.partition._leading, self.partition.log.high_watermark)
        assert now[: len(self.visible)] == self.visible
        self.visible = now

    @invariant()
    def what_was_acknowledged_is_there(self) -> None:
        held = dict(batches(self.partition._leading, self.partition.log.end_offset))
        assert all(at in held and _holds(held[at], value) for at, value in self.acknowledged.items())

    @invariant()
    def offsets_are_in_order_in_every_replica(self) -> None:
        for replica in self.partition.replicas.values():
            log = replica.log
            assert log.start_offset <= replica.last_stable_offset <= log.high_watermark <= log.end_offset

    @invariant()
    def replicas_in_sync_have_all_that_is_readable(self) -> None:
        end = self.partition.log.high_watermark
        for node in self.partition.isr:
            assert batches(self.partition.replicas[node], end) == batches(self.partition._leading, end)

    @invariant()
    def replicas_that_follow_have_everything(self) -> None:
        if self.has_leader:
            for node in set(NODES) - self.cluster.stopped - self.paused:
                replica = self.partition.replicas[node]
                assert batches(replica, replica.log.end_offset) == batches(self.leader, self.leader.log.end_offset)
                assert replica.log.high_watermark == self.leader.log.high_watermark
                assert node in self.partition.isr

    @invariant()
    def producers_and_transactions_are_what_the_log_tells(self) -> None:
        for replica in self.partition.replicas.values():
            assert replica.last_stable_offset == last_stable_offset(replica)
            last: dict[int, int] = {
                b.producer_id: b.last_sequence for b in replica.log.batches() if b.is_transactional and not b.is_control
            }
            assert {producer: entry.last_sequence for producer, entry in replica.producers if entry.batches} == last

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        for node in NODES:
            self.resume(node)
        for node in NODES:
            self.start(node)
        self.replicas_that_follow_have_everything()
        self.what_was_acknowledged_is_there()


def _holds(data: bytes, value: bytes) -> bool:
    return [record.value for record in RecordBatch(memoryview(data)).records()] == [value]


TestReplication = Replication.TestCase
TestReplication.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
