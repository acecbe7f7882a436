"""One token for all connections of a client: when it is fetched, and what happens when it cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from levada.base.clock import ExponentialBackoff
from levada.base.promise import Promise
from levada.client.requests.flow_runner import FlowsBeside
from levada.client.setup.tokens import RefreshWindow, Token, TokenKeeper
from levada.errors import TokenError
from levada.testing import Simulation
from sim_kit import SimClient, server

HOUR_MS = 3_600_000
PATIENCE_MS = 30_000
WINDOW = RefreshWindow(0.8, 0.05, 60_000, 300_000)


@pytest.mark.parametrize(
    ("lifetime_ms", "least", "most"),
    [
        (HOUR_MS, 2_880_000, 3_060_000),
        (400_000, 100_000, 100_000),  # The end of the buffer comes first.
        (370_000, 70_000, 70_000),
        (300_000, 240_000, 255_000),  # Too short for least period and buffer: neither counts.
        (50, 100, 100),
    ],
)
def test_KIP255_when_the_next_token_is_fetched(lifetime_ms: int, least: int, most: int) -> None:
    found = [WINDOW.after_ms(lifetime_ms, Random(seed)) for seed in range(50)]
    assert least <= min(found) <= max(found) <= most


class Service:
    """Gives tokens when told to. slept_ms: for how long the machine was suspended, which the monotonic clock does not count."""

    def __init__(self, sim: Simulation) -> None:
        self.asked: list[Promise[Token]] = []
        self.slept_ms = 0
        self.sim = sim
        server(sim)
        client = SimClient(sim)
        self.keeper = TokenKeeper(
            self._fetch,
            WINDOW,
            ExponentialBackoff(1_000, 8_000, sim.random),
            patience_ms=PATIENCE_MS,
            flows=FlowsBeside(client.engine.flows, client.engine.now),
            now=client.engine.now,
            wall_ms=lambda: sim.now_ms + self.slept_ms,
            random=sim.random,
            log=client.engine.deferred.log("levada.tests"),
        )

    def _fetch(self) -> Promise[Token]:
        self.asked.append(Promise())
        return self.asked[-1]

    def give(self, value: str, lifetime_ms: int | None = HOUR_MS) -> None:
        self.asked[-1].resolve(Token(value, lifetime_ms))
        self.sim.advance(1)

    def until_asked(self, times: int) -> None:
        while len(self.asked) < times:
            self.sim.advance(1_000)

    def refuse(self, error: Exception) -> None:
        self.asked[-1].reject(error)
        self.sim.advance(1)


@pytest.fixture
def service() -> Iterator[Service]:
    with Simulation(seed=3) as sim:
        yield Service(sim)


def value(promise: Promise[Token]) -> str:
    return promise.result().value


def test_all_who_ask_wait_for_one_token(service: Service) -> None:
    waiting = [service.keeper.current() for _ in range(3)]
    service.sim.advance(10)
    assert len(service.asked) == 1
    service.give("first")
    assert [value(promise) for promise in [*waiting, service.keeper.current()]] == ["first"] * 4
    assert len(service.asked) == 1


def test_the_next_token_is_fetched_while_the_one_before_is_good(service: Service) -> None:
    service.keeper.current()
    service.sim.advance(1)
    service.give("first")
    service.sim.advance(2_800_000)
    assert len(service.asked) == 1
    service.until_asked(2)
    assert value(service.keeper.current()) == "first"
    service.give("second")
    assert value(service.keeper.current()) == "second"


def test_M_A19_a_token_that_cannot_be_replaced_is_used_to_its_end(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    service.keeper.current()
    service.sim.advance(1)
    service.give("first")
    service.until_asked(2)
    service.refuse(TokenError("the service is down"))
    assert value(service.keeper.current()) == "first"
    assert "the next token could not be fetched; the one before is good for" in caplog.text
    service.sim.advance(1_300)
    assert len(service.asked) == 3, "asked again after a pause"
    service.sim.advance(HOUR_MS)
    late = service.keeper.current()
    assert not late.done, "an old token is not handed out"
    service.give("second")
    assert value(late) == "second"


def test_a_token_that_ended_while_the_machine_slept_is_replaced_at_once(service: Service) -> None:
    service.keeper.current()
    service.sim.advance(1)
    service.give("first")
    service.slept_ms = HOUR_MS
    waiting = [service.keeper.current() for _ in range(2)]
    service.sim.advance(1)
    assert len(service.asked) == 2
    service.give("second")
    assert [value(promise) for promise in [*waiting, service.keeper.current()]] == ["second"] * 3
    service.sim.advance(2_800_000)
    assert len(service.asked) == 2, "its lifetime counts anew"
    service.until_asked(3)


def test_a_service_that_is_down_when_the_machine_wakes_up_is_not_asked_by_everybody(service: Service) -> None:
    service.keeper.current()
    service.sim.advance(1)
    service.give("first")
    service.slept_ms = HOUR_MS
    service.keeper.current()
    service.sim.advance(1)
    refuse_all(service)
    service.sim.advance(1)
    assert len(service.asked) == 2


def test_a_clock_that_is_set_back_makes_no_token_last_longer(service: Service) -> None:
    service.keeper.current()
    service.sim.advance(1)
    service.give("first")
    service.slept_ms = -HOUR_MS
    service.until_asked(2)
    service.sim.advance(HOUR_MS)
    assert not service.keeper.current().done


def refuse_all(service: Service) -> None:
    """Refuse a token, and see that all who ask after that are told the same."""
    service.refuse(TokenError("down"))
    for _ in range(5):
        with pytest.raises(TokenError, match="down"):
            service.keeper.current().result()


def test_a_service_that_is_down_is_not_asked_by_everybody(service: Service) -> None:
    service.keeper.current()
    service.sim.advance(1)
    refuse_all(service)
    assert len(service.asked) == 1
    service.sim.advance(1_300)
    assert len(service.asked) == 1, "nobody needs one"
    waiting = service.keeper.current()
    service.sim.advance(1)
    service.give("at last")
    assert value(waiting) == "at last"


def test_the_pauses_grow(service: Service) -> None:
    pauses = []
    for _ in range(4):
        service.keeper.current()
        service.sim.advance(1)
        service.refuse(TokenError("down"))
        begun_ms = service.sim.now_ms
        while service.keeper.current().done:
            service.sim.advance(100)
        pauses.append(service.sim.now_ms - begun_ms)
    assert pauses == sorted(pauses)
    assert pauses[-1] > 5 * pauses[0]


def test_a_token_without_an_end_serves_only_those_who_wait_for_it(service: Service) -> None:
    for name in ("first", "second"):
        waiting = [service.keeper.current() for _ in range(2)]
        service.sim.advance(1)
        service.give(name, None)
        assert [value(promise) for promise in waiting] == [name] * 2
    service.sim.advance(HOUR_MS)
    assert len(service.asked) == 2


def test_whatever_a_fetch_raises_is_told_and_does_not_end_the_client(service: Service) -> None:
    waiting = service.keeper.current()
    service.sim.advance(1)
    service.refuse(ZeroDivisionError("secret"))
    with pytest.raises(TokenError, match=r"fetching the token failed: ZeroDivisionError$"):
        waiting.result()


def hang(service: Service, times: int) -> None:
    """Have fetches begun that do not return, and given up."""
    for _ in range(times):
        waiting = service.keeper.current()
        service.sim.advance(PATIENCE_MS + 100)
        with pytest.raises(TokenError, match="no token within 30000 ms: what fetches it has not returned") as error:
            waiting.result()
        assert error.value.retriable
        service.sim.advance(9_000)


def test_a_fetch_that_never_returns_does_not_keep_later_logins_from_another(service: Service) -> None:
    hang(service, 1)
    waiting = service.keeper.current()
    service.sim.advance(1)
    assert len(service.asked) == 2
    service.give("second")
    assert value(waiting) == "second"
    service.asked[0].resolve(Token("of the one that hung", HOUR_MS))
    assert value(service.keeper.current()) == "second", "it is no better than the one that is there"


def test_a_token_that_comes_late_is_used(service: Service) -> None:
    hang(service, 1)
    waiting = service.keeper.current()
    service.sim.advance(1)
    service.asked[0].resolve(Token("late", HOUR_MS))
    assert value(waiting) == value(service.keeper.current()) == "late"


def test_fetches_that_never_return_do_not_pile_up(service: Service) -> None:
    hang(service, 4)
    waiting = service.keeper.current()
    service.sim.advance(1)
    with pytest.raises(TokenError, match="4 attempts to fetch a token have not returned"):
        waiting.result()
    assert len(service.asked) == 4
    service.asked[0].reject(TokenError("at last"))
    service.sim.advance(9_000)
    service.keeper.current()
    service.sim.advance(1)
    assert len(service.asked) == 5


def test_no_token_is_shown(service: Service) -> None:
    assert "s3cret" not in repr(Token("s3cret", 1, {"name": "s3cret"}))
