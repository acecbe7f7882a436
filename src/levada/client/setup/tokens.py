"""The token of a client, shared by all its connections, and fetched anew before it ends.

A connection that logs in asks for the current token. The first one has it fetched, and the others wait with it. From then on a flow
fetches the next one when most of the token's lifetime is over, as Java's client does (KIP-255, the sasl.login.refresh settings), so that
nobody has to wait again. While that fails, the old token is used to its end. Where none is left, who asks is told why, and the next attempt
has to wait: a service that is down is not asked by every connection that is tried.

A fetch may never return, such as a function of the user's that hangs. It is given up after some time, so that a later login has another one
begun. A token that comes from it after all is used.

The monotonic clock stands still while a machine sleeps, and the token expires all the same. So before a login uses it, the wall clock is
checked as well: a token that has expired by either clock is replaced at once.

A token that does not say when it ends serves the logins that wait for it when it comes, and no later one: those have another fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, Protocol

from levada.base.clock import ExponentialBackoff, Now
from levada.base.flow import Flow, WaitAny
from levada.base.promise import Promise
from levada.client.host import DeferredLog
from levada.credentials import unanswered
from levada.errors import KafkaError, TokenError

_LEAST_PAUSE_MS = 100
"""Whatever lifetime a service claims, it is not asked more often."""
_MOST_LATE = 4
"""No further fetch is begun while this many have not returned: each of them may block a thread for ever."""


class Runs(Protocol):
    """Runs flows with no deadline of their own (client.flow_runner.FlowsBeside)."""

    def start(self, flow: Flow[None]) -> Promise[None]:
        """Have a flow run from the next poll on."""
        ...


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it was fetched. lifetime_ms: for how long it is good from then on, None where nobody says."""

    value: str = field(repr=False)
    lifetime_ms: int | None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


class RefreshWindow(NamedTuple):
    """When to fetch anew: the settings sasl.login.refresh.*, as Java has them.

    factor, jitter: after so much of the lifetime, and up to so much more at random. min_period_ms: no sooner than that. buffer_ms: no
    closer to the end than that. Where both together are longer than the lifetime, neither counts.
    """

    factor: float
    jitter: float
    min_period_ms: int
    buffer_ms: int

    def after_ms(self, lifetime_ms: int, random: Random) -> int:
        """Return how long after a token has come the next one is to be fetched."""
        wanted_ms = max(int(lifetime_ms * (self.factor + self.jitter * random.random())), _LEAST_PAUSE_MS)
        if self.min_period_ms + self.buffer_ms > lifetime_ms:
            return wanted_ms
        return max(min(wanted_ms, lifetime_ms - self.buffer_ms), self.min_period_ms)


class TokenKeeper:
    """See the module's theory. fetch: has a token fetched; a KafkaError says whether that may be tried again (`retriable`).

    patience_ms: how long a fetch may take before another one is begun. wall_ms: the time since the epoch.
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
        """The fetches that were given up, and have not returned."""

    def current(self) -> Promise[Token]:
        """Return the token to log in with, once there is one. Rejected with what kept it from being fetched, such as a TokenError."""
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
        """Fetch, and fetch again, for as long as tokens say when they end."""
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
        """Return how long to wait before the next time, None when it is not to be fetched before somebody asks."""
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
