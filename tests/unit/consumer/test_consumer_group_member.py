"""The parts of a consumer group's member (KIP-848): its table of states, what a heartbeat says, and what errors mean."""

from __future__ import annotations

from uuid import UUID

import pytest

from levada.consumer.group.consumer_heartbeat import (
    HeartbeatReaction,
    Identity,
    Owned,
    SentFields,
    heartbeat,
    leaving,
    owned_of,
    reaction_to,
)
from levada.consumer.group.consumer_states import IN_GROUP, LOST, TRANSITIONS
from levada.consumer.group.consumer_states import ConsumerMemberEvent as Event
from levada.consumer.group.consumer_states import ConsumerMemberState as State
from levada.error_codes import ErrorCode
from levada.protocol.messages.consumer_group_heartbeat import TopicPartitions

A, B = UUID(int=1), UUID(int=2)
WHO = Identity("g", "m", "one")
SAYS = SentFields(300_000, frozenset("ba"), "", "range", "r", frozenset())


def ways_into(state: State) -> set[State]:
    return {before for before, events in TRANSITIONS.items() for after in events.values() if after is state and before is not state}


def test_G35_a_member_joins_from_outside_of_the_group_alone() -> None:
    assert ways_into(State.JOINING) == {State.UNSUBSCRIBED, State.FENCED, State.STALE}
    assert ways_into(State.RECONCILING) == {State.STABLE, State.JOINING, State.ACKNOWLEDGING}
    assert ways_into(State.ACKNOWLEDGING) == {State.RECONCILING}
    assert ways_into(State.STABLE) == {State.JOINING, State.ACKNOWLEDGING, State.RECONCILING}
    assert ways_into(State.LEAVING) == {State.PREPARE_LEAVING}
    assert ways_into(State.STALE) == {State.LEAVING}


def test_G35_everywhere_in_the_group_a_member_may_be_fenced_or_refused() -> None:
    for state in IN_GROUP:
        assert TRANSITIONS[state][Event.FENCE] is State.FENCED
        assert TRANSITIONS[state][Event.FAIL] is State.FATAL
    for state in State:
        assert (Event.FENCE in TRANSITIONS[state]) == (state in IN_GROUP)


def test_G35_who_has_lost_its_partitions_only_joins_or_unsubscribes() -> None:
    for state in LOST:
        assert TRANSITIONS[state].keys() <= {Event.JOIN, Event.UNSUBSCRIBE}
    assert set(TRANSITIONS[State.FATAL]) == {Event.UNSUBSCRIBE}


def test_G34_the_first_heartbeat_tells_everything() -> None:
    request = heartbeat(WHO, 0, SAYS, None)
    assert (request.group_id, request.member_id, request.member_epoch, request.instance_id) == ("g", "m", 0, "one")
    assert (request.rebalance_timeout_ms, request.server_assignor, request.rack_id) == (300_000, "range", "r")
    assert (request.subscribed_topic_names, request.subscribed_topic_regex, request.topic_partitions) == (["a", "b"], None, [])


@pytest.mark.parametrize(
    ("change", "field", "told"),
    [
        ({"rebalance_timeout_ms": 5}, "rebalance_timeout_ms", 5),
        ({"topics": frozenset("a")}, "subscribed_topic_names", ["a"]),
        ({"topics": frozenset()}, "subscribed_topic_names", []),
        ({"pattern": "x.*"}, "subscribed_topic_regex", "x.*"),
        (
            {"owned": frozenset({Owned(B, 1), Owned(B, 0), Owned(A, 2)})},
            "topic_partitions",
            [TopicPartitions(topic_id=A, partitions=[2]), TopicPartitions(topic_id=B, partitions=[0, 1])],
        ),
    ],
)
def test_G34_later_ones_tell_what_has_changed(change: dict[str, object], field: str, told: object) -> None:
    changed = heartbeat(WHO, 3, SAYS._replace(**change), SAYS)  # type: ignore[arg-type]
    same = heartbeat(WHO, 3, SAYS, SAYS)
    assert getattr(changed, field) == told
    setattr(changed, field, getattr(same, field))
    assert changed == same
    assert (same.rebalance_timeout_ms, same.subscribed_topic_names, same.topic_partitions, same.server_assignor) == (-1, None, None, None)


def test_G34_a_pattern_that_is_given_up_is_taken_back() -> None:
    assert heartbeat(WHO, 3, SAYS, SAYS._replace(pattern="x.*")).subscribed_topic_regex == ""


def test_G34_the_last_heartbeat_says_for_how_long() -> None:
    assert leaving(WHO, for_a_while=True).member_epoch == -2
    assert leaving(WHO, for_a_while=False).member_epoch == -1


def test_partitions_are_read_as_they_were_written() -> None:
    owned = frozenset({Owned(B, 1), Owned(A, 2), Owned(A, 0)})
    assert owned_of(heartbeat(WHO, 1, SAYS._replace(owned=owned), SAYS).topic_partitions or []) == owned


def test_G37_every_code_that_is_not_named_ends_the_membership() -> None:
    named = {
        ErrorCode.NOT_COORDINATOR: HeartbeatReaction.REFIND,
        ErrorCode.COORDINATOR_NOT_AVAILABLE: HeartbeatReaction.REFIND,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: HeartbeatReaction.RETRY,
        ErrorCode.FENCED_MEMBER_EPOCH: HeartbeatReaction.FENCE,
        ErrorCode.UNKNOWN_MEMBER_ID: HeartbeatReaction.FENCE,
        ErrorCode.GROUP_ID_NOT_FOUND: HeartbeatReaction.FENCE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: HeartbeatReaction.TELL,
    }
    for code in ErrorCode:
        assert reaction_to(code, 5) is named.get(code, HeartbeatReaction.FAIL), code
