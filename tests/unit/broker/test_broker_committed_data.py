"""What ends a transaction besides its producer, what readers of committed data see, and who coordinates (section 15.2)."""

from __future__ import annotations

from typing import Any

import pytest

from broker_kit import START_MS, Bench, Client, fetch_request, make_batch, only_partition
from levada.broker.coordinators.transactions.transaction_states import State
from levada.error_codes import ErrorCode
from levada.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from levada.protocol.messages.describe_transactions import DescribeTransactionsRequest
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.list_transactions import ListTransactionsRequest
from levada.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from levada.record.batch import RecordBatch
from levada.types import TopicPartition
from transaction_kit import Given, TransactionalProducer, commit_offset, read, values

FENCED, BUSY, NOTHING = ErrorCode.PRODUCER_FENCED, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE


def log_of(bench: Bench, topic: str = "t", partition: int = 0) -> list[RecordBatch]:
    return list(bench.node.log(topic, partition).batches())


# Time


def test_T17_a_transaction_that_is_open_for_too_long_is_aborted(bench: Bench, client: Client) -> None:
    bench.advance()
    producer = TransactionalProducer(client)
    producer.init(15_000)
    producer.write(b"late")
    bench.advance(10_000)
    assert producer.described().transaction_state == State.ONGOING
    bench.advance(10_000)
    described = producer.described()
    assert (described.transaction_state, described.producer_epoch) == (State.COMPLETE_ABORT, 1)
    assert producer.write(b"later") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.end(commit=True, version=4).code == FENCED
    assert producer.end(commit=True).code == NOTHING
    assert producer.end(commit=False) == Given(ErrorCode.NONE, 0, 1)


def test_T17_an_unused_id_is_forgotten_after_a_week_but_not_an_open_transaction(bench: Bench, client: Client) -> None:
    bench.advance()
    unused = TransactionalProducer(client, "unused")
    unused.init()
    unused.write(b"x")
    unused.commit()
    bench.advance(604_800_000 - 1)
    assert unused.described().error_code == 0
    bench.advance(3_600_000)
    assert unused.described().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert unused.commit() == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert unused.init() == Given(ErrorCode.NONE, 1, 0)


# Readers of committed data


def test_T18_readers_of_committed_data_stop_at_the_oldest_open_transaction(client: Client) -> None:
    first, second = TransactionalProducer(client, "a"), TransactionalProducer(client, "b")
    for producer in (first, second):
        producer.init()
        producer.write(producer.id.encode())
    client.produce("t", make_batch(b"plain"))
    second.commit()
    assert read(client).last_stable_offset == 0
    first.abort()
    found = read(client)
    assert (found.last_stable_offset, values(found.records)) == (5, [b"a", b"b", b"plain"])
    assert [(one.producer_id, one.first_offset) for one in found.aborted_transactions or []] == [(0, 0)]
    assert read(client, offset=5).aborted_transactions == []
    assert read(client, committed=False).aborted_transactions is None


def test_T18_a_reader_that_waits_is_answered_when_the_last_stable_offset_moves(bench: Bench, producer: TransactionalProducer) -> None:
    producer.write(b"a")
    waiting = bench.client()
    request = fetch_request("t", 0, max_wait_ms=10_000)
    request.isolation_level = 1
    waiting.send(request, 12)
    producer.write(b"b")
    assert waiting.answers() == []
    producer.commit()
    (answer,) = waiting.answers()
    assert values(only_partition(answer).records) == [b"a", b"b"]


def test_T18_list_offsets_hides_what_is_not_committed(bench: Bench, client: Client, producer: TransactionalProducer) -> None:
    def at(timestamp: int) -> int:
        topic = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(timestamp=timestamp)])
        offset: int = client.ask(ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=[topic]), 11).topics[0].partitions[0].offset
        return offset

    client.produce("t", make_batch(b"plain", timestamp=START_MS - 10))
    producer.write(b"open")
    assert (at(-1), at(-2), at(-3), at(START_MS), at(START_MS - 10)) == (1, 0, -1, -1, 0)
    producer.commit()
    assert (at(-1), at(-3), at(START_MS)) == (3, 1, 1)


def test_I17_what_is_left_of_a_log_tells_its_transactions_again(bench: Bench, producer: TransactionalProducer) -> None:
    producer.write(b"aborted")
    producer.abort()
    producer.write(b"open")
    producer.write(b"lost")
    partition = bench.node.cluster.partition(bench.node.cluster.topic("t"), 0)
    bench.node.cluster.move_leader(partition, 1, lose_from=3)
    assert partition.last_stable_offset == 2
    assert [one.first_offset for one in partition.transactions.aborted_between(0, 3)] == [0]
    assert producer.write(b"lost", sequence=1) == ErrorCode.NONE


def test_I17_a_producer_with_an_open_transaction_is_not_forgotten(bench: Bench, client: Client) -> None:
    producer = TransactionalProducer(client)
    producer.init()
    producer.write(b"a")
    partition = bench.node.cluster.partition(bench.node.cluster.topic("t"), 0)
    partition.expire_producers(START_MS + 1)
    assert partition.is_in_transaction(*producer.pair)
    producer.commit()
    partition.expire_producers(START_MS + 1)
    assert len(partition.producers) == 0


# Administrators


def mark(
    producer: TransactionalProducer, epoch: int, *, coordinator_epoch: int = 0, topic: str = "t", partition: int = 0, strict: bool = False
) -> ErrorCode:
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=epoch,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
        coordinator_epoch=coordinator_epoch,
        transaction_version=2 if strict else 0,
    )
    (answer,) = producer.client.ask(WriteTxnMarkersRequest(markers=[marker]), 2).markers
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def test_T19_markers_that_come_too_late_are_refused(producer: TransactionalProducer) -> None:
    producer.init()
    producer.write(b"a")
    assert mark(producer, 0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert mark(producer, 1, strict=True) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert mark(producer, 1, coordinator_epoch=5) == ErrorCode.NONE
    assert read(producer.client).last_stable_offset == 2
    assert mark(producer, 1, coordinator_epoch=4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert mark(producer, 1, topic="no-such-topic") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_T16_a_commit_after_an_administrators_abort_is_answered_as_if_nothing_had_happened(producer: TransactionalProducer) -> None:
    producer.write(b"a")
    assert mark(producer, 0) == ErrorCode.NONE
    assert producer.commit() == ErrorCode.NONE
    assert [one.first_offset for one in read(producer.client).aborted_transactions or []] == [0]


def test_T16_an_end_that_a_newer_marker_has_overtaken_stays_undone(
    producer: TransactionalProducer, caplog: pytest.LogCaptureFixture
) -> None:
    producer.write(b"a")
    mark(producer, 5)
    assert producer.commit() == ErrorCode.NONE
    assert producer.described().transaction_state == State.PREPARE_COMMIT
    assert "the end of transaction 'tx' was not written" in caplog.text


def test_an_administrator_aborts_the_offsets_of_a_group(producer: TransactionalProducer) -> None:
    offsets = producer.client.bench.node.cluster.group_offsets
    commit_offset(producer, "g")
    assert mark(producer, 0, topic="__consumer_offsets", partition=(ord("g") + 1) % 50) == ErrorCode.NONE
    assert offsets.is_pending("g", TopicPartition("t", 0))
    assert mark(producer, 0, topic="__consumer_offsets", partition=ord("g") % 50) == ErrorCode.NONE
    assert not offsets.is_pending("g", TopicPartition("t", 0))
    assert producer.commit() == ErrorCode.NONE
    assert offsets.committed("g", TopicPartition("t", 0)) is None


def test_describe_producers_tells_what_a_partition_knows(producer: TransactionalProducer) -> None:
    producer.write(b"a", b"b")
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 1, 9])])

    def told() -> list[Any]:
        return [(part.error_code, part.active_producers) for part in producer.client.ask(request, 0).topics[0].partitions]

    (known,) = told()[0][1]
    assert (known.producer_id, known.producer_epoch, known.last_sequence, known.current_txn_start_offset) == (0, 0, 1, 0)
    assert (known.last_timestamp, known.coordinator_epoch) == (START_MS, -1)
    assert told()[1:] == [(0, []), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])]
    producer.commit()
    (known,) = told()[0][1]
    assert (known.producer_epoch, known.last_sequence, known.coordinator_epoch, known.current_txn_start_offset) == (1, -1, 0, -1)


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ({}, ["idle", "tx"]),
        ({"state_filters": ["Ongoing"]}, ["tx"]),
        ({"state_filters": ["Nonsense"]}, []),
        ({"producer_id_filters": [1]}, ["idle"]),
        ({"duration_filter": 10}, ["idle"]),
        ({"duration_filter": 9}, ["idle", "tx"]),
        ({"transactional_id_pattern": "i.*"}, ["idle"]),
        ({"transactional_id_pattern": "i"}, []),
    ],
)
def test_list_transactions_filters(bench: Bench, producer: TransactionalProducer, filters: dict[str, Any], ids: list[str]) -> None:
    TransactionalProducer(producer.client, "idle").init()
    producer.write(b"a")
    bench.now_ms = 10
    answer = producer.client.ask(ListTransactionsRequest(**filters), 2)
    assert sorted(one.transactional_id for one in answer.transaction_states) == ids
    assert answer.unknown_state_filters == [name for name in filters.get("state_filters", []) if name == "Nonsense"]


def test_list_transactions_refuses_a_bad_pattern_and_waits_for_loading(bench: Bench, producer: TransactionalProducer) -> None:
    assert producer.client.ask(ListTransactionsRequest(transactional_id_pattern="["), 2).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    bench.node.cluster.transaction_coordinators.begin_loading("tx")
    assert producer.client.ask(ListTransactionsRequest(), 0).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# Coordinators


def test_T13_another_node_or_one_that_loads_sends_the_client_away(bench: Bench, producer: TransactionalProducer) -> None:
    placement = bench.node.cluster.transaction_coordinators
    placement.begin_loading("tx")
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert [producer.init().code, producer.add(), producer.add_group("g"), producer.commit()] == [loading] * 4
    assert producer.described().error_code == loading
    assert producer.write(b"a") == ErrorCode.NOT_ENOUGH_REPLICAS
    placement.end_loading("tx")
    bench.node.cluster.join(bench.node.cluster.nodes[1]._replace(id=2))
    placement.move("tx", 2)
    assert [producer.init().code, producer.add(), producer.add_group("g"), producer.commit()] == [ErrorCode.NOT_COORDINATOR] * 4
    assert producer.write(b"a") == ErrorCode.NONE
    assert placement.epoch_of("tx") == 1


def test_describe_transactions_answers_for_each_id(producer: TransactionalProducer) -> None:
    answer = producer.client.ask(DescribeTransactionsRequest(transactional_ids=["tx", "unknown", ""]), 0)
    assert [state.error_code for state in answer.transaction_states] == [0, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST]
