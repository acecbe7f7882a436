"""The OAUTHBEARER token of a client: all connections share it, and a new one is fetched before it expires.

The first login starts a fetch, and logins meanwhile wait for the same fetch. From then on a flow fetches the next token when most of the
lifetime of the current token is over, as Java's client does (KIP-255, sasl.login.refresh.*), so that no login has to wait again. While
fetches fail, the current token is used until it expires. Without a valid token, logins fail with the error of the last fetch until the
back-off is over, so that not every connection attempt sends a request to a token server that is down.

A fetch may never return, for example when a function of the program hangs. It is abandoned after some time, so that a later login can start
another fetch. If an abandoned fetch returns a token after all, and there is no valid token, that token is used.

The monotonic clock may stop while a machine sleeps, but the token expires all the same. So a login also checks the wall clock: a token that
has expired by either clock is replaced at once.

A token without an expiry time is used only by the logins that wait for it.
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
"""The shortest time from a token to the next fetch, unless the end of a very short lifetime comes before."""
_MOST_LATE = 4
"""No further fetch is started while this many abandoned fetches have not returned, because each may block a thread without end."""


class Runs(Protocol):
    """Runs flows that have no deadline of their own (FlowsBeside)."""

    def start(self, flow: Flow[None]) -> Promise[None]:
        """Start a flow with the next poll."""
        ...


@dataclass(frozen=True, slots=True)
class Token:
    """A fetched token. lifetime_ms: how many ms it is valid after the fetch; None if it has no known expiry time."""

    value: str = field(repr=False)
    lifetime_ms: int | None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


class RefreshWindow(NamedTuple):
    """Computes when to fetch the next token, by the settings sasl.login.refresh.* of Java's client.

    factor, jitter: the next fetch begins after `factor` of the lifetime, plus a random part of it, up to `jitter`. min_period_ms: the
    shortest time after the last fetch. buffer_ms: the shortest time before the end of the lifetime. If min_period_ms and buffer_ms together
    exceed the lifetime, neither applies.
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
    """The token of one client.

    fetch: starts to fetch a token. If it fails while the current token is valid, it is repeated after a back-off. If it fails without a
    valid token, logins get the error; the client connects again by itself only after an error that is `retriable`. patience_ms: how long a
    fetch may take before another one may be started. wall_ms: returns the time in ms since the epoch.
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
        """Resolved to end the pause before the next fetch."""
        self._late: list[Promise[Token]] = []
        """The fetches that were abandoned and have not returned."""

    def current(self) -> Promise[Token]:
        """Return a promise of the token for a login.

        If no token can be fetched, it is rejected with the error of the fetch, a KafkaError.
        """
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
        """Fetch tokens one after another. End after a token without an expiry time, and when a fetch has failed without a valid token."""
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
        """Fetch a token. Return how many ms to wait before the next fetch; None if the next login has to start it."""
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
