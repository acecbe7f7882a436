"""Decides which address of the registry to try next, how long to pause, and when to give up.

attempts() is a generator without I/O and without a clock of its own, so that a blocking and an asyncio client can run the same generator.
If it yields an Attempt, the caller sends an Answer or a NoAnswer to the generator. If it yields a Pause, the caller waits and then resumes
it. It returns the last Answer, with its address.

One round tries all addresses. If an address does not answer, or answers that the registry cannot do it now (status 503, ...), the next
address is tried at once, because another node of the registry may be able to. If a round ends so, a pause and another round follow. A final
answer (status 200, 404, 409, ...) from any address ends the attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from random import Random

from levada.config.registry import RegistryUrl
from levada.registry.endpoints import Answer
from levada.registry.errors import NOTHING_DONE, RETRIABLE_STATUSES, RegistryUnavailableError

_MAX_DOUBLINGS = 30


@dataclass(frozen=True)
class Attempt:
    """A step: send the request to this address, and wait at most timeout_ms for the answer."""

    url: RegistryUrl
    timeout_ms: int


@dataclass(frozen=True)
class NoAnswer:
    """An attempt that got no answer. reason: text for errors. sent: whether the registry may have executed the request. timed_out: whether
    the time for the answer was over.
    """

    reason: str
    sent: bool
    timed_out: bool = False


@dataclass(frozen=True)
class Pause:
    """A step: wait before the next round."""

    delay_ms: int


@dataclass(frozen=True)
class RetryPolicy:
    """The settings for retries (see levada.config.registry). max_retries: rounds after the first. timeout_ms: limit of all attempts.
    wait_ms: the first pause; it doubles with each round, up to max_wait_ms.
    """

    max_retries: int
    wait_ms: int
    max_wait_ms: int
    timeout_ms: int


Attempts = Generator[Attempt | Pause, Answer | NoAnswer | None, tuple[RegistryUrl, Answer]]


class Addresses:
    """The addresses of the registry. Each round begins with the address that answered last.

    No lock is needed if several threads use this object, because any order is valid.
    """

    def __init__(self, urls: Sequence[RegistryUrl]) -> None:
        self._urls = tuple(urls)
        self._first = 0

    def in_turn(self) -> list[RegistryUrl]:
        """Return all addresses in the order in which to try them."""
        first = self._first
        return [*self._urls[first:], *self._urls[:first]]

    def answered(self, url: RegistryUrl) -> None:
        """Let later rounds begin with this address."""
        self._first = self._urls.index(url)


def attempts(
    what: str, *, repeatable: bool, addresses: Addresses, policy: RetryPolicy, now_ms: Callable[[], int], random: Random
) -> Attempts:
    """Yield the steps of a request. Return the address that answered, and its answer, which may have an error status.

    what: the name of the request in errors. repeatable: whether the request may be sent again although the registry may have executed it.
    random: for the random part of pauses. Raises RegistryUnavailableError if no address answers in time, or if a request that is not
    repeatable was sent and got no answer.
    """
    deadline_ms = now_ms() + policy.timeout_ms
    causes: dict[str, str] = {}
    for round_number in range(policy.max_retries + 1):
        last: tuple[RegistryUrl, Answer] | None = None
        for url in addresses.in_turn():
            remaining_ms = deadline_ms - now_ms()
            if remaining_ms <= 0:
                break
            outcome = yield Attempt(url, remaining_ms)
            if isinstance(outcome, Answer):
                if outcome.status not in (RETRIABLE_STATUSES if repeatable else NOTHING_DONE):
                    addresses.answered(url)
                    return url, outcome
                causes[str(url)] = f"answered with status {outcome.status}"
                last = url, outcome
            elif isinstance(outcome, NoAnswer):
                causes[str(url)] = outcome.reason
                if outcome.sent and not repeatable:
                    raise RegistryUnavailableError(f"{what}: the answer was lost; the registry may have done it", causes)
        delay_ms = _delay_ms(policy, round_number, last and last[1], random)
        if round_number == policy.max_retries or now_ms() + delay_ms >= deadline_ms:
            if last is not None:
                return last
            break
        yield Pause(delay_ms)
    raise RegistryUnavailableError(f"{what}: no address of the registry answered{_tried(round_number)}", causes)


def _delay_ms(policy: RetryPolicy, round_number: int, answer: Answer | None, random: Random) -> int:
    """Return the pause from the Retry-After header, or else an exponential backoff, in ms; at most retries.max.wait.ms.

    Up to half of the backoff is random, so that clients that failed at the same time do not retry at the same time. round_number: the
    number of the round that ended, from 0. answer: the last answer in this round; None if there was none.
    """
    if answer is not None and answer.retry_after_ms is not None:
        return min(answer.retry_after_ms, policy.max_wait_ms)
    longest_ms = min(policy.wait_ms * 2 ** min(round_number, _MAX_DOUBLINGS), policy.max_wait_ms)
    return int(longest_ms * random.uniform(0.5, 1))


def _tried(round_number: int) -> str:
    return f" ({round_number + 1} attempts each)" if round_number else ""
