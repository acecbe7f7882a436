"""Flows are resumed when they can go on, and left alone while they cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from levada.base.clock import NEVER_MS
from levada.base.flow import Call, Flow, Sleep, Wait, WaitAny
from levada.base.promise import Promise
from levada.client.requests.flow_runner import FlowRunner
from levada.errors import ClosedError, IllegalStateError, TimeoutError
from levada.protocol.messages.metadata import MetadataRequest
from levada.testing import Simulation
from sim_kit import SimClient, server


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=3) as sim:
        yield sim


@pytest.fixture
def client(sim: Simulation) -> SimClient:
    server(sim)
    return SimClient(sim)


@pytest.fixture
def flows(client: SimClient) -> FlowRunner:
    return FlowRunner(client.network)


def waiting(promise: Promise[Any]) -> Flow[Any]:
    return (yield Wait(promise))


def any_of(*promises: Promise[Any], timeout_ms: int | None = None) -> Flow[Any]:
    return (yield WaitAny(promises, timeout_ms))


def test_a_flow_goes_on_with_the_promise_it_waits_for(flows: FlowRunner) -> None:
    promise: Promise[str] = Promise()
    done = flows.start(waiting(promise), 0)
    assert flows.can_go_on
    assert flows.poll(0) == NEVER_MS
    assert not flows.can_go_on
    promise.resolve("here")
    assert flows.can_go_on
    assert not done.done, "flows are resumed by poll() and nowhere else"
    flows.poll(1)
    assert done.result() == "here"


def test_flows_that_wait_are_not_touched(flows: FlowRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    promises: list[Promise[int]] = [Promise() for _ in range(1000)]
    for promise in promises:
        flows.start(waiting(promise), 0)
    flows.poll(0)
    touched = []
    advance = flows._advance

    def note(task: Any, now_ms: int) -> None:
        touched.append(task)
        advance(task, now_ms)

    monkeypatch.setattr(flows, "_advance", note)
    promises[7].resolve(7)
    flows.poll(1)
    assert len(touched) == 1
    flows.poll(2)
    assert len(touched) == 1


def test_sleeps_and_deadlines_are_kept_in_order(flows: FlowRunner) -> None:
    woken = []

    def sleeping(ms: int) -> Flow[None]:
        yield Sleep(ms)
        woken.append(ms)

    for ms in (300, 100, 200):
        flows.start(sleeping(ms), 0)
    limited = flows.start(waiting(Promise()), 0, deadline_ms=150, describe="the wait")
    assert flows.poll(0) == 100
    assert flows.poll(100) == 150
    assert flows.poll(150) == 200
    assert isinstance(limited.error, TimeoutError)
    assert "the wait: not done within 150 ms" in str(limited.error)
    assert flows.poll(300) == NEVER_MS
    assert woken == [100, 200, 300]


def test_finished_flows_leave_no_deadlines_behind(flows: FlowRunner) -> None:
    for _ in range(1000):
        done: Promise[int] = Promise()
        flows.start(waiting(done), 0, deadline_ms=60_000)
        flows.poll(0)
        done.resolve(1)
        flows.poll(0)
    assert len(flows._timers) < 100


def test_the_first_of_several_promises(flows: FlowRunner) -> None:
    first: Promise[int] = Promise()
    second: Promise[int] = Promise()
    done = flows.start(any_of(first, second), 0)
    flows.poll(0)
    second.reject(ValueError("an answer, too"))
    flows.poll(0)
    assert done.result() is second
    assert not first.is_awaited, "the others are left alone"


def test_a_promise_that_is_settled_already_is_the_first(flows: FlowRunner) -> None:
    settled = Promise.resolved(1)
    done = flows.start(any_of(Promise(), settled), 0)
    flows.poll(0)
    assert done.result() is settled


@pytest.mark.parametrize("timeout_ms", [0, 250])
def test_waiting_for_the_first_of_several_ends_with_the_time(flows: FlowRunner, timeout_ms: int) -> None:
    never: Promise[int] = Promise()
    done = flows.start(any_of(never, timeout_ms=timeout_ms), 1000)
    flows.poll(1000)
    assert done.done == (timeout_ms == 0)
    flows.poll(1000 + timeout_ms)
    assert done.done
    assert done.result() is None
    assert not never.is_awaited


def test_waiting_for_none_is_sleeping(flows: FlowRunner) -> None:
    done = flows.start(any_of(timeout_ms=100), 0)
    assert flows.poll(0) == 100
    flows.poll(100)
    assert done.done


def test_a_cancelled_wait_leaves_nothing_behind(flows: FlowRunner) -> None:
    never: Promise[int] = Promise()
    done = flows.start(any_of(never, timeout_ms=100), 0)
    flows.poll(0)
    flows.cancel(done, 0)
    assert isinstance(done.error, ClosedError)
    assert not never.is_awaited
    flows.poll(100)


def test_what_is_no_step_is_an_error_inside_the_flow(flows: FlowRunner) -> None:
    def wrong() -> Flow[None]:
        yield "nonsense"  # type: ignore[misc]

    done = flows.start(wrong(), 0)
    flows.poll(0)
    assert isinstance(done.error, IllegalStateError)


def test_calls_that_wait_for_a_connection_are_not_tried_again_and_again(client: SimClient, monkeypatch: pytest.MonkeyPatch) -> None:
    flows = client.engine.flows
    begun = []
    begin_call = flows._begin_call

    def note(task: Any, call: Any, now_ms: int) -> None:
        begun.append(now_ms)
        begin_call(task, call, now_ms)

    monkeypatch.setattr(flows, "_begin_call", note)

    def asking() -> Flow[Any]:
        return (yield Call(MetadataRequest()))

    promise = client.start(asking())
    for _ in range(50):
        client.engine.advance(client.sim.now_ms)
    assert len(begun) <= 3
    assert client.sim.run_until(promise, 1000)


def test_many_calls_behind_a_busy_connection_cost_a_look_each(client: SimClient, monkeypatch: pytest.MonkeyPatch) -> None:
    client.updated()
    flows, looks = client.engine.flows, []
    begin = flows._begin_call

    def note(task: Any, call: Any, now_ms: int) -> None:
        looks.append(task)
        begin(task, call, now_ms)

    monkeypatch.setattr(flows, "_begin_call", note)
    order: list[int] = []

    def ask(number: int) -> Flow[None]:
        yield Call(MetadataRequest(topics=[]), 1)
        order.append(number)

    many = [client.start(ask(number)) for number in range(500)]
    assert client.sim.run_until(many[-1], 60_000)
    assert order == list(range(500))
    assert len(looks) < 4 * len(many)


def test_an_idle_engine_looks_at_nothing(client: SimClient, monkeypatch: pytest.MonkeyPatch) -> None:
    client.updated()
    client.sim.advance(1000)
    network = client.network
    monkeypatch.setattr(network, "least_loaded_node", lambda now_ms: pytest.fail("it walked over the nodes"))
    monkeypatch.setattr(network, "shortest_delay_ms", lambda now_ms: pytest.fail("it walked over the nodes"))
    for _ in range(10):
        assert client.engine.advance(client.sim.now_ms) > client.sim.now_ms
    assert client.engine.now_ms == client.engine.now.ms == client.sim.now_ms
