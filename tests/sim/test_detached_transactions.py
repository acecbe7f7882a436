"""Many detached transactions ended by one call, in virtual time: what is asked of whom, and what becomes of each when some fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import levada as lv
from consumer_sim import World
from levada.error_codes import ErrorCode
from levada.errors import BootstrapError, BrokerError, TransactionalIdAuthorizationError
from levada.testing import Simulation
from levada.types import TransactionHandle

COMMITTED, ABORTED, LOST, UNKNOWN = lv.TransactionOutcome
SERVERS = "b1:9092,b2:9092,b3:9092"
NODES = 3


@pytest.fixture
def world() -> Iterator[World]:
    with Simulation(seed=4) as simulation:
        world = World(simulation, nodes=NODES)
        world.topic("t")
        yield world


@pytest.fixture
def admin(world: World) -> lv.KafkaAdmin:
    return world.simulation.admin(bootstrap_servers=SERVERS)


def detached(world: World, count: int) -> list[TransactionHandle]:
    """Open transactions with a record each and hand them over; their coordinators are nodes 1, 2, 3, 1, ..."""
    handles = []
    for number in range(count):
        name = f"x-{number}"
        world.cluster.transaction_coordinators.move(name, number % NODES + 1)
        with world.simulation.producer(bootstrap_servers=SERVERS, transactional_id=name) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("t", b"%d" % number)
            handles.append(producer.detach_transaction())
    return handles


def seen(world: World) -> list[bytes]:
    world.simulation.advance(100)
    return sorted(record.value or b"" for record in world.simulation.scan("t", bootstrap_servers=SERVERS, isolation_level="read_committed"))


@pytest.mark.parametrize(("commit", "outcome"), [(True, COMMITTED), (False, ABORTED)])
def test_all_are_ended_at_once_after_one_look_up(world: World, admin: lv.KafkaAdmin, commit: bool, outcome: lv.TransactionOutcome) -> None:
    handles = detached(world, 12)
    looked_up, asked, begun_ms = world.requests("FindCoordinator"), world.requests("EndTxn"), world.now_ms
    for node in world.nodes:
        node.faults.delay("EndTxn", 1000, times=4)
    assert admin.end_transactions(handles, commit=commit) == dict.fromkeys(handles, outcome)
    # A broker answers one request of a connection after the other; the nodes are asked at the same time.
    assert world.now_ms - begun_ms < 5000
    assert (world.requests("FindCoordinator") - looked_up, world.requests("EndTxn") - asked) == (1, 12)
    assert len(seen(world)) == (12 if commit else 0)


def test_to_repeat_it_is_safe_and_the_other_end_comes_too_late(world: World, admin: lv.KafkaAdmin) -> None:
    handles = detached(world, 4)
    for _ in range(2):
        assert admin.end_transactions(handles[:2], commit=True) == dict.fromkeys(handles[:2], COMMITTED)
        assert admin.end_transactions(handles[2:], commit=False) == dict.fromkeys(handles[2:], ABORTED)
    assert admin.end_transactions(handles, commit=False) == dict(zip(handles, [COMMITTED] * 2 + [ABORTED] * 2, strict=True))
    assert admin.end_transactions(handles, commit=True) == dict(zip(handles, [COMMITTED] * 2 + [LOST] * 2, strict=True))
    assert seen(world) == [b"0", b"1"]


def test_what_may_yet_succeed_is_asked_again(world: World, admin: lv.KafkaAdmin) -> None:
    handles = detached(world, 6)
    first, second, third = (node.faults for node in world.nodes)
    first.fail_next("EndTxn", ErrorCode.CONCURRENT_TRANSACTIONS, times=2)
    second.fail_next("EndTxn", ErrorCode.NOT_COORDINATOR)
    second.disconnect("EndTxn", applied=True)
    third.fail_next("EndTxn", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    third.disconnect("EndTxn", applied=False)
    assert admin.end_transactions(handles, commit=True) == dict.fromkeys(handles, COMMITTED)
    assert len(seen(world)) == 6


def test_a_coordinator_that_has_moved_is_found(world: World, admin: lv.KafkaAdmin) -> None:
    handles = detached(world, 3)
    admin.describe_transactions([handle.transactional_id for handle in handles])
    for handle in handles:
        world.cluster.transaction_coordinators.move(handle.transactional_id, 1)
    assert admin.end_transactions(handles, commit=True) == dict.fromkeys(handles, COMMITTED)


def test_one_coordinator_without_an_answer_does_not_hide_the_others(world: World, caplog: pytest.LogCaptureFixture) -> None:
    handles = detached(world, 6)
    admin = world.simulation.admin(bootstrap_servers=SERVERS, request_timeout_ms=2000)
    world.nodes[1].faults.blackhole("EndTxn")
    expected = dict(zip(handles, [COMMITTED, UNKNOWN, COMMITTED] * 2, strict=True))
    assert admin.end_transactions(handles, commit=True, timeout=5) == expected
    (line,) = [record.getMessage() for record in caplog.records if "detached" in record.getMessage()]
    assert "what became of 2 of 6 detached transactions is not known; the first: transaction of 'x-1'" in line
    assert "was not answered within 2000 ms" in line
    world.nodes[1].faults.clear()
    assert admin.end_transactions(handles, commit=True) == dict.fromkeys(handles, COMMITTED)
    assert len(seen(world)) == 6


TELL = {
    True: {
        ErrorCode.INVALID_TXN_STATE: LOST,
        ErrorCode.PRODUCER_FENCED: LOST,
        ErrorCode.INVALID_PRODUCER_EPOCH: LOST,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: UNKNOWN,
    },
    False: {
        ErrorCode.INVALID_TXN_STATE: COMMITTED,
        ErrorCode.PRODUCER_FENCED: LOST,
        ErrorCode.INVALID_PRODUCER_EPOCH: LOST,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: UNKNOWN,
    },
}


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_every_code_of_an_end(world: World, admin: lv.KafkaAdmin, commit: bool) -> None:
    failing, other = detached(world, 2)
    done = COMMITTED if commit else ABORTED
    for code in ErrorCode:
        if code is ErrorCode.NONE:
            continue
        world.nodes[0].faults.fail_next("EndTxn", code)
        if code.retriable or code in TELL[commit]:
            expected = {failing: TELL[commit].get(code, done), other: done}
            assert admin.end_transactions([failing, other], commit=commit) == expected, code
            continue
        with pytest.raises(BrokerError) as failed:
            admin.end_transactions([failing, other], commit=commit)
        assert failed.value.code is code
        assert failed.value.outcomes == {failing: failed.value, other: None}
        assert failed.value.results == {other: done}


def test_a_missing_permission_is_an_outcome_of_its_own(world: World, admin: lv.KafkaAdmin) -> None:
    handles = detached(world, 2)
    world.nodes[0].faults.fail_next("EndTxn", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    found = admin.outcomes(admin.end_transactions, handles, commit=True)
    assert isinstance(found[handles[0]], TransactionalIdAuthorizationError)
    name = handles[0].transactional_id
    assert f"this user needs the permission WRITE on transactional id '{name}'" in str(found[handles[0]])
    assert found[handles[1]] is COMMITTED


def test_an_outcome_is_not_known_when_the_retries_are_used_up(world: World) -> None:
    handles = detached(world, 2)
    world.nodes[0].faults.fail_next("EndTxn", ErrorCode.CONCURRENT_TRANSACTIONS, times=3)
    with world.simulation.admin(bootstrap_servers=SERVERS, retries=2) as admin:
        assert admin.end_transactions(handles, commit=True) == {handles[0]: UNKNOWN, handles[1]: COMMITTED}


def test_brokers_that_cannot_be_reached_are_an_error(world: World) -> None:
    handles = detached(world, 2)
    with world.simulation.admin(bootstrap_servers="nobody:9092") as admin, pytest.raises(BootstrapError):
        admin.end_transactions(handles, commit=True, timeout=5)


def test_nothing_is_asked_for_what_has_nothing_to_be_ended(world: World, admin: lv.KafkaAdmin) -> None:
    empty = TransactionHandle("x", 1, 0, 5)
    assert admin.end_transactions([], commit=True) == {}
    assert admin.end_transactions([empty, empty], commit=True) == {empty: COMMITTED}
    assert admin.end_transactions([list(empty)], commit=False) == {empty: ABORTED}  # type: ignore[list-item]
    assert world.requests("EndTxn") == 0


def test_wrong_arguments(admin: lv.KafkaAdmin) -> None:
    handle = TransactionHandle("x", 1, 0, 5)
    with pytest.raises(TypeError, match=r"expected a list of TransactionHandle, got .*; write \[TransactionHandle"):
        admin.end_transactions(handle, commit=True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected the TransactionHandle"):
        admin.end_transactions(["x"], commit=True)  # type: ignore[list-item]
    with pytest.raises(TypeError, match="commit is True or False, got 'abort'"):
        admin.end_transactions([handle], commit="abort")  # type: ignore[arg-type]
