"""A replica of each partition per node: acks=all, replicas in sync, elections clean and unclean, nodes that stop."""

from __future__ import annotations

import pytest

from broker_kit import START_MS, fetch_request, make_batch, only_partition, produce_request
from levada.broker.node.node import BrokerNode
from levada.broker.replication.partition import NO_LEADER
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, IllegalStateError
from levada.protocol.messages.fetch import FetchResponse
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic
from levada.record.memory_records import read_batches
from replica_kit import Trio
from transaction_kit import TransactionalProducer

LAG_MS = 30_000


@pytest.fixture
def trio() -> Trio:
    return Trio()


def answered(found: FetchResponse) -> list[bytes | None]:
    records = only_partition(found).records or b""
    return [record.value for batch in read_batches(records) for record in batch.records()]


def produced_code(trio: Trio, node: int = 1) -> ErrorCode:
    (answer,) = trio.clients[node].answers()
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def test_every_replica_has_what_was_produced_and_what_it_tells(trio: Trio) -> None:
    trio.leader.produce("t", make_batch(b"a", producer=(7, 0, 0)))
    assert [trio.values(node) for node in (1, 2, 3)] == [[b"a"]] * 3
    replicas = trio.partition.replicas.values()
    assert [replica.log.high_watermark for replica in replicas] == [1, 1, 1]
    assert [replica.producers.epoch_of(7) for replica in replicas] == [0, 0, 0]
    assert len({id(replica.log) for replica in replicas}) == 3


def test_I17_a_new_leader_remembers_the_producers_that_the_old_one_did() -> None:
    first = BrokerNode(node_id=1, wall_offset_ms=START_MS)
    second = BrokerNode(node_id=2, wall_offset_ms=START_MS, cluster=first.cluster, faults=first.faults)
    (partition,) = first.cluster.add(first.cluster.plan("t", 1, 2)).partitions
    batch = make_batch(b"a", producer=(7, 0, 0))
    partition.append(batch, START_MS)
    first.cluster.replicate(partition)
    for node in (first, second):
        node.advance(node.settings.log_retention_check_interval_ms)
    assert [replica.producers.epoch_of(7) for replica in partition.replicas.values()] == [0, 0]
    first.cluster.move_leader(partition, 3 - (partition.leader or 0))
    assert partition.append(batch, START_MS).base_offset == 0
    assert partition.log.end_offset == 1


def test_E7_acks_all_waits_until_every_replica_in_sync_has_the_batch(trio: Trio) -> None:
    trio.cluster.pause_replication(3)
    trio.leader.send(produce_request("t", make_batch(b"a")), 9)
    assert trio.leader.answers() == []
    trio.cluster.resume_replication(3)
    trio.advance()
    assert produced_code(trio) is ErrorCode.NONE


def test_E7_acks_all_is_answered_with_a_timeout_when_it_was_not_replicated_in_time(trio: Trio) -> None:
    trio.cluster.pause_replication(3)
    trio.leader.send(produce_request("t", make_batch(b"a")), 9)
    trio.advance(999)
    assert trio.leader.answers() == []
    trio.advance(1)
    assert produced_code(trio) is ErrorCode.REQUEST_TIMED_OUT
    assert trio.values(1) == [b"a"]


def test_E7_acks_1_does_not_wait_and_readers_see_what_is_committed(trio: Trio) -> None:
    trio.produce(b"a")
    trio.cluster.pause_replication(2)
    trio.produce(b"b")
    found = trio.leader.ask(fetch_request("t"), 12)
    assert answered(found) == [b"a"]
    assert only_partition(found).high_watermark == 1
    assert trio.leader.fetch("t", 1).error_code == 0, "not committed yet, but not out of range"
    assert trio.leader.offset_of("t", -1) == (0, 1, -1)
    trio.cluster.resume_replication(2)
    assert trio.leader.fetch("t").high_watermark == 2


def test_E9_a_reader_that_waits_is_answered_when_the_high_watermark_moves(trio: Trio) -> None:
    trio.cluster.pause_replication(2)
    reader = trio.benches[1].client()
    reader.send(fetch_request("t", max_wait_ms=10_000), 12)
    trio.produce(b"a")
    assert reader.answers() == []
    trio.cluster.resume_replication(2)
    trio.advance()
    (found,) = reader.answers()
    assert answered(found) == [b"a"]


def test_E8_a_duplicate_waits_for_its_original(trio: Trio) -> None:
    trio.produce(b"z")
    trio.cluster.pause_replication(2)
    batch = make_batch(b"a", producer=(7, 0, 0))
    trio.leader.produce("t", batch, acks=1)
    trio.leader.send(produce_request("t", batch), 9)
    assert trio.leader.answers() == []
    trio.cluster.resume_replication(2)
    trio.advance()
    assert produced_code(trio) is ErrorCode.NONE


def test_a_replica_that_lags_is_out_of_sync_after_a_time_and_in_sync_when_it_has_caught_up(trio: Trio) -> None:
    trio.advance(100_000)
    trio.cluster.pause_replication(3)
    trio.produce(b"a")
    trio.advance(LAG_MS)
    assert trio.partition.isr == (1, 2, 3)
    trio.leader.send(produce_request("t", make_batch(b"b")), 9)
    trio.leader.answers()
    trio.advance(LAG_MS // 2)
    assert list(trio.partition.isr) == [1, 2]
    assert trio.partition.log.high_watermark == 2
    trio.cluster.resume_replication(3)
    assert trio.partition.isr == (1, 2, 3)
    assert trio.values(3) == [b"a", b"b"]


def test_a_replica_that_has_everything_stays_in_sync_however_long_nothing_comes(trio: Trio) -> None:
    trio.produce(b"a")
    trio.cluster.pause_replication(3)
    trio.advance(10 * LAG_MS)
    assert trio.partition.isr == (1, 2, 3)


def test_E7_min_insync_replicas_is_counted_before_the_append() -> None:
    trio = Trio({"min.insync.replicas": "3"})
    trio.cluster.stop_node(3)
    assert trio.leader.produce("t", make_batch(b"a")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert trio.values(1) == []
    trio.cluster.start_node(3)
    assert trio.leader.produce("t", make_batch(b"a")).error_code == 0


def test_E7_nothing_is_committed_while_too_few_are_in_sync() -> None:
    trio = Trio({"min.insync.replicas": "3"})
    trio.cluster.pause_replication(3)
    trio.leader.send(produce_request("t", make_batch(b"a")), 9)
    trio.cluster.stop_node(2)
    trio.cluster.resume_replication(3)
    assert (trio.partition.isr, trio.partition.log.high_watermark) == ((1, 3), 0)
    trio.cluster.start_node(2)
    trio.advance()
    assert produced_code(trio) is ErrorCode.NONE


def test_E7_min_insync_replicas_is_counted_again_when_the_batch_is_committed() -> None:
    trio = Trio({"min.insync.replicas": "2"})
    for node in (2, 3):
        trio.cluster.pause_replication(node)
    trio.leader.send(produce_request("t", make_batch(b"a")), 9)
    # Committed and out of sync again before the request is looked at.
    trio.partition.replicate((1, 2, 3), now_ms=0)
    trio.partition.isr = (1,)
    trio.cluster.notify_watchers(trio.partition)
    trio.benches[1].collect()
    assert produced_code(trio) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_clean_election_loses_what_was_not_committed_and_nothing_else(trio: Trio) -> None:
    trio.produce(b"a", acks=-1)
    for node in (2, 3):
        trio.cluster.pause_replication(node)
    trio.leader.send(produce_request("t", make_batch(b"b")), 9)
    trio.elect(2)
    assert produced_code(trio) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [trio.values(node) for node in (1, 2, 3)] == [[b"a"]] * 3
    assert trio.partition.log.high_watermark == 1
    trio.cluster.resume_replication(3)
    trio.produce(b"c", acks=-1)
    assert [trio.values(node) for node in (1, 2, 3)] == [[b"a", b"c"]] * 3


def test_what_a_former_leader_held_for_itself_does_not_count_as_replicated(trio: Trio) -> None:
    for node in (2, 3):
        trio.cluster.pause_replication(node)
    trio.produce(b"lost")
    trio.cluster.pause_replication(1)
    trio.elect(2)
    trio.cluster.resume_replication(3)
    trio.produce(b"new")
    assert (trio.values(1), trio.values(2)) == ([b"lost"], [b"new"])
    assert trio.partition.log.high_watermark == 0, "node 1 is in sync, and has another record there"
    trio.cluster.resume_replication(1)
    assert (trio.values(1), trio.partition.log.high_watermark) == ([b"new"], 1)


def test_M_A26_an_unclean_election_loses_records_and_the_epochs_tell_where(trio: Trio) -> None:
    trio.produce(b"a", acks=-1)
    trio.cluster.pause_replication(3)
    trio.cluster.stop_node(2)
    trio.produce(b"b")
    trio.advance(2 * LAG_MS)
    assert trio.leader.fetch("t").high_watermark == 2
    trio.elect(3)
    assert (trio.partition.leader_epoch, trio.partition.log.high_watermark) == (1, 1)
    trio.produce(b"c")
    assert [trio.values(node) for node in (1, 3)] == [[b"a", b"c"]] * 2
    wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=1, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted])])
    end = trio.leader.ask(request).topics[0].partitions[0]
    assert (end.leader_epoch, end.end_offset) == (0, 1)
    trio.cluster.start_node(2)
    assert trio.values(2) == [b"a", b"c"]


def test_KIP_279_logs_that_parted_twice_are_cut_where_they_parted_first(trio: Trio) -> None:
    trio.produce(b"both", acks=-1)
    for node in (2, 3):
        trio.cluster.pause_replication(node)
    trio.produce(b"1 alone")
    trio.cluster.pause_replication(1)
    trio.elect(2)
    trio.produce(b"2 alone")
    trio.produce(b"2 alone")
    trio.elect(1)
    trio.produce(b"1 again")
    trio.elect(3)
    trio.produce(b"3")
    for node in (1, 2):
        trio.cluster.resume_replication(node)
    assert [trio.values(node) for node in (1, 2, 3)] == [[b"both", b"3"]] * 3
    assert {replica.epochs.at(1) for replica in trio.partition.replicas.values()} == {3}


def test_I17_a_replica_that_was_cut_knows_its_producers_by_what_is_left(trio: Trio) -> None:
    trio.leader.produce("t", make_batch(b"a", producer=(7, 0, 0)))
    for node in (2, 3):
        trio.cluster.pause_replication(node)
    lost = make_batch(b"b", producer=(7, 0, 1))
    trio.leader.produce("t", lost, acks=1)
    trio.elect(2)
    for node in (2, 3):
        trio.cluster.resume_replication(node)
    assert trio.leader.produce("t", lost).base_offset == 1
    trio.elect(1)
    assert trio.leader.produce("t", lost).base_offset == 1


def test_retention_reaches_the_followers_and_spares_what_is_not_committed() -> None:
    trio = Trio({"segment.bytes": "100", "retention.bytes": "0"}, log_retention_check_interval_ms=1000)
    trio.cluster.pause_replication(3)
    trio.produce(b"a" * 20)
    trio.produce(b"b" * 20)
    trio.advance(1000)
    assert trio.partition.log.start_offset == 0
    trio.cluster.resume_replication(3)
    trio.advance(1000)
    trio.produce(b"c" * 20)
    assert [replica.log.start_offset for replica in trio.partition.replicas.values()] == [1, 1, 1]


def test_a_follower_that_lacks_more_than_the_leader_still_has_begins_where_the_leader_does() -> None:
    trio = Trio({"segment.bytes": "100", "retention.bytes": "0"}, log_retention_check_interval_ms=1000)
    trio.cluster.stop_node(3)
    for value in (b"a", b"b", b"c"):
        trio.produce(value * 20)
    trio.advance(1000)
    trio.cluster.start_node(3)
    assert trio.values(3) == [b"c" * 20]
    trio.elect(3)
    assert trio.leader.fetch("t", 2).high_watermark == 3
    assert trio.leader.fetch("t", 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_when_a_node_stops_others_lead_and_metadata_says_so(trio: Trio) -> None:
    trio.produce(b"a", acks=-1)
    trio.cluster.stop_node(1)
    answer = trio.clients[2].ask(MetadataRequest(topics=None))
    (found,) = answer.topics[0].partitions
    assert (found.leader_id, found.leader_epoch, found.isr_nodes, found.offline_replicas) == (2, 1, [2, 3], [1])
    assert [broker.node_id for broker in answer.brokers] == [2, 3]
    assert answer.controller_id == 2
    trio.produce(b"b", acks=-1)
    trio.cluster.start_node(1)
    assert (trio.partition.isr, trio.partition.leader, trio.values(1)) == ((1, 2, 3), 2, [b"a", b"b"])


def test_a_partition_whose_last_replica_in_sync_is_down_has_no_leader_until_it_returns(trio: Trio) -> None:
    trio.cluster.stop_node(2)
    trio.cluster.stop_node(3)
    trio.produce(b"a", acks=-1)
    trio.cluster.stop_node(1)
    trio.cluster.start_node(2)
    answer = trio.clients[2].ask(MetadataRequest(topics=None)).topics[0].partitions[0]
    assert (answer.error_code, answer.leader_id, answer.isr_nodes) == (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER, [1])
    refused = trio.clients[2].produce("t", make_batch(b"b"))
    assert (refused.error_code, refused.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    trio.cluster.start_node(1)
    assert (trio.partition.leader, trio.partition.isr, trio.values(2)) == (1, (1, 2), [b"a"])


def test_with_unclean_leader_election_enable_any_replica_leads() -> None:
    trio = Trio({"unclean.leader.election.enable": "true"})
    trio.cluster.stop_node(2)
    trio.produce(b"a")
    trio.cluster.stop_node(3)
    trio.cluster.stop_node(1)
    trio.cluster.start_node(2)
    assert (trio.partition.leader, trio.partition.isr, trio.values(2)) == (2, (2,), [])
    trio.cluster.start_node(1)
    assert trio.values(1) == []


def test_a_node_that_is_down_cannot_be_elected_and_gets_no_replica(trio: Trio) -> None:
    trio.cluster.stop_node(3)
    with pytest.raises(IllegalStateError, match="node 3 is down and cannot lead t-0"):
        trio.elect(3)
    with pytest.raises(BrokerError, match="replication factor 3 on a cluster of 2 brokers"):
        trio.cluster.plan("u", 1)


def test_a_node_without_a_replica_takes_over_the_leaders() -> None:
    trio = Trio(default_replication_factor=1)
    trio.produce(b"a")
    trio.elect(3)
    assert (list(trio.partition.replicas), trio.partition.isr, trio.values(3)) == ([3], (3,), [b"a"])


def test_a_producer_that_waits_is_told_when_its_topic_is_deleted(trio: Trio) -> None:
    trio.cluster.pause_replication(3)
    trio.leader.send(produce_request("t", make_batch(b"a")), 9)
    trio.cluster.remove(trio.cluster.topics["t"])
    trio.benches[1].collect()
    assert produced_code(trio) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_coordinators_move_when_their_node_stops_and_stay_when_it_returns(trio: Trio) -> None:
    placement = trio.cluster.transaction_coordinators
    keys = [f"id-{number}" for number in range(20)]
    before = {key: placement.leader_of(key) for key in keys}
    trio.cluster.stop_node(2)
    after = {key: placement.leader_of(key) for key in keys}
    assert 2 in before.values()
    assert all(after[key] == leader for key, leader in before.items() if leader != 2)
    assert {after[key] for key in keys} <= {1, 3}
    assert {placement.epoch_of(key) for key, leader in before.items() if leader == 2} == {1}
    trio.cluster.start_node(2)
    assert {key: placement.leader_of(key) for key in keys} == after


def test_coordinators_stay_when_a_node_joins_and_when_another_is_unregistered(trio: Trio) -> None:
    placements = (trio.cluster.group_coordinators, trio.cluster.transaction_coordinators, trio.cluster.share_coordinators)
    for placement in placements:
        placement.need()

    def coordinators() -> list[tuple[int, int]]:
        return [placement.leader_and_epoch(index) for placement in placements for index in range(placement.partitions)]

    def leaders() -> list[tuple[int, int]]:
        partitions = [one for placement in placements for one in trio.cluster.topics[placement.topic].partitions]
        return [(one.leader, one.leader_epoch) for one in partitions]

    before = coordinators()
    BrokerNode(node_id=4, cluster=trio.cluster)
    assert coordinators() == leaders() == before
    trio.cluster.stop_node(2)
    moved = coordinators()
    trio.cluster.unregister(2)
    assert coordinators() == leaders() == moved


def test_E9_list_offsets_asks_for_the_current_leader_epoch_after_an_election(trio: Trio) -> None:
    trio.elect(2)
    topic = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(timestamp=-1, current_leader_epoch=0)])
    answer = trio.leader.ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 11)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


# Transactions


def test_T16_a_transaction_is_complete_when_its_markers_are_on_all_replicas_in_sync(trio: Trio) -> None:
    producer = begun(trio)
    trio.cluster.pause_replication(3)
    producer.commit()
    assert state_of(trio) == "PrepareCommit"
    trio.cluster.resume_replication(3)
    assert state_of(trio) == "CompleteCommit"
    assert trio.partition.last_stable_offset == 2


def test_T16_a_marker_that_a_new_leader_lacks_is_written_again(trio: Trio) -> None:
    producer = begun(trio)
    for node in (2, 3):
        trio.cluster.pause_replication(node)
    producer.commit()
    trio.elect(2)
    trio.cluster.resume_replication(3)
    assert state_of(trio) == "CompleteCommit"
    assert trio.partition.last_stable_offset == trio.partition.log.end_offset == 2


def test_T16_markers_wait_for_a_partition_without_a_leader(trio: Trio) -> None:
    producer = begun(trio)
    for node in (2, 3, 1):
        trio.cluster.stop_node(node)
    producer.commit()
    assert (state_of(trio), trio.partition.log.end_offset) == ("PrepareCommit", 1)
    trio.cluster.start_node(1)
    assert (state_of(trio), trio.partition.log.end_offset) == ("CompleteCommit", 2)


def test_T18_a_reader_of_committed_data_sees_no_marker_that_is_not_committed(trio: Trio) -> None:
    producer = begun(trio)
    trio.cluster.pause_replication(3)
    producer.commit()
    assert (trio.partition.last_stable_offset, trio.partition.log.high_watermark) == (0, 1)
    trio.cluster.resume_replication(3)
    assert (trio.partition.last_stable_offset, trio.partition.log.high_watermark) == (2, 2)


def begun(trio: Trio) -> TransactionalProducer:
    """A producer with an open transaction of one record; node 1 coordinates it."""
    producer = TransactionalProducer(trio.clients[1])
    trio.cluster.transaction_coordinators.move(producer.id, 1)
    producer.init()
    producer.write(b"a")
    return producer


def state_of(trio: Trio) -> str:
    (found,) = trio.cluster.transactions
    return found.state
