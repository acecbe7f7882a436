"""What health() says of a partition, and which of several partitions it speaks of."""

from __future__ import annotations

from typing import Any

import pytest

from levada.client.metadata.snapshot import ClusterSnapshot
from levada.consumer.health import CHECKS, SEVERITY, Condition, Seen, consumer_health, partition_health
from levada.consumer.positions.subscription_state import PartitionState, SubscriptionState
from levada.types import IsolationLevel, OffsetSpec, TopicPartition

TP = TopicPartition("t", 0)
NOW_MS = 1_700_000_000_000


def partition(position: int = 5, high_watermark: int = 9, last_stable_offset: int = 9) -> PartitionState:
    subscription = SubscriptionState()
    subscription.assign([TP], 0)
    subscription.seek(TP, position)
    state = subscription.state(TP)
    state.high_watermark, state.last_stable_offset = high_watermark, last_stable_offset
    return state


def seen(state: PartitionState, **facts: Any) -> Seen:
    known: dict[str, Any] = {
        "end": state.last_stable_offset,
        "isolation_level": IsolationLevel.READ_COMMITTED,
        "snapshot": ClusterSnapshot(),
        "failures": {},
        "ever_answered": True,
        "unsettled": False,
    }
    return Seen(state, **{**known, **facts})


def test_every_condition_has_a_place_in_the_order_of_severity() -> None:
    assert set(SEVERITY) == set(Condition)
    assert len(SEVERITY) == len(Condition)
    of_no_partition = {Condition.NOT_ASSIGNED, Condition.REBALANCING, Condition.FENCED}
    assert {condition for condition, _ in CHECKS} == set(Condition) - {Condition.READING} - of_no_partition


def test_a_broker_that_was_never_reached_comes_with_its_causes() -> None:
    found = partition_health(seen(partition(), ever_answered=False, failures={"h:1": "connection refused"}), None, NOW_MS)
    assert found.condition is Condition.UNREACHABLE
    assert found.detail == "no broker was reached yet; h:1: connection refused"


@pytest.mark.parametrize(
    ("position", "high_watermark", "last_stable_offset", "condition"),
    [(5, 9, 9, Condition.NO_LEADER), (5, 9, 5, Condition.NO_LEADER)],
)
def test_without_a_leader_nothing_else_is_told(position: int, high_watermark: int, last_stable_offset: int, condition: Condition) -> None:
    found = partition_health(seen(partition(position, high_watermark, last_stable_offset)), None, NOW_MS)
    assert (found.condition, found.position, found.lag) == (condition, position, last_stable_offset - position)


def test_how_old_the_next_record_is_is_told_where_it_is_known() -> None:
    state = partition()
    state.buffered = 1
    found = partition_health(seen(state), NOW_MS - 1_500, NOW_MS)
    assert (found.condition, found.lag, found.behind_s) == (Condition.RECORDS_WAIT, 4, 1.5)
    assert partition_health(seen(state), None, NOW_MS).behind_s is None
    assert partition_health(seen(state), NOW_MS + 5, NOW_MS).behind_s == 0


def test_what_the_program_did_comes_before_what_is_wrong() -> None:
    state = partition()
    state.faulted = True
    assert partition_health(seen(state), None, NOW_MS).condition is Condition.ERROR_WAITS
    state.paused = True
    assert partition_health(seen(state), None, NOW_MS).condition is Condition.PAUSED
    state.stop_offset = 5
    assert partition_health(seen(state), None, NOW_MS).condition is Condition.FINISHED


def test_a_position_that_is_looked_up_is_none() -> None:
    state = partition()
    state.await_reset(OffsetSpec.EARLIEST)
    found = partition_health(seen(state, ever_answered=False), None, NOW_MS)
    assert (found.position, found.lag, found.behind_s) == (None, None, None)


def test_the_consumer_is_as_its_most_severe_partition() -> None:
    fine, broken = partition(9), partition()
    broken.faulted = True
    found = [partition_health(seen(state), None, NOW_MS) for state in (fine, broken)]
    health = consumer_health(found, {}, rebalancing=True)
    assert health.condition is Condition.ERROR_WAITS
    assert health.worst is health.partitions[1]
    assert str(health).splitlines()[0] == Condition.ERROR_WAITS.value
    assert consumer_health(found[:1], {}, rebalancing=True).condition is Condition.REBALANCING
