"""Any course of producers that share transactional ids ends every transaction in each of its partitions, with the outcome that was decided.

Producers take an id over from one another, and are then still there. Requests arrive late, those of producers that were fenced, too, and
markers are written late.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from broker_kit import Bench, Client
from levada.broker.coordinators.transactions.transaction_states import ENDING, IDLE, State
from levada.broker.log.end_transaction_marker import read_marker
from levada.broker.replication.partition import Partition
from levada.error_codes import ErrorCode
from levada.protocol.messages.end_txn import EndTxnRequest
from levada.protocol.schema import Request
from levada.record.memory_records import read_batches
from transaction_kit import TransactionalProducer, commit_offset, read, values

IDS, PARTITIONS, GROUPS = ("tx", "other"), (0, 1), ("g", "h")
TIMEOUT_MS = 60_000
EXPIRES_MS = 10_000
"""How often the coordinator looks for transactions that are open for too long."""
NOBODY = (-1, -1)
"""What a producer writes with whose InitProducerId was refused, if nothing stops it. Its records are in no transaction."""

an_id, a_partition, a_group = st.sampled_from(IDS), st.sampled_from(PARTITIONS), st.sampled_from(GROUPS)


class Late(NamedTuple):
    """A request that is on its way. pair: the producer id and epoch in it. value: the record in it."""

    producer: TransactionalProducer
    pair: tuple[int, int]
    request: Request
    version: int
    value: bytes | None = None


class Transactions(RuleBasedStateMachine):
    producers: Bundle[TransactionalProducer] = Bundle("producers")
    late: Bundle[Late] = Bundle("late")

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.bench.node.create_topic("t", len(PARTITIONS))
        self.reader = self.bench.client()
        self.number = 0
        self.sequences: dict[tuple[tuple[int, int], int], int] = {}
        self.given: dict[str, set[tuple[int, int]]] = {name: set() for name in IDS}
        self.fenced: set[tuple[int, int]] = set()
        self.open: dict[str, list[bytes]] = {name: [] for name in IDS}
        self.decided: dict[str, bool] = {}
        self.outcomes: dict[bytes, bool] = {}

    def state_of(self, transactional_id: str) -> State:
        found = self.bench.node.cluster.transactions.find(transactional_id)
        return State.EMPTY if found is None else found.state

    def partition(self, number: int) -> Partition:
        topic = self.bench.node.cluster.topic("t")
        assert topic is not None
        return topic.partitions[number]

    def decide(self, transactional_id: str, committed: bool) -> None:
        self.decided[transactional_id] = committed
        for value in self.open[transactional_id]:
            self.outcomes[value] = committed
        self.open[transactional_id].clear()

    # What producers do

    @rule(target=producers, name=an_id, tv2=st.booleans())
    def start(self, name: str, tv2: bool) -> TransactionalProducer:
        producer = TransactionalProducer(self.bench.client(), name, tv2=tv2)
        self.initialise(producer)
        return producer

    @rule(producer=producers)
    def initialise(self, producer: TransactionalProducer) -> None:
        before = self.state_of(producer.id)
        code = producer.init(TIMEOUT_MS, version=5 if producer.tv2 else 4).code
        assert code in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS)
        assert (code is ErrorCode.NONE) == (before in IDLE)
        if before is State.ONGOING:
            self.decide(producer.id, False)
        if code is ErrorCode.NONE:
            self.fenced |= self.given[producer.id]
            self.given[producer.id].add(producer.pair)

    @rule(producer=producers, number=a_partition)
    def add(self, producer: TransactionalProducer, number: int) -> None:
        if not producer.tv2:
            producer.add(number)

    @rule(target=late, producer=producers, number=a_partition)
    def write_late(self, producer: TransactionalProducer, number: int) -> Late:
        return self._batch(producer, number)

    @rule(target=late, producer=producers, committed=st.booleans())
    def end_late(self, producer: TransactionalProducer, committed: bool) -> Late:
        return self._ending(producer, committed)

    @rule(one=consumes(late))
    def arrive(self, one: Late) -> None:
        if one.value is None:
            self._end(one, lost=True)
        else:
            self._write(one)

    @rule(producer=producers, number=a_partition)
    def write(self, producer: TransactionalProducer, number: int) -> None:
        self.add(producer, number)
        self._write(self._batch(producer, number))

    @rule(producer=producers, committed=st.booleans())
    def end(self, producer: TransactionalProducer, committed: bool) -> None:
        self._end(self._ending(producer, committed), lost=False)

    @rule(producer=producers, group=a_group)
    def commit_offset(self, producer: TransactionalProducer, group: str) -> None:
        if not producer.tv2:
            producer.add_group(group)
        commit_offset(producer, group, version=5 if producer.tv2 else 3)

    def _batch(self, producer: TransactionalProducer, number: int) -> Late:
        self.number += 1
        value = b"%d" % self.number
        request = producer.batch_of(value, partition=number, sequence=self.sequences.get((producer.pair, number), 0))
        return Late(producer, producer.pair, request, 12 if producer.tv2 else 11, value)

    def _ending(self, producer: TransactionalProducer, committed: bool) -> Late:
        request = EndTxnRequest(transactional_id=producer.id, producer_id=producer.producer_id, producer_epoch=producer.epoch)
        request.committed = committed
        return Late(producer, producer.pair, request, 5 if producer.tv2 else 4)

    def _write(self, one: Late) -> None:
        assert one.value is not None
        request: Any = one.request
        number = request.topic_data[0].partition_data[0].index
        log, before = self.partition(number).log, self.state_of(one.producer.id)
        end_offset = log.end_offset
        answer = one.producer.client.ask(one.request, one.version).responses[0].partition_responses[0]
        if log.end_offset == end_offset:
            return  # It was refused, or is a duplicate.
        assert answer.error_code == ErrorCode.NONE
        assert one.pair not in self.fenced
        self.sequences[one.pair, number] = self.sequences.get((one.pair, number), 0) + 1
        if one.pair == NOBODY:
            self.outcomes[one.value] = True
        elif before in ENDING:
            self.outcomes[one.value] = self.decided[one.producer.id]
        else:
            self.open[one.producer.id].append(one.value)

    def _end(self, one: Late, *, lost: bool) -> None:
        before, client = self.state_of(one.producer.id), one.producer.client
        request: Any = one.request
        answer = client.ask(one.request, one.version)
        if answer.error_code:
            return
        assert one.pair not in self.fenced
        if before is State.ONGOING:
            self.decide(one.producer.id, request.committed)
        self.given[one.producer.id].add((answer.producer_id, answer.producer_epoch) if one.producer.tv2 else one.pair)
        if one.producer.tv2 and not lost:
            one.producer.producer_id, one.producer.epoch = answer.producer_id, answer.producer_epoch

    # What happens to the broker

    @rule(ms=st.sampled_from([50, 500]))
    def write_markers_late(self, ms: int) -> None:
        self.bench.node.faults.delay("WriteTxnMarkers", ms)

    @rule()
    def hold_markers(self) -> None:
        self.bench.node.faults.hold("WriteTxnMarkers")

    @rule()
    def lose_markers(self) -> None:
        self.bench.node.faults.fail_next("WriteTxnMarkers", ErrorCode.NOT_LEADER_OR_FOLLOWER)

    @rule()
    def release_markers(self) -> None:
        self.bench.node.faults.release_all()
        self.pass_time(0)

    @rule(ms=st.sampled_from([50, 500, EXPIRES_MS, TIMEOUT_MS]))
    def pass_time(self, ms: int) -> None:
        was_open = [name for name in IDS if self.state_of(name) is State.ONGOING]
        self.bench.advance(ms)
        for name in was_open:
            if self.state_of(name) is not State.ONGOING:
                self.decide(name, False)

    # What always holds

    @invariant()
    def without_transactions_all_is_stable(self) -> None:
        if all(self.state_of(name) in IDLE for name in IDS):
            self._check_all_has_ended()

    @invariant()
    def readers_get_what_was_committed(self) -> None:
        names = {value for value, committed in self.outcomes.items() if committed}
        for number in PARTITIONS:
            partition = self.partition(number)
            everything = set(values(b"".join(bytes(batch.data) for batch in partition.log.batches())))
            assert set(committed_values(self.reader, number)) <= names
            if partition.last_stable_offset == partition.log.high_watermark:
                assert set(committed_values(self.reader, number)) == everything & names

    def _check_all_has_ended(self) -> None:
        for number in PARTITIONS:
            partition = self.partition(number)
            assert not partition.transactions.open_producers
            assert partition.last_stable_offset == partition.log.high_watermark == partition.log.end_offset
        offsets = self.bench.node.cluster.group_offsets
        assert not [group for name in self.bench.node.cluster.transactions for group in offsets.open_groups(name.producer.producer_id)]

    def teardown(self) -> None:
        self.bench.node.faults.clear()
        self.release_markers()
        for ms in (500, TIMEOUT_MS, EXPIRES_MS, EXPIRES_MS):
            self.pass_time(ms)
        assert all(self.state_of(name) in IDLE for name in IDS)
        self._check_all_has_ended()
        self.readers_get_what_was_committed()
        assert not any(self.open.values())


def committed_values(client: Client, number: int) -> list[bytes | None]:
    """Return what a consumer of committed records delivers: no records of transactions that the response lists as aborted."""
    found = read(client, partition=number)
    aborted = [(one.first_offset, one.producer_id) for one in found.aborted_transactions or []]
    active: set[int] = set()
    delivered: list[bytes | None] = []
    for batch in read_batches(bytes(found.records or b"")):
        active |= {producer_id for first_offset, producer_id in aborted if first_offset == batch.base_offset}
        if batch.is_control:
            marker = read_marker(batch)
            assert marker is not None and not (marker.committed and batch.producer_id in active)
            active.discard(batch.producer_id)
        elif batch.producer_id not in active:
            delivered += values(batch.data)
    return delivered


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
