"""The OAUTHBEARER token of a client: all connections share it, and it is fetched anew before it ends.

A connection that logs in asks for the current token. The first one starts the fetch, and the others wait with it. From then on a flow
fetches the next token when most of its lifetime is over, as Java's client does (KIP-255, sasl.login.refresh.*), so that no login has to
wait again. While fetching fails, the old token is used until it ends. If no token is left, logins fail with the cause, and the next fetch
waits for its back-off: a token service that is down is not asked by every connection attempt.

A fetch may never return, for example when a user's function hangs. It is abandoned after some time, so that a later login can start another
one. If it returns a token after all, that token is used.

The monotonic clock stands still while a machine sleeps, but the token expires all the same. So before a login uses it, the wall clock is
checked as well: a token that has expired by either clock is replaced at once.

A token without an expiry time serves the logins that wait for it when it comes, and no later one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, Protocol

from levada.base.clock import ExponentialBackoff, Now
from levada.base.flow import Flow, WaitAny
from levada.base.promise import Promise
from levada.client.driver_interface import DeferredLog
from levada.credentials import unanswered
from levada.errors import KafkaError, TokenError

_LEAST_PAUSE_MS = 100
"""The shortest time between two fetches, whatever lifetime a token has."""
_MOST_LATE = 4
"""No further fetch is started while this many have not returned, because each of them may block a thread without end."""


class Runs(Protocol):
    """Runs flows that have no deadline of their own (FlowsBeside)."""

    def start(self, flow: Flow[None]) -> Promise[None]:
        """Start a flow with the next poll."""
        ...


@dataclass(frozen=True, slots=True)
class Token:
    """A fetched token. lifetime_ms: how long it is valid from its arrival on; None if that is not known."""

    value: str = field(repr=False)
    lifetime_ms: int | None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


class RefreshWindow(NamedTuple):
    """Tells when to fetch the next token, by the settings sasl.login.refresh.* of Java's client.

    factor, jitter: after this part of the lifetime, plus a random part of up to `jitter`. min_period_ms: the shortest time after a fetch.
    buffer_ms: the shortest time before the end of the lifetime. If the last two together exceed the lifetime, neither applies.
    """

    factor: float
    jitter: float
    min_period_ms: int
    buffer_ms: int

    def after_ms(self, lifetime_ms: int, random: Random) -> int:
        """Return after how many milliseconds from the arrival of a token the next one has to be fetched."""
        wanted_ms = max(int(lifetime_ms * (self.factor + self.jitter * random.random())), _LEAST_PAUSE_MS)
        if self.min_period_ms + self.buffer_ms > lifetime_ms:
            return wanted_ms
        return max(min(wanted_ms, lifetime_ms - self.buffer_ms), self.min_period_ms)


class TokenKeeper:
    """The token of one client. fetch: starts to fetch a token. A KafkaError of it is retried if the error is `retriable`.

    patience_ms: how long a fetch may take before another one may be started. wall_ms: returns the time in ms since the epoch.
    """

    def __init__(
        self,
        fetch: Callable[[], Promise[Token]],
        window: RefreshWindow,
        backoff: ExponentialBackoff,
        *,
        patience_ms: int,
        flows: Runs,
        now: Now,
        wall_ms: Callable[[], int],
        random: Random,
        log: DeferredLog,
    ) -> None:
        self._fetch = fetch
        self._window = window
        self._backoff = backoff
        self._patience_ms = patience_ms
        self._flows = flows
        self._now = now
        self._wall_ms = wall_ms
        self._random = random
        self._log = log
        self._token: Token | None = None
        self._ends_ms = self._ends_wall_ms = 0
        self._failures = 0
        self._error: KafkaError | None = None
        self._asked: Promise[Token] | None = None
        self._keeping = False
        self._hurry: Promise[None] = Promise()
        """Ends the pause before the next fetch."""
        self._late: list[Promise[Token]] = []
        """The fetches that were abandoned and have not returned."""

    def current(self) -> Promise[Token]:
        """Return a promise of the token for a login. If no token could be fetched, it is rejected with the reason, such as a TokenError."""
        if self._is_good():
            return Promise.resolved(self._token)  # type: ignore[arg-type]
        if self._error is not None:
            return Promise.rejected(self._error)
        if self._asked is None:
            self._asked = Promise()
        if not self._keeping:
            self._keeping = True
            self._flows.start(self._keep())
        elif not self._hurry.done:
            self._hurry.resolve(None)
        return self._asked

    def _is_good(self) -> bool:
        return self._token is not None and self._now.ms < self._ends_ms and self._wall_ms() < self._ends_wall_ms

    def _keep(self) -> Flow[None]:
        """Fetch tokens one after another, as long as they have an expiry time."""
        try:
            while (pause_ms := (yield from self._fetch_once())) is not None:
                self._hurry = Promise()
                yield WaitAny([self._hurry], pause_ms)
                if self._error is not None:
                    self._error = None
                    return
        finally:
            self._keeping = False

    def _fetch_once(self) -> Flow[int | None]:
        """Fetch a token. Return for how many milliseconds to wait before the next fetch; None to wait until a login needs a token."""
        if len(self._late) >= _MOST_LATE:
            return self._failed(unanswered(f"{_MOST_LATE} attempts to fetch a token have not returned"))
        fetching = self._fetch()
        if (yield WaitAny([fetching], self._patience_ms)) is None:
            self._late.append(fetching)
            fetching.on_done(self._came_late)
            return self._failed(unanswered(f"no token within {self._patience_ms} ms: what fetches it has not returned"))
        try:
            token = fetching.result()
        except KafkaError as error:
            return self._failed(error)
        except Exception as error:
            return self._failed(TokenError(f"fetching the token failed: {type(error).__name__}"))
        self._take(token)
        return None if token.lifetime_ms is None else self._window.after_ms(token.lifetime_ms, self._random)

    def _take(self, token: Token) -> None:
        self._failures = 0
        self._error = None
        asked, self._asked = self._asked, None
        self._token = token if token.lifetime_ms is not None else None
        self._ends_ms = self._now.ms + (token.lifetime_ms or 0)
        self._ends_wall_ms = self._wall_ms() + (token.lifetime_ms or 0)
        if asked is not None:
            asked.resolve(token)

    def _came_late(self, fetched: Promise[Token]) -> None:
        self._late.remove(fetched)
        if fetched.error is None and not self._is_good():
            self._take(fetched.result())

    def _failed(self, error: KafkaError) -> int:
        pause_ms = self._backoff.delay_ms(self._failures)
        self._failures += 1
        asked, self._asked = self._asked, None
        if self._is_good():
            left_s = (self._ends_ms - self._now.ms) // 1000
            self._log.warning("the next token could not be fetched; the one before is good for %d s: %s", left_s, error)
            if asked is not None:
                asked.resolve(self._token)  # type: ignore[arg-type]
        else:
            self._error = error
            if asked is not None:
                asked.reject(error)
        return pause_ms
