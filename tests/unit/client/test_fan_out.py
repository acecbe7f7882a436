"""One question to many nodes, asked again where that may help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from levada.base.clock import ExponentialBackoff
from levada.base.flow import Flow, Sleep
from levada.base.promise import Promise
from levada.client.requests.fan_out import Answer, FanOut, Whom, raise_first
from levada.client.requests.flow_runner import FlowsBeside
from levada.client.requests.retry import Reaction, Retries, RetryPolicy
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, TimeoutError, broker_error
from levada.testing import Simulation
from sim_kit import SimClient, server

Answers = Callable[[Whom, list[str]], Answer[str, int]]


@pytest.fixture
def sim() -> Iterator[Simulation]:
    with Simulation(seed=3) as sim:
        yield sim


@pytest.fixture
def client(sim: Simulation) -> SimClient:
    server(sim)
    client = SimClient(sim)
    client.updated()
    return client


class Asked:
    """Sends nothing: answers as the test says, and notes which node was asked about what."""

    def __init__(
        self,
        client: SimClient,
        answers: Answers,
        *,
        leader: Callable[[str], int | str] | None = None,
        still_wanted: Callable[[str], bool] = lambda key: True,
        takes_ms: Callable[[Whom], int] = lambda node: 0,
    ) -> None:
        self.calls: list[tuple[Whom, list[str]]] = []
        self._answers = answers
        retries = Retries(client.metadata, ExponentialBackoff(100, 1000, Random(1)))
        self.fan: FanOut[str, int] = FanOut(
            retries,
            FlowsBeside(client.engine.flows, client.engine.now),
            route=leader or (lambda key: 1 if key < "m" else 2),
            ask=lambda node, keys: self._ask(node, keys),
            still_wanted=still_wanted,
        )
        self._takes_ms = takes_ms

    def _ask(self, node: Whom, keys: list[str]) -> Flow[Answer[str, int]]:
        self.calls.append((node, keys))
        yield Sleep(self._takes_ms(node))
        return self._answers(node, keys)


def run(client: SimClient, flow: Flow[Any], within_ms: int = 60_000) -> None:
    promise = client.start(flow, within_ms)
    assert client.sim.run_until(promise, 2 * within_ms)
    promise.result()


def test_every_node_is_asked_once_about_what_it_knows(client: SimClient) -> None:
    asked = Asked(client, lambda node, keys: Answer(found=dict.fromkeys(keys, 7)))
    run(client, asked.fan.run(["a", "z", "b"]))
    assert asked.calls == [(1, ["a", "b"]), (2, ["z"])]
    assert asked.fan.found == {"a": 7, "b": 7, "z": 7}


def test_only_what_is_left_is_asked_again_and_the_pauses_grow(client: SimClient) -> None:
    asked = Asked(client, lambda node, keys: Answer(again=dict.fromkeys(keys, "busy"), refresh=False))
    started_ms = client.sim.now_ms
    with pytest.raises(TimeoutError):
        run(client, asked.fan.run(["a"]), within_ms=3000)
    assert 5 <= len(asked.calls) <= 8, "about 100, 200, 400, 800 and 1000 ms apart"
    assert client.sim.now_ms - started_ms == 3000
    assert asked.fan.reasons == {"a": "busy"}


def test_who_is_asked_again_is_chosen_anew(client: SimClient) -> None:
    leaders: Iterator[int | str] = iter([1, "no leader is known", 2])
    answers = iter([Answer.missing(["a"], "moved"), Answer(found={"a": 1})])
    asked = Asked(client, lambda node, keys: next(answers), leader=lambda key: next(leaders))
    run(client, asked.fan.run(["a"]))
    assert asked.calls == [(1, ["a"]), (2, ["a"])]


def test_what_was_not_asked_about_is_not_asked_about_again(client: SimClient) -> None:
    asked = Asked(client, lambda node, keys: Answer(found=dict.fromkeys(keys, 7), again={"b": "busy"}, located=["c"]))
    run(client, asked.fan.run(["a"]))
    assert (asked.calls, asked.fan.found) == ([(1, ["a"])], {"a": 7})


def test_errors_wait_for_the_others_unless_told_otherwise(client: SimClient) -> None:
    failed = broker_error(29, "no")

    def answer(node: Whom, keys: list[str]) -> Answer[str, int]:
        if node == 2:
            return Answer(errors=dict.fromkeys(keys, failed))
        return Answer(found={"a": 1}) if len(asked.calls) > 2 else Answer.missing(keys, "busy")

    asked = Asked(client, answer)
    run(client, asked.fan.run(["a", "z"]))
    assert (asked.fan.found, asked.fan.errors) == ({"a": 1}, {"z": failed})
    asked = Asked(client, answer)
    run(client, asked.fan.run(["a", "z"], stop_at_error=True))
    assert (asked.fan.found, asked.fan.errors) == ({}, {"z": failed})


def test_a_node_that_does_not_answer_holds_up_its_own_subjects_only(client: SimClient) -> None:
    answers = iter([Answer(again={"a": "busy"}, refresh=False), Answer(found={"a": 1}), Answer(found={"z": 2})])
    asked = Asked(client, lambda node, keys: next(answers), takes_ms=lambda node: 5_000 if node == 2 else 0)
    promise = client.start(asked.fan.run(["a", "z"]))
    assert not client.sim.run_until(promise, 1_000)
    assert (asked.calls, asked.fan.found) == ([(1, ["a"]), (2, ["z"]), (1, ["a"])], {"a": 1})
    assert asked.fan.reasons == {"z": "not asked yet"}
    assert client.sim.run_until(promise, 5_000)
    assert asked.fan.found == {"a": 1, "z": 2}


def test_who_was_found_is_asked_at_once_beside_the_pause_of_the_others(client: SimClient) -> None:
    where: dict[str, int | str] = {}

    def answer(node: Whom, keys: list[str]) -> Answer[str, int]:
        if node != 1:
            return Answer(found=dict.fromkeys(keys, 7))
        located = [key for key in keys if key != "b" or len(asked.calls) > 1]
        where.update(dict.fromkeys(located, 2))
        return Answer(located=located, again=dict.fromkeys(set(keys) - set(located), "busy"), refresh=False)

    asked = Asked(client, answer, leader=lambda key: where.get(key, 1))
    promise = client.start(asked.fan.run(["a", "b"]))
    assert not client.sim.run_until(promise, 50)
    assert (asked.calls, asked.fan.found, asked.fan.reasons) == ([(1, ["a", "b"]), (2, ["a"])], {"a": 7}, {"b": "busy"})
    assert client.sim.run_until(promise, 1_000)
    assert (asked.calls[2:], asked.fan.found) == ([(1, ["b"]), (2, ["b"])], {"a": 7, "b": 7})


def test_nobody_is_asked_any_more_when_the_time_is_over(client: SimClient) -> None:
    asked = Asked(client, lambda node, keys: Answer(found=dict.fromkeys(keys, 1)), takes_ms=lambda node: 5_000)
    with pytest.raises(TimeoutError):
        run(client, asked.fan.run(["a", "z"]), within_ms=1_000)
    assert not client.engine.flows._tasks
    client.sim.advance(10_000)
    assert asked.fan.found == {}


def test_the_others_are_not_asked_any_more_when_it_stops_at_an_error(client: SimClient) -> None:
    failed = broker_error(29, "no")

    def answer(node: Whom, keys: list[str]) -> Answer[str, int]:
        return Answer(errors=dict.fromkeys(keys, failed)) if node == 2 else Answer(found=dict.fromkeys(keys, 1))

    asked = Asked(client, answer, takes_ms=lambda node: 5_000 if node == 1 else 0)
    run(client, asked.fan.run(["a", "z"], stop_at_error=True))
    assert not client.engine.flows._tasks
    client.sim.advance(10_000)
    assert (asked.fan.found, asked.fan.errors) == ({}, {"z": failed})


def test_what_is_not_wanted_any_more_is_not_asked_again(client: SimClient) -> None:
    wanted = {"a", "b"}

    def answer(node: Whom, keys: list[str]) -> Answer[str, int]:
        wanted.discard("a")
        return Answer(found=dict.fromkeys(keys, 1)) if "a" not in keys else Answer.missing(keys, "busy")

    asked = Asked(client, answer, still_wanted=lambda key: key in wanted)
    run(client, asked.fan.run(["a", "b"]))
    assert asked.calls == [(1, ["a", "b"]), (1, ["b"])]
    assert (asked.fan.found, asked.fan.reasons) == ({"b": 1}, {})


def test_a_flow_that_raises_ends_the_whole_question(client: SimClient) -> None:
    def refuse(node: Whom, keys: list[str]) -> Answer[str, int]:
        raise broker_error(31, "refused")

    with pytest.raises(BrokerError, match="refused"):
        run(client, Asked(client, refuse).fan.run(["a", "z"]))


def test_retries_may_be_limited(client: SimClient) -> None:
    retries = Retries(client.metadata, ExponentialBackoff(1, 1, Random(1)), 2)
    assert [retries.may_go_on("a") for _ in range(4)] == [True, True, False, False]
    assert retries.may_go_on("b"), "each subject has its own"
    endless = Retries(client.metadata, ExponentialBackoff(1, 1, Random(1)))
    assert all(endless.may_go_on("a") for _ in range(100))


def test_a_policy_says_what_the_codes_mean_that_it_does_not_name() -> None:
    policy = RetryPolicy({ErrorCode.NOT_CONTROLLER: Reaction.REFRESH}, otherwise=Reaction.RETRY)
    assert policy.reaction(41) is Reaction.REFRESH
    assert policy.reaction(3) is Reaction.RETRY
    assert policy.reaction(12345) is Reaction.RETRY


def test_the_work_grows_with_the_number_of_subjects_and_not_with_its_square(client: SimClient, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, on_done = 0, Promise.on_done

    def counted(promise: Promise[Any], callback: Callable[[Promise[Any]], None]) -> None:
        nonlocal calls
        calls += 1
        on_done(promise, callback)

    def numbered(node: Whom, keys: list[str]) -> Answer[str, int]:
        return Answer(found={key: int(key) for key in keys})

    asked = Asked(client, numbered, leader=int, takes_ms=lambda node: node if isinstance(node, int) else 0)
    monkeypatch.setattr(Promise, "on_done", counted)
    run(client, asked.fan.run([str(number) for number in range(300)]))
    assert len(asked.fan.found) == 300
    assert calls < 20 * 300


def test_an_error_of_many_tells_of_a_few_others_and_has_the_outcomes_of_all() -> None:
    errors = {key: broker_error(ErrorCode.GROUP_AUTHORIZATION_FAILED, key) for key in ("7", "8")}
    subjects = [str(number) for number in range(10_000)]
    with pytest.raises(BrokerError, match=r"^7: GROUP") as caught:
        raise_first(lambda key: f"forget {key}", subjects, errors, dict.fromkeys(subjects))
    *notes, last = caught.value.__notes__
    assert (len(notes), notes[6], notes[7][:2]) == (20, "forget 6: ok", "8:")
    assert last == "9979 more are in the error's outcomes; 2 of 10000 have failed"
    assert caught.value.outcomes is not None
    assert len(caught.value.outcomes) == 10_000
