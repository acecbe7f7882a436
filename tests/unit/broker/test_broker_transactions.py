"""The embedded broker's transactions, from InitProducerId to EndTxn (section 15.2)."""

from __future__ import annotations

import pytest

from broker_kit import START_MS, Bench, Client, make_batch
from levada.base.state_table import following
from levada.broker.coordinators.placement import partition_for
from levada.broker.coordinators.transactions.transaction_states import TRANSITIONS, Event, State
from levada.error_codes import ErrorCode
from levada.errors import IllegalStateError
from levada.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from levada.record.batch import RecordBatch
from levada.record.header import CONTROL, TRANSACTIONAL
from levada.types import TopicPartition
from transaction_kit import Given, TransactionalProducer, commit_offset, read, values

FENCED, BUSY, NOTHING = ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE


def log_of(bench: Bench, topic: str = "t", partition: int = 0) -> list[RecordBatch]:
    return list(bench.node.log(topic, partition).batches())


# States


def test_T13_every_transition_that_has_no_row_is_an_error() -> None:
    for state in State:
        for event in Event:
            if event in TRANSITIONS[state]:
                assert following(TRANSITIONS, state, event, "it") is TRANSITIONS[state][event]
            else:
                with pytest.raises(IllegalStateError, match="no transition"):
                    following(TRANSITIONS, state, event, "it")


def test_T13_what_the_table_promises() -> None:
    reached_from: dict[State, set[State]] = {}
    for state, row in TRANSITIONS.items():
        for to in row.values():
            reached_from.setdefault(to, set()).add(state)
    assert reached_from[State.COMPLETE_COMMIT] == {State.PREPARE_COMMIT}
    assert reached_from[State.COMPLETE_ABORT] == {State.PREPARE_ABORT}
    assert reached_from[State.PREPARE_COMMIT] == {State.ONGOING}
    assert not TRANSITIONS[State.DEAD]
    for ending in (State.PREPARE_COMMIT, State.PREPARE_ABORT):
        assert list(TRANSITIONS[ending]) == [Event.MARKERS_WRITTEN]


# InitProducerId


def test_T14_each_initialisation_gives_the_next_epoch(producer: TransactionalProducer) -> None:
    assert producer.init() == Given(ErrorCode.NONE, 0, 1)
    assert producer.init() == Given(ErrorCode.NONE, 0, 2)
    assert TransactionalProducer(producer.client, "other").init() == Given(ErrorCode.NONE, 1, 0)


@pytest.mark.parametrize(("timeout_ms", "code"), [(900_000, 0), (900_001, 50), (0, 50), (-1, 50)])
def test_T14_the_timeout_has_bounds(client: Client, timeout_ms: int, code: int) -> None:
    assert TransactionalProducer(client).init(timeout_ms).code == code


def test_T14_an_empty_id_and_half_a_pair_are_invalid(client: Client) -> None:
    assert TransactionalProducer(client, "").init().code == ErrorCode.INVALID_REQUEST
    assert TransactionalProducer(client).init(given=(5, -1)).code == ErrorCode.INVALID_REQUEST
    assert TransactionalProducer(client).init(given=(-1, 0)).code == ErrorCode.INVALID_REQUEST


def test_T14_a_producer_that_names_its_pair_gets_the_next_epoch_and_the_same_again_when_it_repeats(producer: TransactionalProducer) -> None:
    assert producer.init(given=(0, 0)) == Given(ErrorCode.NONE, 0, 1)
    assert producer.init(given=(0, 0)) == Given(ErrorCode.NONE, 0, 1)
    assert producer.init(given=(0, 1)) == Given(ErrorCode.NONE, 0, 2)
    assert producer.init(given=(0, 0)).code == FENCED
    assert producer.init(given=(7, 2)).code == FENCED
    assert producer.init(given=(0, 0), version=3).code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_T14_another_producer_with_the_id_fences_the_first_and_aborts_its_transaction(producer: TransactionalProducer) -> None:
    producer.write(b"lost")
    second = TransactionalProducer(producer.client)

    assert second.init().code == BUSY
    assert second.init() == Given(ErrorCode.NONE, 0, 2)
    assert producer.write(b"zombie") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.commit() == FENCED
    assert values(read(producer.client).records) == [b"lost"]
    assert [one.first_offset for one in read(producer.client).aborted_transactions or []] == [0]


def test_T14_an_exhausted_epoch_gives_a_new_producer_id(producer: TransactionalProducer) -> None:
    transaction = producer.client.bench.node.cluster.transactions.find("tx")
    assert transaction is not None
    transaction.producer = transaction.producer._replace(epoch=32_766)
    assert producer.init(given=(0, 32_766)) == Given(ErrorCode.NONE, 1, 0)
    assert producer.init(given=(0, 32_766)) == Given(ErrorCode.NONE, 1, 0)


def test_T12_an_exhausted_epoch_rotates_at_the_end_of_a_transaction_and_a_repetition_is_answered_the_same(
    producer: TransactionalProducer,
) -> None:
    transaction = producer.client.bench.node.cluster.transactions.find("tx")
    assert transaction is not None
    transaction.producer = transaction.producer._replace(epoch=32_766)
    producer.epoch = 32_766
    assert producer.write(b"a") == ErrorCode.NONE
    before = producer.pair
    assert producer.end(commit=True) == Given(ErrorCode.NONE, 1, 0)
    assert producer.end(commit=True, producer=before) == Given(ErrorCode.NONE, 1, 0)
    assert producer.end(commit=False, producer=before).code == NOTHING
    assert log_of(producer.client.bench)[-1].producer_epoch == 32_767
    assert producer.write(b"b") == ErrorCode.NONE
    assert producer.commit() == ErrorCode.NONE
    assert values(read(producer.client).records) == [b"a", b"b"]


def test_T14_a_fence_with_the_last_epoch_gives_the_successor_a_new_producer_id(producer: TransactionalProducer) -> None:
    transaction = producer.client.bench.node.cluster.transactions.find("tx")
    assert transaction is not None
    transaction.producer = transaction.producer._replace(epoch=32_766)
    producer.epoch = 32_766
    producer.write(b"lost")
    successor = TransactionalProducer(producer.client)
    assert successor.init().code == BUSY
    assert producer.end(commit=False, producer=producer.pair) == Given(ErrorCode.NONE, 1, 0)
    assert successor.init() == Given(ErrorCode.NONE, 1, 1)
    assert log_of(producer.client.bench)[-1].producer_epoch == 32_767


# Adding partitions, and what may be written


def test_T12_produce_version_12_adds_the_partition(producer: TransactionalProducer) -> None:
    assert producer.write(b"a") == ErrorCode.NONE
    described = producer.described()
    assert (described.transaction_state, [(topic.topic, topic.partitions) for topic in described.topics]) == ("Ongoing", [("t", [0])])
    assert described.transaction_start_time_ms == START_MS


def test_T18_before_version_12_a_partition_must_have_been_added(old_producer: TransactionalProducer) -> None:
    assert old_producer.write(b"a", version=10) == ErrorCode.INVALID_TXN_STATE
    assert old_producer.write(b"a", version=11) == ErrorCode.TRANSACTION_ABORTABLE
    assert old_producer.add(0) == ErrorCode.NONE
    assert old_producer.write(b"a", version=11) == ErrorCode.NONE
    assert old_producer.write(b"b", version=11, partition=1) == ErrorCode.TRANSACTION_ABORTABLE


def test_T15_who_may_add_partitions(producer: TransactionalProducer) -> None:
    stranger = TransactionalProducer(producer.client, "unknown")
    assert stranger.add() == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer.epoch = 5
    assert (producer.add(), producer.add(version=1)) == (FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    producer.producer_id = 77
    assert producer.add() == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert TransactionalProducer(producer.client, "").add() == ErrorCode.INVALID_REQUEST


def test_T15_an_unknown_partition_keeps_the_others_out(producer: TransactionalProducer) -> None:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=0,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 9])],
    )
    (topic,) = producer.client.ask(request, 3).results_by_topic_v3_and_below
    codes = [result.partition_error_code for result in topic.results_by_partition]
    assert codes == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert producer.described().transaction_state == State.EMPTY


def test_T15_brokers_ask_for_several_transactions_and_may_only_verify(producer: TransactionalProducer) -> None:
    def one(transactional_id: str, *partitions: int, verify: bool = False) -> AddPartitionsToTxnTransaction:
        topics = [AddPartitionsToTxnTopic(name="t", partitions=list(partitions))]
        return AddPartitionsToTxnTransaction(transactional_id=transactional_id, verify_only=verify, topics=topics)

    asked = [one("tx", 0), one("unknown", 0), one("tx", 0, 1, verify=True)]
    answer = producer.client.ask(AddPartitionsToTxnRequest(transactions=asked), 4)
    codes = [
        [result.partition_error_code for result in transaction.topic_results[0].results_by_partition]
        for transaction in answer.results_by_transaction
    ]
    assert codes == [[0], [ErrorCode.INVALID_PRODUCER_ID_MAPPING], [0, ErrorCode.TRANSACTION_ABORTABLE]]


def test_T18_a_request_with_two_transactional_producers_is_refused(producer: TransactionalProducer) -> None:
    request = producer.batch_of(b"a")
    producer.producer_id = 9
    request.topic_data += producer.batch_of(b"b", partition=1).topic_data
    codes = [topic.partition_responses[0].error_code for topic in producer.client.ask(request, 12).responses]
    assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


def test_T18_a_plain_batch_of_a_producer_with_an_open_transaction_is_refused(producer: TransactionalProducer) -> None:
    producer.write(b"a")
    plain = make_batch(b"b", producer=(*producer.pair, 1))
    assert producer.client.produce("t", plain).error_code == ErrorCode.INVALID_TXN_STATE


def test_I16_a_transaction_begins_with_sequence_0_under_version_2(producer: TransactionalProducer) -> None:
    assert producer.write(b"a", sequence=3) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producer.write(b"a", sequence=0) == ErrorCode.NONE
    assert producer.write(b"b") == ErrorCode.NONE


def test_I15_a_transactional_batch_that_comes_twice_is_stored_once(producer: TransactionalProducer) -> None:
    assert [producer.write(b"a", sequence=0) for _ in range(2)] == [ErrorCode.NONE] * 2
    assert producer.client.bench.node.log("t").end_offset == 1


def test_I16_sequences_go_on_over_transactions_of_one_epoch_and_begin_again_in_a_new_one(
    producer: TransactionalProducer, old_producer: TransactionalProducer
) -> None:
    producer.init()
    for value in (b"a", b"b"):
        assert producer.write(value) == ErrorCode.NONE
        assert producer.sequence == 1
        assert producer.commit() == ErrorCode.NONE
    old_producer.id = "old"
    old_producer.init()
    for sequence in (5, 6):
        assert old_producer.add() == ErrorCode.NONE
        assert old_producer.write(b"a", sequence=sequence) == ErrorCode.NONE
        assert old_producer.write(b"gap", sequence=sequence + 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert old_producer.commit() == ErrorCode.NONE


# EndTxn


def test_T16_a_commit_becomes_visible_with_its_marker(producer: TransactionalProducer) -> None:
    producer.write(b"a", b"b")
    before = read(producer.client)
    assert (values(before.records), before.last_stable_offset, before.high_watermark) == ([], 0, 2)
    assert values(read(producer.client, committed=False).records) == [b"a", b"b"]

    assert producer.end(commit=True) == Given(ErrorCode.NONE, 0, 1)

    after_it = read(producer.client)
    assert (values(after_it.records), after_it.last_stable_offset, after_it.aborted_transactions) == ([b"a", b"b"], 3, [])
    assert producer.described().transaction_state == State.COMPLETE_COMMIT


@pytest.mark.parametrize(("commit", "tv2"), [(True, True), (False, True), (True, False), (False, False)])
def test_M21_what_a_marker_looks_like(bench: Bench, client: Client, commit: bool, tv2: bool) -> None:
    producer = TransactionalProducer(client, tv2=tv2)
    producer.init()
    producer.add()
    producer.write(b"a")
    bench.now_ms = 5
    producer.end(commit=commit)
    marker = log_of(bench)[-1]
    marker.verify_crc()
    assert marker.attributes & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL | CONTROL
    assert (marker.producer_id, marker.producer_epoch, marker.base_sequence) == (0, int(tv2), -1)
    (record,) = marker.walker().records()
    assert (record.key, record.value) == (b"\0\0\0" + bytes([commit]), b"\0" * 6)
    assert (record.timestamp, marker.base_offset, marker.partition_leader_epoch) == (START_MS + 5, 1, 0)


def test_T15_a_commit_can_be_repeated_with_the_pair_it_was_made_with(producer: TransactionalProducer) -> None:
    producer.write(b"a")
    assert producer.end(commit=True) == Given(ErrorCode.NONE, 0, 1)
    assert producer.end(commit=True, producer=(0, 0)) == Given(ErrorCode.NONE, 0, 1)
    assert producer.end(commit=False, producer=(0, 0)).code == NOTHING
    assert producer.end(commit=True, producer=(0, 1)).code == NOTHING
    assert producer.end(commit=True, producer=(0, 0), version=4).code == FENCED
    assert producer.end(commit=True, producer=(9, 0)).code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert producer.client.bench.node.log("t").end_offset == 2


def test_T15_up_to_version_4_a_repetition_has_the_same_epoch(old_producer: TransactionalProducer) -> None:
    assert old_producer.commit() == NOTHING
    old_producer.add()
    assert [old_producer.commit() for _ in range(2)] == [ErrorCode.NONE] * 2
    assert old_producer.abort() == NOTHING
    assert old_producer.end(commit=True, version=5).code == NOTHING
    old_producer.add()
    assert [old_producer.abort() for _ in range(2)] == [ErrorCode.NONE] * 2
    assert old_producer.commit() == NOTHING
    old_producer.epoch = 5
    assert old_producer.commit() == FENCED
    assert old_producer.end(commit=True, version=1).code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_T12_an_abort_without_a_transaction_bumps_the_epoch_and_a_commit_is_refused(producer: TransactionalProducer) -> None:
    assert producer.commit() == NOTHING
    assert producer.end(commit=False) == Given(ErrorCode.NONE, 0, 1)
    assert producer.end(commit=False) == Given(ErrorCode.NONE, 0, 2)
    assert producer.end(commit=False, producer=(0, 1)) == Given(ErrorCode.NONE, 0, 2)


def test_T16_while_markers_are_written_everything_else_is_told_to_wait(bench: Bench, producer: TransactionalProducer) -> None:
    bench.node.faults.delay("WriteTxnMarkers", 50)
    producer.write(b"a")
    assert producer.commit() == ErrorCode.NONE

    assert producer.described().transaction_state == State.PREPARE_COMMIT
    assert (producer.init().code, producer.add(), producer.write(b"b")) == (BUSY, BUSY, BUSY)
    assert producer.end(commit=True, producer=(0, 0)).code == BUSY
    assert values(read(producer.client).records) == []

    bench.advance(50)
    assert producer.described().transaction_state == State.COMPLETE_COMMIT
    assert values(read(producer.client).records) == [b"a"]
    assert producer.write(b"b") == ErrorCode.NONE


def test_T16_markers_that_fail_are_repeated(bench: Bench, producer: TransactionalProducer) -> None:
    bench.node.faults.fail_next("WriteTxnMarkers", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
    producer.write(b"a")
    producer.commit()
    bench.advance(199)
    assert producer.described().transaction_state == State.PREPARE_COMMIT
    bench.advance(101)
    assert producer.described().transaction_state == State.COMPLETE_COMMIT


def test_T16_a_topic_that_was_deleted_meanwhile_does_not_keep_a_commit_back(bench: Bench, producer: TransactionalProducer) -> None:
    producer.write(b"a")
    topic = bench.node.cluster.topic("t")
    assert topic is not None
    bench.node.cluster.remove(topic)
    assert producer.commit() == ErrorCode.NONE
    assert producer.described().transaction_state == State.COMPLETE_COMMIT


def test_T13_a_group_puts_its_partition_of_the_offsets_topic_into_the_transaction(producer: TransactionalProducer) -> None:
    assert producer.add_group("g") == ErrorCode.NONE
    (topic,) = producer.described().topics
    assert (topic.topic, topic.partitions) == ("__consumer_offsets", [ord("g") % 50])
    producer.epoch = 9
    assert (producer.add_group("g"), producer.add_group("g", version=1)) == (FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


@pytest.mark.parametrize("commit", [True, False])
def test_T12_offsets_that_are_committed_in_a_transaction_count_with_its_end(producer: TransactionalProducer, commit: bool) -> None:
    offsets = producer.client.bench.node.cluster.group_offsets
    assert commit_offset(producer, "g") == ErrorCode.NONE
    assert offsets.is_pending("g", TopicPartition("t", 0))
    assert producer.end(commit=commit).code == ErrorCode.NONE
    committed = offsets.committed("g", TopicPartition("t", 0))
    assert (committed and committed.offset) == (8 if commit else None)
    assert not offsets.is_pending("g", TopicPartition("t", 0))


def test_T6_another_group_in_the_same_partition_is_ended_as_well(producer: TransactionalProducer) -> None:
    offsets = producer.client.bench.node.cluster.group_offsets
    same = next(name for name in map(str, range(1000)) if partition_for(name, 50) == partition_for("g", 50))
    assert [commit_offset(producer, group) for group in ("g", same)] == [ErrorCode.NONE] * 2
    producer.commit()
    assert [offsets.committed(group, TopicPartition("t", 0)) is not None for group in ("g", same)] == [True, True]


def test_T6_before_version_5_a_group_must_have_been_added(old_producer: TransactionalProducer) -> None:
    offsets = old_producer.client.bench.node.cluster.group_offsets
    assert commit_offset(old_producer, "g", version=3) == ErrorCode.INVALID_TXN_STATE
    assert commit_offset(old_producer, "g", version=4) == ErrorCode.TRANSACTION_ABORTABLE
    assert old_producer.add_group("g") == ErrorCode.NONE
    assert commit_offset(old_producer, "g", version=3) == ErrorCode.NONE
    assert old_producer.commit() == ErrorCode.NONE
    assert offsets.committed("g", TopicPartition("t", 0)) is not None
    old_producer.epoch = 9
    assert commit_offset(old_producer, "g", version=3) == ErrorCode.INVALID_PRODUCER_EPOCH
