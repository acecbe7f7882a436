"""N17 to N22: where the connection to a node stands."""

from __future__ import annotations

from random import Random

import pytest

from levada.base.clock import NEVER_MS
from levada.client.network.api_versions import BrokerVersions
from levada.client.network.connection_key import ConnectionKey
from levada.client.network.connection_states import ConnectionStates
from levada.client.setup.flow import SetUp
from levada.client.setup.states import TRANSITIONS, ConnectionEvent, ConnectionState
from levada.errors import IllegalStateError
from levada.types import Node

NODE = Node(1, "kafka", 9092)
SPOKEN = BrokerVersions({})


@pytest.fixture
def states() -> ConnectionStates:
    return ConnectionStates(
        random=Random(1), reconnect_backoff_ms=50, reconnect_backoff_max_ms=1000, setup_timeout_ms=10_000, setup_timeout_max_ms=30_000
    )


def fail(states: ConnectionStates, now_ms: int) -> int:
    """Try and fail to connect; return the delay until the next try."""
    states.connecting(1, NODE, now_ms)
    states.disconnected(1, now_ms)
    return states.delay_ms(1, now_ms)


def become_ready(states: ConnectionStates, now_ms: int = 0) -> None:
    states.connecting(1, NODE, now_ms)
    states.asked(1, ConnectionEvent.ASKED_VERSIONS)
    states.ready(1, SetUp(SPOKEN), 0)


def test_N22_every_state_can_be_left_and_reached() -> None:
    assert set(TRANSITIONS) == set(ConnectionState)
    assert {state for moves in TRANSITIONS.values() for state in moves.values()} == set(ConnectionState)


def test_N18_a_new_node_may_be_connected_to_at_once(states: ConnectionStates) -> None:
    assert states.can_connect(1, 0)
    assert states.delay_ms(1, 0) == 0


def test_N22_a_connection_goes_through_its_states(states: ConnectionStates) -> None:
    states.connecting(1, NODE, 0)
    assert not states.can_connect(1, 0)
    states.asked(1, ConnectionEvent.ASKED_VERSIONS)
    states.ready(1, SetUp(SPOKEN), 0)
    assert states.state(1) is ConnectionState.READY
    assert states.delay_ms(1, 0) == NEVER_MS
    with pytest.raises(IllegalStateError, match="in the state 'ready' has no transition for 'a connection was begun'"):
        states.connecting(1, NODE, 0)


def test_N19_the_delay_doubles_up_to_its_maximum(states: ConnectionStates) -> None:
    delays = [fail(states, now_ms) for now_ms in range(0, 80_000, 10_000)]
    assert 40 <= delays[0] <= 60
    assert 80 <= delays[1] <= 120
    assert 800 <= delays[-1] <= 1000


def test_TR25_only_readiness_forgets_the_failures(states: ConnectionStates) -> None:
    for now_ms in range(0, 60_000, 10_000):
        fail(states, now_ms)
    states.connecting(1, NODE, 70_000)
    states.asked(1, ConnectionEvent.ASKED_VERSIONS)
    states.disconnected(1, 70_000)
    assert states.delay_ms(1, 70_000) >= 800
    become_ready(states, 80_000)
    states.disconnected(1, 80_000)
    assert states.delay_ms(1, 80_000) <= 60


def test_N17_the_setup_timeout_doubles_with_each_setup_that_failed(states: ConnectionStates) -> None:
    states.connecting(1, NODE, 0)
    first = states.next_deadline_ms
    assert 8000 <= first <= 12_000
    assert states.setup_timed_out(first - 1) == []
    assert states.setup_timed_out(first) == [ConnectionKey(1)]
    states.disconnected(1, first)
    states.connecting(1, NODE, 20_000)
    assert 16_000 <= states.next_deadline_ms - 20_000 <= 24_000
    states.asked(1, ConnectionEvent.ASKED_VERSIONS)
    assert states.next_deadline_ms == NEVER_MS


def test_N27_a_throttle_deadline_never_moves_back(states: ConnectionStates) -> None:
    become_ready(states)
    states.throttle(1, 5000)
    states.throttle(1, 3000)
    assert states.delay_ms(1, 1000) == 4000
    assert states.delay_ms(1, 5000) == NEVER_MS


def test_a_lost_connection_gets_one_more_try_before_the_node_counts_as_gone(states: ConnectionStates) -> None:
    become_ready(states)
    states.disconnected(1, 0)
    known = states.get(ConnectionKey(1))
    assert known is not None
    assert not known.given_up
    fail(states, 1000)
    assert known.given_up
