"""Lag, the rates of top, and which transactions hang: pure."""

from __future__ import annotations

from levada import ClusterDescription, GroupState, GroupType, Node, PartitionInfo, ProducerState, TopicPartition
from levada.admin.transactions import TransactionDescription, TransactionState
from levada.cli.group_views import GroupView, MemberView
from levada.cli.hanging import hanging, opened_before
from levada.cli.lag import LogEnds, Reader, lag_of, total
from levada.cli.top.look import Look
from levada.cli.top.rates import frame

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NODES = (Node(1, "a", 9092), Node(2, "b", 9092))
CLUSTER = ClusterDescription("c", NODES[0], NODES)


def test_lag_is_what_lies_between_the_committed_offset_and_the_end() -> None:
    lags = lag_of("g", {T0: 3, T1: None}, {T0: LogEnds(0, 10), T1: LogEnds(5, 6)}, {T1: Reader("m", "c", "h")})
    assert [(lag.partition, lag.lag, lag.member_id) for lag in lags] == [(0, 7, ""), (1, None, "m")]
    assert total(lags) == 7


def test_lag_tells_what_was_deleted_before_it_was_read() -> None:
    (lag,) = lag_of("g", {T0: 3}, {T0: LogEnds(5, 10)}, {})
    assert (lag.lost, lag.lag) == (2, 7)


def test_an_offset_beyond_the_end_is_not_behind_and_a_deleted_topic_has_no_lag() -> None:
    assert lag_of("g", {T0: 11}, {T0: LogEnds(0, 10)}, {})[0].lag == 0
    assert lag_of("g", {T0: 11}, {}, {})[0].lag is None


def look(at_s: float, end: int, committed: int) -> Look:
    infos = (PartitionInfo("t", 0, 1, 0, (1, 2), (1,)), PartitionInfo("t", 1, -1, 0, (2,), (2,)))
    lags = tuple(lag_of("g", {T0: committed}, {T0: LogEnds(0, end)}, {}))
    member = MemberView("g", "m", None, "c", "h", None, (T0,))
    view = GroupView("g", GroupType.CLASSIC, GroupState.STABLE, "range", 1, (member,), lags)
    return Look(at_s, CLUSTER, infos, {T0: LogEnds(0, end)}, {"g": view})


def test_a_frame_counts_leaders_and_replicas() -> None:
    one, other = frame(None, look(0, 10, 5)).brokers
    assert (one.controller, one.leaders, one.replicas, one.out_of_sync) == (True, 1, 1, 0)
    assert (other.controller, other.leaders, other.replicas, other.out_of_sync) == (False, 0, 2, 1)


def test_a_frame_has_rates_from_two_looks() -> None:
    (topic,), (group,) = frame(look(0, 10, 5), look(2, 30, 15))[1:3]
    assert (topic.per_second, topic.records, topic.without_leader) == (10, 30, 1)
    assert (group.per_second, group.lag, group.seconds_behind) == (5, 15, 3)


def test_a_first_frame_has_no_rates() -> None:
    (topic,), (group,) = frame(None, look(0, 10, 5))[1:3]
    assert (topic.per_second, group.per_second, group.seconds_behind) == (None, None, None)


def producer(number: int, start: int | None = 100, last: int = 1_000) -> ProducerState:
    return ProducerState(number, 0, 5, last, None, start)


def description(*partitions: TopicPartition) -> TransactionDescription:
    return TransactionDescription(1, TransactionState.ONGOING, 7, 0, 60_000, 0, partitions)


def test_open_transactions_are_those_with_an_old_last_record() -> None:
    found = opened_before(2_000, {T0: [producer(7), producer(8, start=None), producer(9, last=3_000)]})
    assert [(one.producer_id, one.start_offset, one.coordinator_epoch) for one in found] == [(7, 100, 0)]


def test_a_transaction_hangs_where_no_coordinator_will_end_it() -> None:
    opened = opened_before(2_000, {T0: [producer(7), producer(8), producer(9)]})
    found = hanging(opened, {7: "known", 8: "elsewhere"}, {"known": description(T0), "elsewhere": description(T1)})
    assert [(one.producer_id, one.transactional_id) for one in found] == [(8, "elsewhere"), (9, "")]
