"""Which address is asked next, after which pause, and when to give up.

A generator that does no I/O and has no clock of its own. It yields an Attempt and is resumed with its Answer, or with NoAnswer; or it
yields a Pause and is resumed afterwards. It returns the last answer. A blocking and an asyncio client can run the same one.

All addresses are one round. Within a round the next address is tried at once: another node of the registry may well answer. After a
round in which none did there is a pause, and then the next round. An answer that will not change (200, 404, 409, ...) ends it, whichever
address gave it.
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
    """Ask this address, for at most so long."""

    url: RegistryUrl
    timeout_ms: int


@dataclass(frozen=True)
class NoAnswer:
    """The request failed. sent: it may have reached the registry, and have been carried out."""

    reason: str
    sent: bool
    timed_out: bool = False


@dataclass(frozen=True)
class Pause:
    """Wait so long."""

    delay_ms: int


@dataclass(frozen=True)
class RetryPolicy:
    """The settings that decide about retries, as levada.config.registry declares them."""

    max_retries: int
    wait_ms: int
    max_wait_ms: int
    timeout_ms: int


Attempts = Generator[Attempt | Pause, Answer | NoAnswer | None, tuple[RegistryUrl, Answer]]


class Addresses:
    """The addresses, the one that answered last first. Which one that is may be set by several threads; any of their answers will do."""

    def __init__(self, urls: Sequence[RegistryUrl]) -> None:
        self._urls = tuple(urls)
        self._first = 0

    def in_turn(self) -> list[RegistryUrl]:
        """Return all addresses in the order in which they are to be tried."""
        first = self._first
        return [*self._urls[first:], *self._urls[:first]]

    def answered(self, url: RegistryUrl) -> None:
        """Begin with this address from now on."""
        self._first = self._urls.index(url)


def attempts(
    what: str, *, repeatable: bool, addresses: Addresses, policy: RetryPolicy, now_ms: Callable[[], int], random: Random
) -> Attempts:
    """Return the address that answered, and its answer. Raises RegistryUnavailableError when none did in time."""
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
                    raise RegistryUnavailableError(f"{what}: the answer was lost; it may have been done all the same", causes)
        delay_ms = _delay_ms(policy, round_number, last and last[1], random)
        if round_number == policy.max_retries or now_ms() + delay_ms >= deadline_ms:
            if last is not None:
                return last
            break
        yield Pause(delay_ms)
    raise RegistryUnavailableError(f"{what}: no address of the registry answered{_tried(round_number)}", causes)


def _delay_ms(policy: RetryPolicy, round_number: int, answer: Answer | None, random: Random) -> int:
    """Return the pause that the registry asked for, or an exponential one; never longer than the longest.

    Half of it is by chance, so that clients that failed together do not come back together.
    """
    if answer is not None and answer.retry_after_ms is not None:
        return min(answer.retry_after_ms, policy.max_wait_ms)
    longest_ms = min(policy.wait_ms * 2 ** min(round_number, _MAX_DOUBLINGS), policy.max_wait_ms)
    return int(longest_ms * random.uniform(0.5, 1))


def _tried(round_number: int) -> str:
    return f" ({round_number + 1} attempts each)" if round_number else ""
