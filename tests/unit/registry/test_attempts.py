"""Which address of a registry is asked next, after which pause, and when to give up. No network: outcomes are handed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from levada.config import RegistryConfig
from levada.registry import RegistryUnavailableError
from levada.registry.attempts import Addresses, Attempt, NoAnswer, Pause, RetryPolicy, attempts
from levada.registry.endpoints import Answer

POLICY = RetryPolicy(max_retries=2, wait_ms=1_000, max_wait_ms=20_000, timeout_ms=60_000)
OK = Answer(200, b"{}")
REFUSED = NoAnswer("connection refused", sent=False)
LOST = NoAnswer("connection reset", sent=True)

Step = Attempt | Pause
Outcome = Answer | NoAnswer


class Run:
    """Runs attempts in virtual time against a function from host to outcome, and writes down what was done."""

    def __init__(self, respond: Callable[[str], Outcome], hosts: str = "a,b", policy: RetryPolicy = POLICY, took_ms: int = 0) -> None:
        self.respond = respond
        self.now_ms = 0
        self.policy = policy
        self.took_ms = took_ms
        self.steps: list[str | int] = []
        self.addresses = Addresses(RegistryConfig.parse(url=",".join(f"http://{host}" for host in hosts.split(","))).schema_registry_url)

    def call(self, *, repeatable: bool = True) -> tuple[str, Answer]:
        steps = attempts(
            "list subjects",
            repeatable=repeatable,
            addresses=self.addresses,
            policy=self.policy,
            now_ms=lambda: self.now_ms,
            random=Random(1),
        )
        step = next(steps)
        try:
            while True:
                step = steps.send(self._do(step))
        except StopIteration as done:
            url, answer = done.value
            return url.host, answer

    def _do(self, step: Step) -> Outcome | None:
        if isinstance(step, Pause):
            self.steps.append(step.delay_ms)
            self.now_ms += step.delay_ms
            return None
        self.steps.append(step.url.host)
        self.now_ms += min(self.took_ms, step.timeout_ms)
        return self.respond(step.url.host)

    @property
    def pauses(self) -> list[int]:
        return [step for step in self.steps if isinstance(step, int)]


def test_the_next_address_is_tried_at_once() -> None:
    run = Run(lambda host: OK if host == "b" else REFUSED)
    assert run.call() == ("b", OK)
    assert run.steps == ["a", "b"]


def test_the_address_that_answered_comes_first_next_time() -> None:
    run = Run(lambda host: OK if host == "b" else REFUSED)
    run.call()
    run.steps.clear()
    run.call()
    assert run.steps == ["b"]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_pass_is_asked_again_after_a_growing_pause(status: int) -> None:
    answers = iter([Answer(status, b"")] * 2 + [OK])
    run = Run(lambda _: next(answers), hosts="a")
    assert run.call() == ("a", OK)
    assert run.steps[::2] == ["a", "a", "a"]
    first, second = run.pauses
    assert 500 <= first <= 1_000
    assert 1_000 <= second <= 2_000


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 409, 422, 501])
def test_what_will_not_change_is_not_asked_again(status: int) -> None:
    run = Run(lambda _: Answer(status, b""))
    assert run.call()[1].status == status
    assert run.steps == ["a"]


def test_the_last_answer_is_returned_when_the_retries_are_over() -> None:
    run = Run(lambda _: Answer(503, b""), hosts="a")
    assert run.call()[1].status == 503
    assert run.steps.count("a") == POLICY.max_retries + 1


def test_a_registry_that_cannot_be_reached_is_told_with_every_address() -> None:
    with pytest.raises(RegistryUnavailableError, match=r"list subjects: no address of the registry answered \(3 attempts each\)") as caught:
        Run(lambda host: NoAnswer(f"no route to {host}", sent=False)).call()
    assert caught.value.causes == {"http://a:80": "no route to a", "http://b:80": "no route to b"}
    assert caught.value.retriable


def test_the_registry_may_name_the_pause_up_to_the_longest() -> None:
    answers = iter([Answer(429, b"", retry_after_ms=7_000), Answer(429, b"", retry_after_ms=3_600_000), OK])
    run = Run(lambda _: next(answers), hosts="a")
    run.call()
    assert run.pauses == [7_000, 20_000]


def test_no_attempt_begins_after_the_time_of_the_call() -> None:
    run = Run(lambda _: LOST, took_ms=40_000)
    with pytest.raises(RegistryUnavailableError):
        run.call()
    assert run.steps == ["a", "b"]
    assert run.now_ms == POLICY.timeout_ms


def test_a_pause_that_would_outlast_the_call_is_not_made() -> None:
    run = Run(lambda _: Answer(503, b"", retry_after_ms=15_000), hosts="a", policy=RetryPolicy(5, 1_000, 20_000, timeout_ms=20_000))
    assert run.call()[1].status == 503
    assert run.now_ms == 15_000


def test_a_deletion_whose_answer_was_lost_is_not_done_twice() -> None:
    run = Run(lambda _: LOST)
    with pytest.raises(RegistryUnavailableError, match="the registry may have done it"):
        run.call(repeatable=False)
    assert run.steps == ["a"]


@pytest.mark.parametrize("status", [408, 500, 502, 504])
def test_a_deletion_that_a_broken_registry_may_have_done_is_not_done_twice(status: int) -> None:
    run = Run(lambda _: Answer(status, b""))
    assert run.call(repeatable=False)[1].status == status
    assert run.steps == ["a"]


def test_a_deletion_that_was_not_sent_is_tried_again() -> None:
    outcomes: Iterator[Outcome] = iter([REFUSED, Answer(503, b""), OK])
    run = Run(lambda _: next(outcomes))
    assert run.call(repeatable=False)[1] == OK
